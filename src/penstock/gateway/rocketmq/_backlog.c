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
 * mutex; beyond that the two sides share nothing.
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
#include "../../store/rows.h"
#include "../../wire/rocketmq/pulls.h"

enum {
    LOANS_MAX = 64,
    SEATS_MAX = 256,
    PIECES_MAX = 64,
    PIECE_ROWS_MAX = 1 << 24,
    READ_BYTES = 64 * 1024,
    LARGE_BYTES = 128 * 1024,      /* answers leave before the read is done with: the client is at work on them meanwhile */
    ANSWER_BYTES_MAX = 512 * 1024, /* what is larger goes the other way */
    HEAD_BYTES_MAX = 512,
    MESSAGES_MAX = 100000,
    BYTES_MIN = 256 * 1024,
    BYTES_MAX = 8 * 1024 * 1024,
    COMMITS = 1,
    CALLED = -1, /* in place of a loan's number: the thread is to end */
};

enum state { FREE, LENT, GIVEN_BACK };

struct notes { /* what was handed out, and what the consumer said with it */
    int64_t pulls, messages, size_bytes, asked, next_offset, committed;
};

struct seat {
    PyObject *names[2]; /* group and topic: held, and ASCII */
    struct text group, topic;
    int64_t queue, version;
    int64_t min_row, min_offset, max_offset;
    int64_t first_row, end_row, piece_rows;
    Py_buffer pieces[PIECES_MAX];
    const unsigned char *rows[PIECES_MAX];
    int pieces_count;
    Py_buffer log;
    int64_t low, high, base; /* positions between which all is easy, and where the log's buffer begins */
    struct notes notes;
};

