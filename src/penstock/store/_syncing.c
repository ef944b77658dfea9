/* Syncing again and again while somebody waits, compiled: the same as the functions of syncing.py whose names end in
 * `_in_python`, which are its definition and take its place where this was not built.
 *
 * Why it is here: between two syncs a thread in Python needs the interpreter's lock, and the event loop, busy with what
 * the last sync covered, gives it up for moments that are too short to be caught. Syncs stood still for a millisecond
 * at a time. This loop does not hold the lock at all. Nor does it need it to fall asleep and to wake up: with one message
 * at a time, handing the lock to and fro was half of what a synced message cost.
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <errno.h>
#include <poll.h>
#include <stdint.h>
#include <unistd.h>

enum { SETTLED, GENERATION, WANTED, DONE, ROUNDS, ASLEEP, STOPPED, MARKS };

#ifdef __APPLE__ /* fsync leaves it in the drive's own memory there */
#include <fcntl.h>
#define SYNC(descriptor) fcntl(descriptor, F_FULLFSYNC)
#else
#define SYNC(descriptor) fdatasync(descriptor)
#endif

static int64_t load(const int64_t *mark)
{
    return __atomic_load_n(mark, __ATOMIC_ACQUIRE);
}

static void store(int64_t *mark, int64_t value)
{
    __atomic_store_n(mark, value, __ATOMIC_RELEASE);
}

static int synced(int descriptor)
{
    int failed;
    do
        failed = SYNC(descriptor);
    while (failed && errno == EINTR);
    return failed ? errno : 0;
}

static void ring(int bell)
{
    static const uint64_t once = 1;
    ssize_t done;
    do
        done = write(bell, &once, sizeof once);
    while (done < 0 && errno == EINTR); /* a bell that is full rings anyway */
}

static int sync_while_wanted(int descriptor, int64_t generation, int64_t *marks, int bell)
{
    while (load(&marks[WANTED]) > load(&marks[DONE])) {
        int64_t position = load(&marks[SETTLED]);
        if (load(&marks[GENERATION]) != generation || position <= load(&marks[DONE]))
            return 0;
        int error = synced(descriptor);
        if (error)
            return error;
        store(&marks[DONE], position);
        store(&marks[ROUNDS], marks[ROUNDS] + 1);
        ring(bell);
    }
    return 0;
}

static int is_called(int calls, int sleep_ms)
{
    struct pollfd ear = {.fd = calls, .events = POLLIN};
    char said[4096];
    if (poll(&ear, 1, sleep_ms) <= 0) /* a signal ends a sleep early: nothing is lost by that */
        return 0;
    while (read(calls, said, sizeof said) < 0 && errno == EINTR)
        ;
    return 1;
}

static int slept(int64_t *marks, int calls, int sleep_ms)
{
    __atomic_store_n(&marks[ASLEEP], 1, __ATOMIC_SEQ_CST);
    __atomic_thread_fence(__ATOMIC_SEQ_CST); /* whoever did not see that is seen here */
    int called = load(&marks[WANTED]) > load(&marks[DONE]);
    if (!called && !load(&marks[STOPPED]))
        called = is_called(calls, sleep_ms) && !load(&marks[STOPPED]);
    store(&marks[ASLEEP], 0);
    return called;
}

static int sync_and_sleep(int descriptor, int64_t generation, int64_t *marks, int bell, int calls, int sleep_ms)
{
    int error;
    while (!(error = sync_while_wanted(descriptor, generation, marks, bell)))
        if (load(&marks[WANTED]) > load(&marks[DONE]) || calls < 0 || !slept(marks, calls, sleep_ms))
            return 0;
    return error;
}

static int are_marks(Py_buffer *marks)
{
    if (marks->len == MARKS * (Py_ssize_t)sizeof(int64_t) && (uintptr_t)marks->buf % sizeof(int64_t) == 0)
        return 1;
    PyErr_Format(PyExc_ValueError, "marks are %d integers of 64 bits", MARKS);
    PyBuffer_Release(marks);
    return 0;
}

static PyObject *rounds(PyObject *module, PyObject *arguments)
{
    int descriptor, bell, error, calls = -1, sleep_ms = 0;
    long long generation;
    Py_buffer marks;
    if (!PyArg_ParseTuple(arguments, "iLw*i|ii", &descriptor, &generation, &marks, &bell, &calls, &sleep_ms) ||
        !are_marks(&marks))
        return NULL;
    Py_BEGIN_ALLOW_THREADS
    error = sync_and_sleep(descriptor, generation, marks.buf, bell, calls, sleep_ms);
    Py_END_ALLOW_THREADS
    PyBuffer_Release(&marks);
    return PyLong_FromLong(error);
}

static PyObject *sleep_until_called(PyObject *module, PyObject *arguments)
{
    int calls, sleep_ms, called;
    Py_buffer marks;
    if (!PyArg_ParseTuple(arguments, "w*ii", &marks, &calls, &sleep_ms) || !are_marks(&marks))
        return NULL;
    Py_BEGIN_ALLOW_THREADS
    called = slept(marks.buf, calls, sleep_ms);
    Py_END_ALLOW_THREADS
    PyBuffer_Release(&marks);
    return PyBool_FromLong(called);
}

static PyObject *call(PyObject *module, PyObject *arguments)
{
    int caller;
    Py_buffer marks;
    if (!PyArg_ParseTuple(arguments, "w*i", &marks, &caller) || !are_marks(&marks))
        return NULL;
    __atomic_thread_fence(__ATOMIC_SEQ_CST); /* what was marked before is seen, or it is asleep by now */
    if (load((int64_t *)marks.buf + ASLEEP))
        while (write(caller, "!", 1) < 0 && errno == EINTR) /* one that is called already needs no more */
            ;
    PyBuffer_Release(&marks);
    Py_RETURN_NONE;
}

static PyMethodDef methods[] = {
    {"rounds", rounds, METH_VARARGS, "See rounds_in_python in syncing.py."},
    {"sleep", sleep_until_called, METH_VARARGS, "See sleep_in_python in syncing.py."},
    {"call", call, METH_VARARGS, "See call_in_python in syncing.py."},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, "_syncing", "Syncing while somebody waits, compiled.", -1, methods, NULL, NULL, NULL, NULL,
};

PyMODINIT_FUNC PyInit__syncing(void)
{
    return PyModule_Create(&definition);
}
