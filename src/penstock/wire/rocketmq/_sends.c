/* Ordinary sends, compiled: the same as the functions `..._in_python` in sends.py, which are the definitions and take
 * their place where this was not built. Tests feed both the same input and compare what comes out.
 * What is not plain in form is left to others: see headers.h.
 */
#include "../../slots.h"
#include "headers.h"
#include "tags.h"

#define SEND_V2 310
#define SEND_BATCH 320
#define ONEWAY 2
#define TRANSACTION_BITS 0xC
#define V6_BITS 0x30
#define PROPERTIES_BYTES_MAX 32767
#define SHARED_MAX 32 /* properties of a batch */
#define OFFSET_BITS 36

/* What is asked for one message, as `ASKED` in sends.py has it. */
struct asked {
    int64_t opaque, oneway, batch, queue_index, flag, sys_flag, born_ms, body_at, body_bytes, tag;
};

/* --- a header ------------------------------------------------------------------------------------------------------- */

struct header {
    struct head head;
    struct text topic, producer, properties;
    struct asked asked;
};

/* One of the ext fields, which have one letter each. 0 when the send is not an ordinary one. */
static int ext_field(struct header *header, unsigned char name, const struct text *value)
{
    int64_t ignored;
    switch (name) {
    case 'a':
        header->producer = *value;
        return 1;
    case 'b':
        header->topic = *value;
        return value->length > 0 && value->length <= TOPIC_BYTES_MAX;
    case 'd':
    case 'l':
        return number_in_text(value, INT64_MIN, INT64_MAX, &ignored);
    case 'e':
        return number_in_text(value, 0, INT32_MAX, &header->asked.queue_index);
    case 'f':
        return number_in_text(value, 0, INT32_MAX, &header->asked.sys_flag) &&
               !(header->asked.sys_flag & (TRANSACTION_BITS | V6_BITS));
    case 'g':
        return number_in_text(value, INT64_MIN, INT64_MAX, &header->asked.born_ms);
    case 'h':
        return number_in_text(value, INT32_MIN, INT32_MAX, &header->asked.flag);
    case 'i':
        header->properties = *value;
        return 1;
    case 'j':
        return is(value, "0");
    case 'm':
        header->asked.batch = is(value, "true");
        return header->asked.batch || is(value, "false");
    default:
        return 1; /* of no meaning here */
    }
}

/* The ext fields, up to the brace that ends them. */
static int ext_at(struct cursor *cursor, void *into)
{
    struct header *header = into;
    uint32_t seen = 0;
    if (!passes(cursor, '{'))
        return 0;
    do {
        struct text name, value;
        if (!text_at(cursor, &name) || name.escaped || !passes(cursor, ':') || !text_at(cursor, &value))
            return 0;
        unsigned char letter = name.length == 1 ? *name.at : 0;
        if (value.escaped && letter != 'i') /* whether it is a sound one is not looked into here */
            return 0;
        if (name.length != 1)
            continue;
        if (letter < 'a' || letter > 'z' || seen & 1u << (letter - 'a') || !ext_field(header, letter, &value))
            return 0;
        seen |= 1u << (letter - 'a');
    } while (passes(cursor, ','));
    return seen & 1u << ('b' - 'a') && passes(cursor, '}');
}

/* Whether a header is that of an ordinary send; it is in `header` then. */
static int header_at(struct cursor cursor, struct header *header)
{
    memset(header, 0, sizeof *header);
    if (!head_at(cursor, &header->head, ext_at, header))
        return 0;
    header->asked.opaque = header->head.opaque;
    header->asked.oneway = header->head.flag == ONEWAY;
    return header->head.code == (header->asked.batch ? SEND_BATCH : SEND_V2) &&
           (header->head.flag == 0 || header->head.flag == ONEWAY);
}

/* --- properties ----------------------------------------------------------------------------------------------------- */

static int hex_digit(unsigned char byte)
{
    return byte >= '0' && byte <= '9' ? byte - '0'
           : byte >= 'a' && byte <= 'f' ? byte - 'a' + 10
           : byte >= 'A' && byte <= 'F' ? byte - 'A' + 10
                                        : -1;
}

/* The text without its escapes, at `to`, which has room for as many bytes as it has with them; -1 for one that is not
 * ASCII, or that is none. */