struct loan {
    pthread_mutex_t mutex;
    enum state state;
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

static const unsigned char *row_at(const struct seat *seat, int64_t row)
{
    int64_t number = row - seat->first_row;
    return seat->rows[number / seat->piece_rows] + number % seat->piece_rows * ROW_BYTES;
}

struct found {
    int64_t row, rows, messages, size_bytes, next_offset;
};

static int64_t within(int64_t value, int64_t low, int64_t high)
{
    return value < low ? low : value > high ? high : value;
}

/* What a pull gets: as many messages as its limits allow. 0 where what was lent does not tell. */
static int find(const struct seat *seat, const struct pull *pull, struct found *found)
{
    int64_t offset = pull->numbers[OFFSET];
    int64_t messages_max = within(pull->numbers[MESSAGES], 1, MESSAGES_MAX);
    int64_t bytes_max = within(pull->numbers[BYTES], BYTES_MIN, BYTES_MAX);
    if (offset < seat->min_offset || offset >= seat->max_offset)
        return 0;
    *found = (struct found){.row = seat->min_row + (offset - seat->min_offset)};
    if (found->row < seat->first_row || found->row >= seat->end_row || !begins_with(row_at(seat, found->row), offset))
        return 0;
    for (int64_t number = found->row; found->messages < messages_max; number++) {
        if (number == seat->end_row)
            return 0;
        const unsigned char *row = row_at(seat, number);
        int64_t position = little(row, 8), length = little(row + LENGTH, 4), count = little(row + COUNT, 4);
        if (position < seat->low || length < 0 || count < 0 || length > seat->high || position > seat->high - length)
            return 0;
        if (found->rows && (found->size_bytes + length > bytes_max || found->messages + count > messages_max))
            break;
        found->rows++;
        found->messages += count, found->size_bytes += length;
        found->next_offset = little(row + BASE, 8) + count;
        if (found->size_bytes > ANSWER_BYTES_MAX)
            return 0;
    }
    return 1;
}

static char *text(char *to, const char *text)
{
    size_t length = strlen(text);
    memcpy(to, text, length);
    return to + length;
}

static char *number(char *to, int64_t value)
{
    char digits[20];
    int count = 0;
    uint64_t left = value < 0 ? -(uint64_t)value : (uint64_t)value;
    if (value < 0)
        *to++ = '-';
    do
        digits[count++] = (char)('0' + left % 10);
    while (left /= 10);
    while (count)
        *to++ = digits[--count];
    return to;
}

/* See found_head in consume.py. */
static size_t head(char *to, const struct seat *seat, const struct found *found, int64_t opaque)
{
    char *at = text(to + 8, "{\"code\":0,\"extFields\":{\"maxOffset\":\"");
    at = text(number(at, seat->max_offset), "\",\"minOffset\":\"");
    at = text(number(at, seat->min_offset), "\",\"nextBeginOffset\":\"");
    at = text(number(at, found->next_offset),
              "\",\"suggestWhichBrokerId\":\"0\"},\"flag\":1,\"language\":\"JAVA\",\"opaque\":");
    at = text(number(at, opaque), ",\"remark\":\"FOUND\",\"serializeTypeCurrentRPC\":\"JSON\",\"version\":409}");
    int64_t length = at - (to + 8);
    big4((unsigned char *)to, (uint32_t)(4 + length + found->size_bytes));
    big4((unsigned char *)to + 4, (uint32_t)length);
    return 8 + (size_t)length;
}

/* The messages, those that touch in the log with one copy. `find` saw their rows, but others write to that memory: where
 * a message lies is looked at once more, with what is left of the room that was counted for them. */
static int copy(const struct seat *seat, const struct found *found, char *to)
{
    const char *log = (const char *)seat->log.buf;
    int64_t start = seat->base, end = seat->base, left = found->size_bytes;
    for (int64_t number = found->row; number < found->row + found->rows; number++) {
        const unsigned char *row = row_at(seat, number);
        int64_t position = little(row, 8), length = little(row + LENGTH, 4);
        if (position < seat->low || length < 0 || length > left || position > seat->high - length)
            return 0;
        if (position != end) {
            memcpy(to, log + (start - seat->base), (size_t)(end - start));
            to += end - start;
            start = position;
        }
        end = position + length;
        left -= length;
    }
    memcpy(to, log + (start - seat->base), (size_t)(end - start));
    return left == 0;
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

/* What has come; 0 when there is anything that is not for here. */
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
    int open = 1;
    while (open && (behind = pull_at(runner->in, at, there, &pull)) > 0 && answer(runner, loan, &pull)) {
        at = behind;
        if (runner->out_bytes >= LARGE_BYTES)
            open = leave(runner, loan);
    }
    open = open && leave(runner, loan);
    pass(runner, loan->socket, at);
    return open && at == there;
}

static void visit(Runner *runner, struct loan *loan)
{
    pthread_mutex_lock(&loan->mutex);
    if (loan->state == LENT && !serve(runner, loan)) {
        epoll_ctl(runner->poll, EPOLL_CTL_DEL, loan->socket, NULL);
        __atomic_store_n(&loan->state, GIVEN_BACK, __ATOMIC_RELEASE);
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
        if (runner->loans[number].state == FREE)
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
    loan->state = LENT;
    int failed = epoll_ctl(runner->poll, EPOLL_CTL_ADD, socket, &event);
    if (failed)
        loan->state = FREE;
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

static PyObject *take_back(PyObject *self, PyObject *which)
{
    Runner *runner = (Runner *)self;
    long number = PyLong_AsLong(which);
    if (number == -1 && PyErr_Occurred())
        return NULL;
    if (number < 0 || number >= LOANS_MAX || runner->loans[number].state == FREE) {
        PyErr_SetString(PyExc_ValueError, "no such loan");
        return NULL;
    }
    struct loan *loan = &runner->loans[number];
    lock(loan);
    if (loan->state == LENT)
        epoll_ctl(runner->poll, EPOLL_CTL_DEL, loan->socket, NULL);
    loan->state = FREE;
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
        if (__atomic_load_n(&runner->loans[number].state, __ATOMIC_ACQUIRE) != GIVEN_BACK)
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
