/* Handing out what consumers far behind ask for, from the log's mapping to the socket, by a thread that never takes the
 * interpreter's lock: see backlog.py, which says who is lent to it, and what it may hand out. Where this was not built,
 * nobody is lent.
 *
 * Why it is here: of what such a pull costs otherwise, half is the interpreter's, most of that not the pull's but the
 * loop's and the connection's. Consumers have few pulls under way, so how soon one is answered counts as much.
 *
 * A loan is a socket and seats: queues of the consumer, each with the rows and the stretch of the log that were found to
 * be checked and in memory. Whatever else comes, or is not plain in form, stays in the socket, and the loan is given back.
 * Nothing that was lent goes away before it is taken back: buffers are held. A loan is served or taken back under its own
 * mutex; beyond that the two sides share nothing but its state, by which whoever wants it back says so to the thread that
 * is busy with it.
 */
#define _GNU_SOURCE
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>
#include "seats.h"

enum {
    LOANS_MAX = 64,
    SEATS_MAX = 64,
    PIECE_ROWS_MAX = 1 << 24,
    READ_BYTES = 64 * 1024,
    LARGE_BYTES = 128 * 1024, /* answers leave, and it is the next consumer's turn: the client is at work meanwhile */
    COMMITS = 1,
    CALLED = -1, /* in place of a loan's number: the thread is to end */
};

enum { FREE, LENT, WANTED, GIVEN_BACK }; /* the states of a loan; wanted: about to be taken back */

struct loan {
    pthread_mutex_t mutex;
    int state;
    int socket;
    int64_t until_ns;
    struct seat *seats;
    int seats_count;
    char *unsent;
    size_t unsent_bytes;
};

typedef struct {
    PyObject_HEAD
    int poll, bell, caller;
    int running;
    pthread_t thread;
    struct loan loans[LOANS_MAX];
    unsigned char *in;
    char *out;
    size_t out_bytes;
} Runner;

static int64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static int state_of(const struct loan *loan)
{
    return __atomic_load_n(&loan->state, __ATOMIC_ACQUIRE);
}

static int passes_to(struct loan *loan, int from, int to)
{
    return __atomic_compare_exchange_n(&loan->state, &from, to, 0, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE);
}

static void ring(int bell)
{
    static const uint64_t once = 1;
    while (write(bell, &once, sizeof once) < 0 && errno == EINTR) /* one that rings already needs no more */
        ;
}

/* --- one pull ------------------------------------------------------------------------------------------------------- */

static struct seat *seat_of(struct loan *loan, const struct pull *pull)
{
    for (struct seat *seat = loan->seats; seat < loan->seats + loan->seats_count; seat++)
        if (seat->queue == pull->numbers[QUEUE] && same(&seat->topic, &pull->topic) && same(&seat->group, &pull->group))
            return seat;
    return NULL;
}

static int answer(Runner *runner, struct loan *loan, const struct pull *pull)
{
    struct seat *seat = seat_of(loan, pull);
    struct found found;
    if (seat == NULL || pull->numbers[SUB_VERSION] > seat->version || !find(seat, pull, &found))
        return 0;
    char *to = runner->out + runner->out_bytes;
    size_t head_bytes = head(to, seat, &found, pull->head.opaque);
    if (!copy(seat, &found, to + head_bytes))
        return 0;
    runner->out_bytes += head_bytes + (size_t)found.size_bytes;
    seat->notes.pulls++;
    seat->notes.messages += found.messages, seat->notes.size_bytes += found.size_bytes;
    seat->notes.asked = pull->numbers[OFFSET], seat->notes.next_offset = found.next_offset;
    if (pull->numbers[FLAGS] & COMMITS && pull->numbers[COMMIT] >= 0)
        seat->notes.committed = pull->numbers[COMMIT];
    return 1;
}

/* --- one read ------------------------------------------------------------------------------------------------------- */