static Py_ssize_t unescaped(const struct text *text, unsigned char *to)
{
    static const char shorts[] = "\"\\/bfnrt", meant[] = "\"\\/\b\f\n\r\t";
    const unsigned char *at = text->at, *end = at + text->length;
    unsigned char *begin = to;
    while (at < end) {
        if (*at != '\\') {
            *to++ = *at++;
            continue;
        }
        if (end - at >= 6 && at[1] == 'u') {
            int high = hex_digit(at[4]), low = hex_digit(at[5]);
            if (at[2] != '0' || at[3] != '0' || high < 0 || high > 7 || low < 0)
                return -1;
            *to++ = (unsigned char)(high << 4 | low);
            at += 6;
            continue;
        }
        const char *known = at + 1 < end && at[1] ? strchr(shorts, at[1]) : NULL;
        if (known == NULL)
            return -1;
        *to++ = (unsigned char)meant[known - shorts];
        at += 2;
    }
    return to - begin;
}

static int holds(const unsigned char *at, Py_ssize_t length, const char *wanted, Py_ssize_t wanted_bytes)
{
    const unsigned char *end = at + length;
    while (end - at >= wanted_bytes && (at = memchr(at, *wanted, (size_t)(end - at - wanted_bytes + 1))) != NULL) {
        if (memcmp(at, wanted, (size_t)wanted_bytes) == 0)
            return 1;
        at++;
    }
    return 0;
}

static int is_named(const unsigned char *at, Py_ssize_t name_bytes, const unsigned char *other, Py_ssize_t other_bytes)
{
    return name_bytes == other_bytes && memcmp(at, other, (size_t)name_bytes) == 0;
}

/* What of the properties of a batch holds for each of its messages, put together where they are: all but its own key, and
 * but for those without a name or a value. -1 when a name is there twice, or there are very many. */
static Py_ssize_t shared_by_all(unsigned char *text, Py_ssize_t length)
{
    static const unsigned char own_key[] = "UNIQ_KEY";
    struct {
        const unsigned char *at;
        Py_ssize_t bytes;
    } names[SHARED_MAX];
    int count = 0;
    unsigned char *to = text, *at = text, *end = text + length;
    while (at < end) {
        unsigned char *behind = memchr(at, VALUE_END, (size_t)(end - at)), *item = at;
        if (behind == NULL)
            behind = end;
        unsigned char *name_end = memchr(item, NAME_END, (size_t)(behind - item));
        at = behind + 1;
        if (name_end == NULL || name_end == item || name_end + 1 == behind)
            continue;
        Py_ssize_t name_bytes = name_end - item;
        if (is_named(item, name_bytes, own_key, sizeof own_key - 1))
            continue;
        if (count == SHARED_MAX)
            return -1;
        for (int other = 0; other < count; other++)
            if (is_named(item, name_bytes, names[other].at, names[other].bytes))
                return -1;
        memmove(to, item, (size_t)(behind - item));
        names[count].at = to, names[count++].bytes = name_bytes;
        to += behind - item;
        *to++ = VALUE_END; /* where one stood, or behind the end: there is room for one more */
    }
    return to - text;
}

/* The properties of a message as they are stored, or what those of a batch share; a new reference. NULL without an error
 * when it is not an ordinary one. */
static PyObject *stored_properties(struct header *header, const Py_buffer *added)
{
    static const char delay[] = {'D', 'E', 'L', 'A', 'Y', NAME_END};
    unsigned char scratch[PROPERTIES_BYTES_MAX + 1];
    if (header->properties.length > (Py_ssize_t)sizeof scratch - 1)
        return NULL;
    Py_ssize_t length = unescaped(&header->properties, scratch);
    if (length < 0 || holds(scratch, length, delay, sizeof delay) || holds(scratch, length, "TIME", 4))
        return NULL;
    if (header->asked.batch)
        length = shared_by_all(scratch, length);
    else {
        header->asked.tag = tag_in(scratch, scratch + length);
        if (length && scratch[length - 1] != VALUE_END)
            scratch[length++] = VALUE_END;
    }
    if (length < 0 || length + added->len > PROPERTIES_BYTES_MAX)
        return NULL;
    PyObject *stored = PyBytes_FromStringAndSize(NULL, length + added->len);
    if (stored != NULL) {
        memcpy(PyBytes_AS_STRING(stored), scratch, (size_t)length);
        memcpy(PyBytes_AS_STRING(stored) + length, added->buf, (size_t)added->len);
    }
    return stored;
}

