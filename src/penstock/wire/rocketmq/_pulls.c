/* Ordinary pulls, compiled: the same as `front_in_python` in pulls.py, which is the definition and takes its place where
 * this was not built. What is not plain in form is left to others: see headers.h.
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include "headers.h"

#define PULL 11
#define ORDINARY_BITS 3 /* an offset is to be committed; it may wait */
#define GROUP_BYTES_MAX 255
#define MESSAGES_DEFAULT 32

/* The numbers among the ext fields: their names, and between which bounds they are. */
enum { QUEUE, OFFSET, MESSAGES, BYTES, FLAGS, COMMIT, WAIT_MS, SUB_VERSION, NUMBERS };

static const struct {
    const char *name;
    int64_t low, high;
} KNOWN[NUMBERS] = {
    [QUEUE] = {"queueId", INT64_MIN, INT64_MAX},
    [OFFSET] = {"queueOffset", INT64_MIN, INT64_MAX},
    [MESSAGES] = {"maxMsgNums", INT64_MIN, INT64_MAX},
    [BYTES] = {"maxMsgBytes", INT64_MIN, INT64_MAX},
    [FLAGS] = {"sysFlag", 0, ORDINARY_BITS},
    [COMMIT] = {"commitOffset", INT64_MIN, INT64_MAX},
    [WAIT_MS] = {"suspendTimeoutMillis", INT64_MIN, INT64_MAX},
    [SUB_VERSION] = {"subVersion", INT64_MIN, INT64_MAX},
};

enum { GROUP = NUMBERS, TOPIC, FIELDS }; /* the texts, behind the numbers */

struct pull {
    struct head head;
    struct text group, topic;
    int64_t numbers[NUMBERS];
};

/* Which field a name stands for; FIELDS when it has no meaning here, -1 when whoever sends it wants something else. */
static int field_named(const struct text *name)
{
    if (is(name, "consumerGroup"))
        return GROUP;
    if (is(name, "topic"))
        return TOPIC;
    for (int field = 0; field < NUMBERS; field++)
        if (is(name, KNOWN[field].name))
            return field;
    return is(name, "asStored") ? -1 : FIELDS;
}

static int ext_field(struct pull *pull, int field, const struct text *value)
{
    switch (field) {
    case GROUP:
        pull->group = *value;
        return value->length > 0 && value->length <= GROUP_BYTES_MAX;
    case TOPIC:
        pull->topic = *value;
        return value->length > 0 && value->length <= TOPIC_BYTES_MAX;
    default:
        return number_in_text(value, KNOWN[field].low, KNOWN[field].high, &pull->numbers[field]);
    }
}

static int ext_at(struct cursor *cursor, void *into)
{
    const unsigned needed = 1u << GROUP | 1u << TOPIC | 1u << QUEUE | 1u << OFFSET;
    unsigned seen = 0;
    if (!passes(cursor, '{'))
        return 0;
    do {
        struct text name, value;
        if (!text_at(cursor, &name) || name.escaped || !passes(cursor, ':') || !text_at(cursor, &value) || value.escaped)
            return 0;
        int field = field_named(&name);
        if (field == FIELDS)
            continue;
        if (field < 0 || seen & 1u << field || !ext_field(into, field, &value))
            return 0;
        seen |= 1u << field;
    } while (passes(cursor, ','));
    return (seen & needed) == needed && passes(cursor, '}');
}

/* Whether there is an ordinary pull at `at`; where its frame ends, or 0. */
static int64_t pull_at(const unsigned char *frames, int64_t at, int64_t end, struct pull *pull)
{
    static const char begin[] = "{\"code\":11,";
    struct cursor header;
    int64_t behind = frame_at(frames, at, end, &header);
    if (!behind || header.end != frames + behind || header.end - header.at < (Py_ssize_t)sizeof begin ||
        memcmp(header.at, begin, sizeof begin - 1))
        return 0;
    memset(pull, 0, sizeof *pull);
    pull->numbers[MESSAGES] = MESSAGES_DEFAULT;
    return head_at(header, &pull->head, ext_at, pull) && pull->head.code == PULL && pull->head.flag == 0 ? behind : 0;
}

static PyObject *asked(const struct pull *pull, int64_t behind)
{
    const int64_t *numbers = pull->numbers;
    return Py_BuildValue("(LLLs#s#LLLLLLLL)", (long long)behind, (long long)pull->head.opaque,
                         (long long)pull->head.version, (const char *)pull->group.at, pull->group.length,
                         (const char *)pull->topic.at, pull->topic.length, (long long)numbers[QUEUE],
                         (long long)numbers[OFFSET], (long long)numbers[MESSAGES], (long long)numbers[BYTES],
                         (long long)numbers[FLAGS], (long long)numbers[COMMIT], (long long)numbers[WAIT_MS],
                         (long long)numbers[SUB_VERSION]);
}

/* All of them, one behind the other; a new list. */
static PyObject *pulls_at(const unsigned char *frames, int64_t at, int64_t end)
{
    PyObject *found = PyList_New(0);
    struct pull pull;
    while (found != NULL && (at = pull_at(frames, at, end, &pull)) > 0) {
        PyObject *one = asked(&pull, at);
        if (one == NULL || PyList_Append(found, one))
            Py_CLEAR(found);
        Py_XDECREF(one);
    }
    return found;
}

static PyObject *front(PyObject *module, PyObject *arguments)
{
    Py_buffer frames;
    long long at, end;
    PyObject *found = NULL;
    if (!PyArg_ParseTuple(arguments, "y*LL", &frames, &at, &end))
        return NULL;
    if (at < 0 || end > frames.len)
        PyErr_SetString(PyExc_ValueError, "the frames are not within their buffer");
    else
        found = pulls_at(frames.buf, at, end);
    PyBuffer_Release(&frames);
    return found;
}

static PyMethodDef methods[] = {
    {"front", front, METH_VARARGS, "See front_in_python in pulls.py."},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, "_pulls", "Ordinary pulls, compiled.", -1, methods, NULL, NULL, NULL, NULL,
};

PyMODINIT_FUNC PyInit__pulls(void)
{
    return PyModule_Create(&definition);
}