/* Send what is there; 0 when the socket did not take all of it: the rest is kept for whoever gets the loan back. */
static int leave(Runner *runner, struct loan *loan)
{
    size_t sent = 0, bytes = runner->out_bytes;
    runner->out_bytes = 0;
    while (sent < bytes) {
        ssize_t some = send(loan->socket, runner->out + sent, bytes - sent, MSG_DONTWAIT | MSG_NOSIGNAL);
        if (some < 0 && errno == EINTR)
            continue;
        if (some < 0)
            break;
        sent += (size_t)some;
    }
    if (sent == bytes)
        return 1;
    loan->unsent_bytes = bytes - sent;
    loan->unsent = malloc(loan->unsent_bytes);
    if (loan->unsent == NULL) /* part of an answer is no answer: the client is to hear that the connection is gone */
        shutdown(loan->socket, SHUT_RDWR), loan->unsent_bytes = 0;
    else
        memcpy(loan->unsent, runner->out + sent, loan->unsent_bytes);
    return 0;
}

/* So many bytes were read: they do not come again. */
static void pass(Runner *runner, int socket, int64_t bytes)
{
    while (bytes > 0) {
        ssize_t some = recv(socket, runner->in, (size_t)bytes, MSG_DONTWAIT);
        if (some < 0 && errno == EINTR)
            continue;
        if (some <= 0)
            return; /* only when the connection broke meanwhile */
        bytes -= some;
    }
}