/* --- the sends of a read -------------------------------------------------------------------------------------------- */

struct sends {
    PyObject *asked, *properties; /* a bytearray and a list */
    struct text topic, producer;
    int64_t used, body_bytes_max;
};

static int add_send(struct sends *sends, struct header *header, PyObject *properties)
{
    Py_ssize_t size = PyByteArray_GET_SIZE(sends->asked);
    if (PyByteArray_Resize(sends->asked, size + (Py_ssize_t)sizeof header->asked))
        return -1;
    memcpy(PyByteArray_AS_STRING(sends->asked) + size, &header->asked, sizeof header->asked);
    if (size == 0)
        sends->topic = header->topic, sends->producer = header->producer;
    return PyList_Append(sends->properties, properties);
}

/* One frame: 1 when it was an ordinary send and is in `sends`, 0 when it is something else or not complete, -1 with an
 * error, -2 when none of them is to be taken: they are about several topics, which go into the log together. */
static int one_send(struct sends *sends, const unsigned char *frames, int64_t end, const Py_buffer *added)
{
    int64_t at = sends->used;
    struct cursor where;
    struct header header;
    int64_t behind = frame_at(frames, at, end, &where);
    if (!behind || !header_at(where, &header))
        return 0;
    int64_t body_at = where.end - frames;
    if (behind == body_at || behind - body_at > sends->body_bytes_max)
        return 0;
    if (at && (!same(&header.topic, &sends->topic) || !same(&header.producer, &sends->producer)))
        return -2;
    PyObject *properties = stored_properties(&header, added);
    if (properties == NULL)
        return PyErr_Occurred() ? -1 : 0;
    header.asked.body_at = body_at;
    header.asked.body_bytes = behind - body_at;
    int failed = add_send(sends, &header, properties);
    Py_DECREF(properties);
    sends->used = behind;
    return failed ? -1 : 1;
}

static PyObject *all_sends(struct sends *sends, const unsigned char *frames, int64_t end, const Py_buffer *added)
{
    int state;
    while ((state = one_send(sends, frames, end, added)) > 0)
        ;
    if (state == -1)
        return NULL;
    if (state == -2 || sends->used == 0)
        Py_RETURN_NONE;
    return Py_BuildValue("(s#s#OOL)", (const char *)sends->topic.at, sends->topic.length,
                         (const char *)sends->producer.at ? (const char *)sends->producer.at : "", sends->producer.length,
                         sends->asked, sends->properties, (long long)sends->used);
}

static PyObject *front(PyObject *module, PyObject *arguments)
{
    PyObject *view, *found = NULL;
    long long end, body_bytes_max;
    Py_buffer added = {0}, frames = {0};
    if (!PyArg_ParseTuple(arguments, "OLy*L", &view, &end, &added, &body_bytes_max))
        return NULL;
    struct sends sends = {PyByteArray_FromStringAndSize(NULL, 0), PyList_New(0), .body_bytes_max = body_bytes_max};
    if (sends.asked != NULL && sends.properties != NULL && PyObject_GetBuffer(view, &frames, PyBUF_SIMPLE) == 0) {
        if (end < 0 || end > frames.len)
            PyErr_SetString(PyExc_ValueError, "the frames end behind their buffer");
        else
            found = all_sends(&sends, frames.buf, end, &added);
        PyBuffer_Release(&frames);
    }
    Py_XDECREF(sends.asked);
    Py_XDECREF(sends.properties);
    PyBuffer_Release(&added);
    return found;
}

/* --- what is stored of them ----------------------------------------------------------------------------------------- */

#define ENTRY_FIELDS(X) X(queue) X(length) X(count) X(offset)
#define RECORD_FIELDS(X) \
    ENTRY_FIELDS(X) X(tag) X(queue_index) X(body) X(properties) X(flag) X(sys_flag) X(born_ms)
