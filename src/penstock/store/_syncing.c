/* Syncing again and again while somebody waits, compiled: the same as `rounds_in_python` in syncing.py, which is its
 * definition and takes its place where this was not built.
 *
 * Why it is here: between two syncs a thread in Python needs the interpreter's lock, and the event loop, busy with what
 * the last sync covered, gives it up for moments that are too short to be caught. Syncs stood still for a millisecond
 * at a time. This loop does not hold the lock at all.
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <errno.h>
#include <stdint.h>
#include <unistd.h>

enum { SETTLED, GENERATION, WANTED, DONE, ROUNDS, MARKS };

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

static PyObject *rounds(PyObject *module, PyObject *arguments)
{
    int descriptor, bell, error;
    long long generation;
    Py_buffer marks;
    if (!PyArg_ParseTuple(arguments, "iLw*i", &descriptor, &generation, &marks, &bell))
        return NULL;
    if (marks.len != MARKS * (Py_ssize_t)sizeof(int64_t) || (uintptr_t)marks.buf % sizeof(int64_t)) {
        PyBuffer_Release(&marks);
        return PyErr_Format(PyExc_ValueError, "marks are %d integers of 64 bits", MARKS);
    }
    Py_BEGIN_ALLOW_THREADS
    error = sync_while_wanted(descriptor, generation, marks.buf, bell);
    Py_END_ALLOW_THREADS
    PyBuffer_Release(&marks);
    return PyLong_FromLong(error);
}

static PyMethodDef methods[] = {
    {"rounds", rounds, METH_VARARGS, "See rounds_in_python in syncing.py."},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, "_syncing", "Syncing while somebody waits, compiled.", -1, methods, NULL, NULL, NULL, NULL,
};

PyMODINIT_FUNC PyInit__syncing(void)
{
    return PyModule_Create(&definition);
}