/* What has come, as far as its answers leave with one write; 0 when the loan is over. */
static int serve(Runner *runner, struct loan *loan)
{
    ssize_t there;
    do
        there = recv(loan->socket, runner->in, READ_BYTES, MSG_PEEK | MSG_DONTWAIT);
    while (there < 0 && errno == EINTR);
    if (there < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
        return 1;
    if (there <= 0 || now_ns() >= loan->until_ns)
        return 0;
    int64_t at = 0, behind;
    struct pull pull;
    int ours = 1;
    while (ours && at < there && runner->out_bytes < LARGE_BYTES) {
        behind = pull_at(runner->in, at, there, &pull);
        ours = behind > 0 && answer(runner, loan, &pull);
        if (ours)
            at = behind;
    }
    int open = leave(runner, loan), cut = there == READ_BYTES && at > 0; /* cut: the rest of a pull may be behind it */
    pass(runner, loan->socket, at);
    return open && (ours || cut);
}

static void visit(Runner *runner, struct loan *loan)
{
    if (state_of(loan) != LENT)
        return;
    pthread_mutex_lock(&loan->mutex);
    if (state_of(loan) == LENT && !serve(runner, loan) && passes_to(loan, LENT, GIVEN_BACK)) {
        epoll_ctl(runner->poll, EPOLL_CTL_DEL, loan->socket, NULL);
        ring(runner->bell);
    }
    pthread_mutex_unlock(&loan->mutex);
}

static void *work(void *arg)
{
    Runner *runner = arg;
    struct epoll_event events[16];
    pthread_setname_np(pthread_self(), "backlog");
    for (;;) {
        int count = epoll_wait(runner->poll, events, 16, -1);
        for (int index = 0; index < count; index++) {
            if (events[index].data.fd == CALLED)
                return NULL;
            visit(runner, &runner->loans[events[index].data.fd]);
        }
    }
}

/* --- what Python calls ---------------------------------------------------------------------------------------------- */

static void lock(struct loan *loan)
{
    if (pthread_mutex_trylock(&loan->mutex)) {
        Py_BEGIN_ALLOW_THREADS
        pthread_mutex_lock(&loan->mutex);
        Py_END_ALLOW_THREADS
    }
}

static void clear_seat(struct seat *seat)
{
    for (int index = 0; index < seat->pieces_count; index++)
        PyBuffer_Release(&seat->pieces[index]);
    if (seat->log.obj != NULL)
        PyBuffer_Release(&seat->log);
    Py_CLEAR(seat->names[0]);
    Py_CLEAR(seat->names[1]);
}

static void clear_seats(struct loan *loan)
{
    for (int index = 0; index < loan->seats_count; index++)
        clear_seat(&loan->seats[index]);
    PyMem_Free(loan->seats);
    loan->seats = NULL;
    loan->seats_count = 0;
}

static int name_in(PyObject *name, PyObject **held, struct text *text)
{
    if (!PyUnicode_Check(name) || !PyUnicode_IS_ASCII(name)) {
        PyErr_SetString(PyExc_ValueError, "a name is ASCII");
        return -1;
    }
    *held = Py_NewRef(name);
    *text = (struct text){PyUnicode_DATA(name), PyUnicode_GET_LENGTH(name), 0};
    return 0;
}

static int piece_in(struct seat *seat, PyObject *piece)
{
    Py_buffer *view = &seat->pieces[seat->pieces_count];
    long long at;
    if (!PyTuple_Check(piece) || !PyArg_ParseTuple(piece, "y*L", view, &at)) {
        if (!PyErr_Occurred())
            PyErr_SetString(PyExc_TypeError, "a piece is a view and a place");
        return -1;
    }
    seat->pieces_count++;
    if (at < 0 || at > view->len || seat->piece_rows > (view->len - at) / ROW_BYTES) {
        PyErr_SetString(PyExc_ValueError, "no such piece");
        return -1;
    }
    seat->rows[seat->pieces_count - 1] = (const unsigned char *)view->buf + at;
    return 0;
}

static int pieces_in(struct seat *seat, PyObject *pieces)
{
    Py_ssize_t count = PyList_GET_SIZE(pieces);
    if (seat->piece_rows <= 0 || seat->piece_rows > PIECE_ROWS_MAX || count > PIECES_MAX || seat->first_row < 0 ||
        seat->end_row < seat->first_row || seat->end_row - seat->first_row > count * seat->piece_rows) {
        PyErr_SetString(PyExc_ValueError, "not all rows are in the pieces");
        return -1;
    }
    for (Py_ssize_t index = 0; index < count; index++)
        if (piece_in(seat, PyList_GET_ITEM(pieces, index)))
            return -1;
    return 0;
}

static int seat_in(struct seat *seat, PyObject *given)
{
    PyObject *group, *topic, *pieces;
    long long queue, version, min_row, min_offset, max_offset, first_row, end_row, piece_rows, low, high, base;
    if (!PyTuple_Check(given)) {
        PyErr_SetString(PyExc_TypeError, "a seat is a tuple");
        return -1;
    }
    if (!PyArg_ParseTuple(given, "UULLLLLLLLO!LLy*L", &group, &topic, &queue, &version, &min_row, &min_offset, &max_offset,
                          &first_row, &end_row, &piece_rows, &PyList_Type, &pieces, &low, &high, &seat->log, &base))
        return -1;
    seat->queue = queue, seat->version = version;
    seat->min_row = min_row, seat->min_offset = min_offset, seat->max_offset = max_offset;
    seat->first_row = first_row, seat->end_row = end_row, seat->piece_rows = piece_rows;
    seat->low = low, seat->high = high, seat->base = base;
    seat->notes.asked = seat->notes.committed = -1;
    if (min_row < 0 || min_offset < 0 || base < 0 || low < base || high < low || high - base > seat->log.len) {
        PyErr_SetString(PyExc_ValueError, "no such rows, or a stretch outside of its segment");
        return -1;
    }
    if (name_in(group, &seat->names[0], &seat->group) || name_in(topic, &seat->names[1], &seat->topic))
        return -1;
    return pieces_in(seat, pieces);
}

static int seats_in(struct loan *loan, PyObject *given)
{
    Py_ssize_t count = PyList_GET_SIZE(given);
    if (count > SEATS_MAX) {
        PyErr_Format(PyExc_ValueError, "at most %d seats", SEATS_MAX);
        return -1;
    }
    loan->seats = PyMem_Calloc((size_t)count, sizeof *loan->seats);
    if (loan->seats == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    for (Py_ssize_t index = 0; index < count; index++) {
        loan->seats_count++;
        if (seat_in(&loan->seats[index], PyList_GET_ITEM(given, index))) {
            clear_seats(loan);
            return -1;
        }
    }
    return 0;
}

static int free_loan(const Runner *runner)
{
    for (int number = 0; number < LOANS_MAX; number++)
        if (state_of(&runner->loans[number]) == FREE)
            return number;
    return -1;
}

static PyObject *lend(PyObject *self, PyObject *arguments)
{
    Runner *runner = (Runner *)self;
    int socket;
    long long lasts_ms;
    PyObject *seats;
    if (!PyArg_ParseTuple(arguments, "iLO!", &socket, &lasts_ms, &PyList_Type, &seats))
        return NULL;
    int number = free_loan(runner);
    if (number < 0)
        return PyLong_FromLong(number);
    struct loan *loan = &runner->loans[number];
    if (seats_in(loan, seats))
        return NULL;
    struct epoll_event event = {.events = EPOLLIN | EPOLLRDHUP, .data.fd = number};
    loan->socket = socket;
    loan->until_ns = now_ns() + lasts_ms * 1000000;
    lock(loan);
    passes_to(loan, FREE, LENT);
    int failed = epoll_ctl(runner->poll, EPOLL_CTL_ADD, socket, &event);
    if (failed)
        passes_to(loan, LENT, FREE);
    pthread_mutex_unlock(&loan->mutex);
    if (failed) {
        PyErr_SetFromErrno(PyExc_OSError);
        clear_seats(loan);
        return NULL;
    }
    return PyLong_FromLong(number);
}

static PyObject *all_notes(const struct loan *loan)
{
    PyObject *all = PyList_New(0);
    for (int index = 0; all != NULL && index < loan->seats_count; index++) {
        const struct notes *notes = &loan->seats[index].notes;
        PyObject *one = Py_BuildValue("(LLLLLL)", (long long)notes->pulls, (long long)notes->messages,
                                      (long long)notes->size_bytes, (long long)notes->asked,
                                      (long long)notes->next_offset, (long long)notes->committed);
        if (one == NULL || PyList_Append(all, one))
            Py_CLEAR(all);
        Py_XDECREF(one);
    }
    return all;
}

/* Before many are taken back one after the other: no more visits are begun. */
static PyObject *want_all(PyObject *self, PyObject *nothing)
{
    for (int number = 0; number < LOANS_MAX; number++)
        passes_to(&((Runner *)self)->loans[number], LENT, WANTED);
    Py_RETURN_NONE;
}

static PyObject *take_back(PyObject *self, PyObject *which)
{
    Runner *runner = (Runner *)self;
    long number = PyLong_AsLong(which);
    if (number == -1 && PyErr_Occurred())
        return NULL;
    if (number < 0 || number >= LOANS_MAX || state_of(&runner->loans[number]) == FREE) {
        PyErr_SetString(PyExc_ValueError, "no such loan");
        return NULL;
    }
    struct loan *loan = &runner->loans[number];
    passes_to(loan, LENT, WANTED); /* before the mutex, or a busy thread could take that again and again */
    lock(loan);
    if (passes_to(loan, WANTED, FREE))
        epoll_ctl(runner->poll, EPOLL_CTL_DEL, loan->socket, NULL);
    passes_to(loan, GIVEN_BACK, FREE);
    pthread_mutex_unlock(&loan->mutex);
    PyObject *notes = all_notes(loan);
    PyObject *found = notes == NULL ? NULL : Py_BuildValue("(y#N)", loan->unsent == NULL ? "" : loan->unsent,
                                                              (Py_ssize_t)loan->unsent_bytes, notes);
    free(loan->unsent);
    loan->unsent = NULL;
    loan->unsent_bytes = 0;
    clear_seats(loan);
    return found;
}

/* The numbers of the loans that were given back. */
static PyObject *given_back(PyObject *self, PyObject *nothing)
{
    Runner *runner = (Runner *)self;
    uint64_t times;
    while (read(runner->bell, &times, sizeof times) < 0 && errno == EINTR)
        ;
    PyObject *found = PyList_New(0);
    for (int number = 0; found != NULL && number < LOANS_MAX; number++) {
        if (state_of(&runner->loans[number]) != GIVEN_BACK)
            continue;
        PyObject *one = PyLong_FromLong(number);
        if (one == NULL || PyList_Append(found, one))
            Py_CLEAR(found);
        Py_XDECREF(one);
    }
    return found;
}

static void end_thread(Runner *runner)
{
    if (!runner->running)
        return;
    runner->running = 0;
    ring(runner->caller);
    Py_BEGIN_ALLOW_THREADS
    pthread_join(runner->thread, NULL);
    Py_END_ALLOW_THREADS
}

static PyObject *stop(PyObject *self, PyObject *nothing)
{
    end_thread((Runner *)self);
    Py_RETURN_NONE;
}

static int start(Runner *runner)
{
    struct epoll_event called = {.events = EPOLLIN, .data.fd = CALLED};
    sigset_t all, before;
    runner->in = malloc(READ_BYTES);
    runner->out = malloc(LARGE_BYTES + HEAD_BYTES_MAX + ANSWER_BYTES_MAX);
    runner->poll = epoll_create1(EPOLL_CLOEXEC);
    runner->bell = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    runner->caller = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (runner->in == NULL || runner->out == NULL) {
        errno = ENOMEM;
        return -1;
    }
    if (runner->poll < 0 || runner->bell < 0 || runner->caller < 0 ||
        epoll_ctl(runner->poll, EPOLL_CTL_ADD, runner->caller, &called))
        return -1;
    sigfillset(&all); /* signals are for the interpreter */
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int error = pthread_create(&runner->thread, NULL, work, runner);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    errno = error;
    runner->running = !error;
    return error ? -1 : 0;
}

static PyObject *made(PyTypeObject *type, PyObject *arguments, PyObject *words)
{
    Runner *runner = (Runner *)type->tp_alloc(type, 0);
    if (runner == NULL)
        return NULL;
    runner->poll = runner->bell = runner->caller = -1;
    for (int number = 0; number < LOANS_MAX; number++)
        pthread_mutex_init(&runner->loans[number].mutex, NULL);
    if (start(runner)) {
        PyErr_SetFromErrno(PyExc_OSError);
        Py_DECREF(runner);
        return NULL;
    }
    return (PyObject *)runner;
}

static void gone(PyObject *self)
{
    Runner *runner = (Runner *)self;
    PyTypeObject *type = Py_TYPE(self);
    end_thread(runner);
    for (int number = 0; number < LOANS_MAX; number++) {
        clear_seats(&runner->loans[number]);
        free(runner->loans[number].unsent);
        pthread_mutex_destroy(&runner->loans[number].mutex);
    }
    int all[] = {runner->poll, runner->bell, runner->caller};
    for (int index = 0; index < 3; index++)
        if (all[index] >= 0)
            close(all[index]);
    free(runner->in);
    free(runner->out);
    type->tp_free(self);
    Py_DECREF(type);
}

static PyObject *fileno_of_bell(PyObject *self, PyObject *nothing)
{
    return PyLong_FromLong(((Runner *)self)->bell);
}

static PyMethodDef runner_methods[] = {
    {"fileno", fileno_of_bell, METH_NOARGS, "Can be read when loans were given back."},
    {"lend", lend, METH_VARARGS, "A socket, for so many milliseconds, and seats; the number of the loan, -1 when there are too many."},
    {"want_all", want_all, METH_NOARGS, "All loans are about to be taken back."},
    {"take_back", take_back, METH_O, "End a loan: what the socket has not taken of its answers, and the notes of each seat."},
    {"given_back", given_back, METH_NOARGS, "The loans that were given back, to be taken back."},
    {"stop", stop, METH_NOARGS, "End the thread."},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot runner_slots[] = {
    {Py_tp_new, made}, {Py_tp_dealloc, gone}, {Py_tp_methods, runner_methods}, {0, NULL},
};

static PyType_Spec runner_spec = {"penstock.gateway.rocketmq._backlog.runner", sizeof(Runner), 0, Py_TPFLAGS_DEFAULT, runner_slots};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, "_backlog", "A thread that hands out backlogs.", -1, NULL, NULL, NULL, NULL, NULL,
};

PyMODINIT_FUNC PyInit__backlog(void)
{
    PyObject *module = PyModule_Create(&definition), *type = module == NULL ? NULL : PyType_FromSpec(&runner_spec);
    if (type == NULL || PyModule_AddObjectRef(module, "runner", type))
        Py_CLEAR(module);
    Py_XDECREF(type);
    return module;
}