#define PLACE(name) Py_ssize_t name;
#define ASK(name) || (found.name = slot_of(type, #name)) < 0
#define LEARNS(kind, FIELDS) /* have in `kind` where the class of an object keeps its fields */ \
    static int check_##kind(PyObject *object) \
    { \
        PyTypeObject *type = Py_TYPE(object); \
        if (kind.type == type) \
            return 0; \
        struct kind found = {type}; \
        if (0 FIELDS(ASK)) \
            return -1; \
        Py_INCREF(type); \
        PyTypeObject *before = kind.type; \
        kind = found; \
        Py_XDECREF(before); \
        return 0; \
    }

static struct record {
    PyTypeObject *type;
    RECORD_FIELDS(PLACE)
} record;
LEARNS(record, RECORD_FIELDS)

static struct run { /* of a batch */
    PyTypeObject *type;
    ENTRY_FIELDS(PLACE)
} run;
LEARNS(run, ENTRY_FIELDS)

/* Takes the reference that it is given. */
static int put(PyObject *record, Py_ssize_t place, PyObject *value)
{
    if (value == NULL)
        return -1;
    PyObject **slot = (PyObject **)((char *)record + place), *before = *slot;
    *slot = value;
    Py_XDECREF(before);
    return 0;
}

struct placing {
    PyObject *view, *model, *queues, *run_of;
    int64_t fixed_bytes, queue_count;
};

static PyObject *body_of(const struct placing *given, const struct asked *asked)
{
    return PySequence_GetSlice(given->view, (Py_ssize_t)asked->body_at, (Py_ssize_t)(asked->body_at + asked->body_bytes));
}

/* A copy of the model, for a queue; what the messages of a batch have in common needs no more. */
static PyObject *placed(const struct placing *given, const struct asked *asked)
{
    PyObject *made = PyObject_CallMethod(given->model, "__copy__", NULL);
    if (made == NULL || check_record(made)) {
        Py_XDECREF(made);
        return NULL;
    }
    PyObject *queue = PyList_GET_ITEM(given->queues, asked->queue_index);
    Py_INCREF(queue);
    int64_t own;
    if (put(made, record.queue, queue) ||
        put(made, record.queue_index, PyLong_FromLongLong(asked->queue_index)) ||
        put(made, record.born_ms, PyLong_FromLongLong(asked->born_ms)) ||
        slot_number(made, record.sys_flag, INT32_MIN, INT32_MAX, &own) ||
        (asked->sys_flag && put(made, record.sys_flag, PyLong_FromLongLong(own | asked->sys_flag))))
        Py_CLEAR(made);
    return made;
}

static PyObject *record_of(const struct placing *given, const struct asked *asked, PyObject *properties, int64_t length)
{
    PyObject *made = placed(given, asked);
    if (made == NULL)
        return NULL;
    Py_INCREF(properties);
    if (put(made, record.properties, properties) || put(made, record.length, PyLong_FromLongLong(length)) ||
        put(made, record.tag, PyLong_FromLongLong(asked->tag)) ||
        put(made, record.flag, PyLong_FromLongLong(asked->flag)) || put(made, record.body, body_of(given, asked)))
        Py_CLEAR(made);
    return made;
}

/* A batch, by the function that takes them apart. NULL without an error when it has no message, or cannot be read. */
static PyObject *run_in(const struct placing *given, const struct asked *asked, PyObject *shared, int64_t *length,
                        int64_t *count)
{
    PyObject *model = placed(given, asked), *body = model == NULL ? NULL : body_of(given, asked);
    PyObject *made = body == NULL ? NULL : PyObject_CallFunctionObjArgs(given->run_of, model, body, shared, NULL);
    Py_XDECREF(model);
    Py_XDECREF(body);
    if (made == NULL) {
        if (PyErr_ExceptionMatches(PyExc_ValueError)) /* who takes it up finds it out again, and says it */
            PyErr_Clear();
        return NULL;
    }
    if (check_run(made) || slot_number(made, run.length, 0, INT64_MAX, length) ||
        slot_number(made, run.count, 0, INT64_MAX, count) || *count == 0)
        Py_CLEAR(made);
    return made;
}

/* A list, or None when one of them is to be refused. */
static PyObject *all_records(const struct placing *given, const struct asked *asked, PyObject *properties,
                             int64_t *messages, int64_t *bytes)
{
    Py_ssize_t number = PyList_GET_SIZE(properties);
    PyObject *found = PyList_New(number);
    for (Py_ssize_t index = 0; found != NULL && index < number; index++, asked++) {
        PyObject *own = PyList_GET_ITEM(properties, index), *made = NULL;
        int64_t length = given->fixed_bytes + asked->body_bytes + PyBytes_GET_SIZE(own), count = 1;
        int there = asked->queue_index >= 0 && asked->queue_index < given->queue_count &&
                    asked->queue_index < PyList_GET_SIZE(given->queues);
        if (there)
            made = asked->batch ? run_in(given, asked, own, &length, &count) : record_of(given, asked, own, length);
        if (made == NULL) {
            Py_CLEAR(found);
            break;
        }
        PyList_SET_ITEM(found, index, made);
        *messages += count, *bytes += length;
    }
    if (found == NULL && !PyErr_Occurred())
        Py_RETURN_NONE;
    return found;
}

/* Whether there are as many rows as a list has places. */
static int check_rows(const Py_buffer *asked, PyObject *list)
{
    if (asked->len == PyList_GET_SIZE(list) * (Py_ssize_t)sizeof(struct asked))
        return 0;
    PyErr_SetString(PyExc_ValueError, "a list does not belong to what is asked");
    return -1;
}

static int check_all_bytes(PyObject *list)
{
    for (Py_ssize_t index = 0; index < PyList_GET_SIZE(list); index++)
        if (!PyBytes_Check(PyList_GET_ITEM(list, index))) {
            PyErr_SetString(PyExc_TypeError, "properties are bytes");
            return -1;
        }
    return 0;
}

static PyObject *records(PyObject *module, PyObject *arguments)
{
    struct placing given;
    PyObject *properties, *found = NULL;
    Py_buffer asked;
    long long fixed_bytes, queue_count;
    int64_t messages = 0, bytes = 0;
    if (!PyArg_ParseTuple(arguments, "y*O!OOLO!LO", &asked, &PyList_Type, &properties, &given.view, &given.model,
                          &fixed_bytes, &PyList_Type, &given.queues, &queue_count, &given.run_of))
        return NULL;
    given.fixed_bytes = fixed_bytes, given.queue_count = queue_count;
    if (check_rows(&asked, properties) == 0 && check_all_bytes(properties) == 0)
        found = all_records(&given, asked.buf, properties, &messages, &bytes);
    PyBuffer_Release(&asked);
    if (found == NULL || found == Py_None)
        return found;
    return Py_BuildValue("(NLL)", found, (long long)messages, (long long)bytes);
}

/* --- answers -------------------------------------------------------------------------------------------------------- */

#define PARTS 5
#define NUMBERS_BYTES (4 * 20) /* more than all numbers of an answer take, without its ids */
#define ID_BYTES 17 /* of one message, behind what they have in common; with a comma */

static unsigned char *add_part(unsigned char *to, PyObject *part)
{
    memcpy(to, PyBytes_AS_STRING(part), (size_t)PyBytes_GET_SIZE(part));
    return to + PyBytes_GET_SIZE(part);
}

static unsigned char *add_number(unsigned char *to, int64_t value)
{
    unsigned char digits[20], *at = digits + sizeof digits;
    uint64_t left = value < 0 ? 0 - (uint64_t)value : (uint64_t)value;
    do {
        *--at = (unsigned char)('0' + left % 10);
    } while (left /= 10);
    if (value < 0)
        *to++ = '-';
    memcpy(to, at, (size_t)(digits + sizeof digits - at));
    return to + (digits + sizeof digits - at);
}

static unsigned char *add_hex(unsigned char *to, uint64_t value)
{
    for (int shift = 60; shift >= 0; shift -= 4)
        *to++ = (unsigned char)"0123456789ABCDEF"[value >> shift & 15];
    return to;
}

struct stored { /* where a message is, or the first of a batch */
    int64_t queue, offset, count;
};

static int find_stored(PyObject *entry, int batch, struct stored *found)
{
    if (batch ? check_run(entry) : check_record(entry))
        return -1;
    return slot_number(entry, batch ? run.queue : record.queue, 0, INT32_MAX, &found->queue) ||
           slot_number(entry, batch ? run.offset : record.offset, 0, INT64_MAX / 2, &found->offset) ||
           slot_number(entry, batch ? run.count : record.count, 1, INT32_MAX, &found->count);
}

static unsigned char *add_ids(unsigned char *to, const struct stored *stored, PyObject *prefix)
{
    uint64_t physical = (uint64_t)stored->queue << OFFSET_BITS | (uint64_t)stored->offset;
    for (int64_t number = 0; number < stored->count; number++) {
        if (number)
            *to++ = ',';
        to = add_hex(add_part(to, prefix), physical + (uint64_t)number);
    }
    return to;
}

static unsigned char *add_answer(unsigned char *begin, const struct asked *asked, const struct stored *stored,
                                 PyObject *prefix, PyObject *parts)
{
    unsigned char *at = add_part(begin + 8, PyTuple_GET_ITEM(parts, 0));
    at = add_part(add_ids(at, stored, prefix), PyTuple_GET_ITEM(parts, 1));
    at = add_part(add_number(at, asked->queue_index), PyTuple_GET_ITEM(parts, 2));
    at = add_part(add_number(at, stored->offset), PyTuple_GET_ITEM(parts, 3));
    at = add_part(add_number(at, asked->opaque), PyTuple_GET_ITEM(parts, 4));
    big4(begin, (uint32_t)(at - begin - 4));
    big4(begin + 4, (uint32_t)(at - begin - 8));
    return at;
}

/* More than the answers take; -1 with an error. */
static Py_ssize_t room_for(const struct asked *asked, PyObject *entries, PyObject *prefix, PyObject *parts)
{
    Py_ssize_t each = 8 + NUMBERS_BYTES, room = 0;
    struct stored stored;
    for (Py_ssize_t part = 0; part < PARTS; part++)
        each += PyBytes_GET_SIZE(PyTuple_GET_ITEM(parts, part));
    for (Py_ssize_t index = 0; index < PyList_GET_SIZE(entries); index++) {
        if (find_stored(PyList_GET_ITEM(entries, index), asked[index].batch != 0, &stored))
            return -1;
        room += each + (Py_ssize_t)stored.count * (PyBytes_GET_SIZE(prefix) + ID_BYTES);
    }
    return room;
}

static PyObject *all_answers(const struct asked *asked, PyObject *entries, PyObject *prefix, PyObject *parts)
{
    Py_ssize_t room = room_for(asked, entries, prefix, parts);
    PyObject *packed = room < 0 ? NULL : PyBytes_FromStringAndSize(NULL, room);
    if (packed == NULL)
        return NULL;
    unsigned char *begin = (unsigned char *)PyBytes_AS_STRING(packed), *to = begin;
    for (Py_ssize_t index = 0; index < PyList_GET_SIZE(entries); index++) {
        struct stored stored;
        if (asked[index].oneway)
            continue;
        if (find_stored(PyList_GET_ITEM(entries, index), asked[index].batch != 0, &stored)) {
            Py_DECREF(packed);
            return NULL;
        }
        to = add_answer(to, asked + index, &stored, prefix, parts);
    }
    _PyBytes_Resize(&packed, to - begin);
    return packed;
}

static int check_parts(PyObject *parts)
{
    int sound = PyTuple_GET_SIZE(parts) == PARTS;
    for (Py_ssize_t part = 0; sound && part < PARTS; part++)
        sound = PyBytes_Check(PyTuple_GET_ITEM(parts, part));
    if (!sound)
        PyErr_Format(PyExc_TypeError, "an answer has %d parts of bytes", PARTS);
    return sound ? 0 : -1;
}

static PyObject *answers(PyObject *module, PyObject *arguments)
{
    PyObject *stored, *prefix, *parts, *found = NULL;
    Py_buffer asked;
    if (!PyArg_ParseTuple(arguments, "y*O!SO!", &asked, &PyList_Type, &stored, &prefix, &PyTuple_Type, &parts))
        return NULL;
    if (check_rows(&asked, stored) == 0 && check_parts(parts) == 0)
        found = all_answers(asked.buf, stored, prefix, parts);
    PyBuffer_Release(&asked);
    return found;
}

static PyMethodDef methods[] = {
    {"front", front, METH_VARARGS, "See front_in_python in sends.py."},
    {"records", records, METH_VARARGS, "See records_in_python in sends.py."},
    {"answers", answers, METH_VARARGS, "See answers_in_python in sends.py."},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, "_sends", "Ordinary sends, compiled.", -1, methods, NULL, NULL, NULL, NULL,
};

PyMODINIT_FUNC PyInit__sends(void)
{
    return PyModule_Create(&definition);
}
