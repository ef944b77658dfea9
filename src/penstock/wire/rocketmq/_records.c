/* Message records and batches, compiled: the same as the functions `..._in_python` in record.py and batch.py, which are
 * the definitions and take their place where this was not built. Tests feed both the same input and compare every byte.
 *
 * Batches come from the network: every length is checked against what is there before a byte is read or written.
 */
#include "../../slots.h"
#include "../../stores.h"
#include "tags.h"
#include <string.h>

#define MAGIC 0xDAA320A7u
#define BORN_V6 16
#define STORE_V6 32
#define HEAD_BYTES 88 /* of a record up to its body, with both hosts as 4 bytes and a port */
#define HOST_V4_BYTES 8
#define HOST_V6_BYTES 20
#define OFFSET_BITS 36
#define QUEUE_END ((int64_t)1 << (63 - OFFSET_BITS)) /* the first that a physical offset has no room for */
#define BATCHED_BYTES 20 /* of a message in a batch, up to its body */

static PyObject *crc32;

/* --- CRC-32 --------------------------------------------------------------------------------------------------------- */

static uint32_t crc_table[256];

static uint32_t crc_by_table(uint32_t crc, const unsigned char *at, size_t length)
{
    while (length--)
        crc = crc >> 8 ^ crc_table[(crc ^ *at++) & 0xFF];
    return crc;
}

static void make_crc_table(void)
{
    for (uint32_t byte = 0; byte < 256; byte++) {
        uint32_t crc = byte;
        for (int bit = 0; bit < 8; bit++)
            crc = crc & 1 ? crc >> 1 ^ 0xEDB88320u : crc >> 1;
        crc_table[byte] = crc;
    }
}

static int folds = 0; /* whether the processor can multiply without carries */

#if defined(__x86_64__) && defined(__GNUC__)
#include <immintrin.h>

#define FOLDING __attribute__((target("pclmul,sse4.1")))

FOLDING static __m128i folded(__m128i value, __m128i by, __m128i more)
{
    __m128i low = _mm_clmulepi64_si128(value, by, 0x00), high = _mm_clmulepi64_si128(value, by, 0x11);
    return _mm_xor_si128(_mm_xor_si128(low, high), more);
}

/* At least 64 bytes, and a multiple of 16: four lanes of 16 bytes are folded into the next four, then into one, then that
 * is reduced. The constants are powers of x modulo the polynomial, reflected. */
FOLDING static uint32_t crc_by_folding(uint32_t crc, const unsigned char *at, size_t length)
{
    const __m128i by_64 = _mm_set_epi64x(0x1C6E41596, 0x154442BD4), by_16 = _mm_set_epi64x(0x0CCAA009E, 0x1751997D0);
    const __m128i by_8 = _mm_set_epi64x(0, 0x163CD6124), polynomial = _mm_set_epi64x(0x1F7011641, 0x1DB710641);
    const __m128i low_halves = _mm_set_epi32(0, -1, 0, -1);
    const __m128i *from = (const __m128i *)at;
    __m128i lane[4];
    for (int index = 0; index < 4; index++)
        lane[index] = _mm_loadu_si128(from++);
    lane[0] = _mm_xor_si128(lane[0], _mm_cvtsi32_si128((int)crc));
    for (length -= 64; length >= 64; length -= 64)
        for (int index = 0; index < 4; index++)
            lane[index] = folded(lane[index], by_64, _mm_loadu_si128(from++));
    __m128i all = lane[0];
    for (int index = 1; index < 4; index++)
        all = folded(all, by_16, lane[index]);
    for (; length >= 16; length -= 16)
        all = folded(all, by_16, _mm_loadu_si128(from++));
    all = _mm_xor_si128(_mm_srli_si128(all, 8), _mm_clmulepi64_si128(all, by_16, 0x10));
    __m128i rest = _mm_srli_si128(all, 4);
    all = _mm_xor_si128(_mm_clmulepi64_si128(_mm_and_si128(all, low_halves), by_8, 0x00), rest);
    __m128i quotient = _mm_clmulepi64_si128(_mm_and_si128(all, low_halves), polynomial, 0x10);
    quotient = _mm_clmulepi64_si128(_mm_and_si128(quotient, low_halves), polynomial, 0x00);
    return (uint32_t)_mm_extract_epi32(_mm_xor_si128(all, quotient), 1);
}

static void choose_crc(void)
{
    __builtin_cpu_init();
    folds = __builtin_cpu_supports("pclmul") && __builtin_cpu_supports("sse4.1");
}
#else
static uint32_t crc_by_folding(uint32_t crc, const unsigned char *at, size_t length) { return crc_by_table(crc, at, length); }
static void choose_crc(void) {}
#endif

/* What RocketMQ's clients check a body by: CRC-32 without the sign. */
static int body_crc(const unsigned char *at, size_t length, uint32_t *crc)
{
    if (folds || length < 64) {
        size_t whole = length < 64 ? 0 : length & ~(size_t)15;
        uint32_t state = whole ? crc_by_folding(~0u, at, whole) : ~0u;
        *crc = ~crc_by_table(state, at + whole, length - whole) & 0x7FFFFFFFu;
        return 0;
    }
    PyObject *view = PyMemoryView_FromMemory((char *)at, (Py_ssize_t)length, PyBUF_READ);
    PyObject *found = view == NULL ? NULL : PyObject_CallOneArg(crc32, view);
    Py_XDECREF(view);
    if (found == NULL)
        return -1;
    *crc = (uint32_t)PyLong_AsUnsignedLong(found) & 0x7FFFFFFFu;
    Py_DECREF(found);
    return PyErr_Occurred() ? -1 : 0;
}

/* --- a record ------------------------------------------------------------------------------------------------------- */

#define FIELDS(X) \
    X(topic) X(queue_index) X(body) X(properties) X(flag) X(sys_flag) X(born_ms) X(born_host) X(store_host) \
    X(reconsume_times) X(prepared_offset) X(length)
#define PLACE(name) Py_ssize_t name;
#define ASK(name) || (found.name = slot_of(type, #name)) < 0

static struct kind {
    PyTypeObject *type;
    FIELDS(PLACE)
} kind; /* where records keep their fields: subclasses do as their base does */

static int check_kind(PyObject *record)
{
    PyTypeObject *type = Py_TYPE(record);
    if (kind.type == type)
        return 0;
    struct kind found = {type};
    if (0 FIELDS(ASK))
        return -1;
    Py_INCREF(type);
    PyTypeObject *before = kind.type;
    kind = found;
    Py_XDECREF(before);
    return 0;
}

static int view_of(PyObject *record, Py_ssize_t place, Py_buffer *view)
{
    PyObject *found = slot(record, place);
    return found == NULL ? -1 : PyObject_GetBuffer(found, view, PyBUF_SIMPLE);
}

struct texts {
    Py_buffer body, topic, properties, born_host, store_host;
};

static int take_texts(PyObject *record, struct texts *texts)
{
    return view_of(record, kind.body, &texts->body) || view_of(record, kind.topic, &texts->topic) ||
           view_of(record, kind.properties, &texts->properties) || view_of(record, kind.born_host, &texts->born_host) ||
           view_of(record, kind.store_host, &texts->store_host);
}

static void release_texts(struct texts *texts)
{
    PyBuffer_Release(&texts->body);
    PyBuffer_Release(&texts->topic);
    PyBuffer_Release(&texts->properties);
    PyBuffer_Release(&texts->born_host);
    PyBuffer_Release(&texts->store_host);
}

static unsigned char *append(unsigned char *at, const void *from, Py_ssize_t length)
{
    memcpy(at, from, (size_t)length);
    return at + length;
}

static int write_checked(PyObject *record, struct texts *texts, Py_buffer *buffer, int64_t at, int64_t queue,
                         int64_t offset, int64_t store_ms)
{
    int64_t length, index, flag, sys_flag, born_ms, tries, prepared;
    if (slot_number(record, kind.length, 0, UINT32_MAX, &length) ||
        slot_number(record, kind.queue_index, INT32_MIN, INT32_MAX, &index) ||
        slot_number(record, kind.flag, INT32_MIN, INT32_MAX, &flag) ||
        slot_number(record, kind.sys_flag, INT32_MIN, INT32_MAX, &sys_flag) ||
        slot_number(record, kind.born_ms, INT64_MIN, INT64_MAX, &born_ms) ||
        slot_number(record, kind.reconsume_times, INT32_MIN, INT32_MAX, &tries) ||
        slot_number(record, kind.prepared_offset, INT64_MIN, INT64_MAX, &prepared))
        return -1;
    Py_ssize_t born_bytes = sys_flag & BORN_V6 ? HOST_V6_BYTES : HOST_V4_BYTES;
    Py_ssize_t store_bytes = sys_flag & STORE_V6 ? HOST_V6_BYTES : HOST_V4_BYTES;
    Py_ssize_t head_bytes = HEAD_BYTES - 2 * HOST_V4_BYTES + born_bytes + store_bytes;
    int64_t needed = head_bytes + texts->body.len + 1 + texts->topic.len + 2 + texts->properties.len;
    if (texts->born_host.len != born_bytes || texts->store_host.len != store_bytes || texts->topic.len > 255 ||
        texts->properties.len > UINT16_MAX || queue < -QUEUE_END || queue >= QUEUE_END || at < 0 ||
        needed > buffer->len - at) {
        PyErr_SetString(PyExc_ValueError, "the parts of a record do not fit");
        return -1;
    }
    uint32_t crc;
    if (body_crc(texts->body.buf, (size_t)texts->body.len, &crc))
        return -1;
    unsigned char *to = (unsigned char *)buffer->buf + at;
    big4(to, length);
    big4(to + 4, MAGIC);
    big4(to + 8, crc);
    big4(to + 12, index);
    big4(to + 16, flag);
    big8(to + 20, offset);
    big8(to + 28, (uint64_t)queue << OFFSET_BITS | (uint64_t)offset);
    big4(to + 36, sys_flag);
    big8(to + 40, born_ms);
    to = append(to + 48, texts->born_host.buf, born_bytes);
    big8(to, store_ms);
    to = append(to + 8, texts->store_host.buf, store_bytes);
    big4(to, tries);
    big8(to + 4, prepared);
    big4(to + 12, texts->body.len);
    to = append(to + 16, texts->body.buf, texts->body.len);
    *to++ = (unsigned char)texts->topic.len;
    to = append(to, texts->topic.buf, texts->topic.len);
    big2(to, texts->properties.len);
    append(to + 2, texts->properties.buf, texts->properties.len);
    return 0;
}

static int integer(PyObject *from, int64_t *value)
{
    *value = PyLong_AsLongLong(from);
    return *value == -1 && PyErr_Occurred() ? -1 : 0;
}

static PyObject *write_record(PyObject *module, PyObject *const *given, Py_ssize_t count)
{
    int64_t at, queue, offset, store_ms;
    if (count != 6)
        return PyErr_Format(PyExc_TypeError, "write_record takes 6 arguments, not %zd", count);
    if (integer(given[2], &at) || integer(given[3], &queue) || integer(given[4], &offset) || integer(given[5], &store_ms))
        return NULL;
    struct texts texts = {0};
    Py_buffer buffer = {0};
    int failed = check_kind(given[0]) || take_texts(given[0], &texts) || PyObject_GetBuffer(given[1], &buffer, PyBUF_WRITABLE) ||
                 write_checked(given[0], &texts, &buffer, at, queue, offset, store_ms);
    PyBuffer_Release(&buffer);
    release_texts(&texts);
    if (failed)
        return NULL;
    Py_RETURN_NONE;
}

/* --- batches -------------------------------------------------------------------------------------------------------- */

static PyObject *from_module(const char *module, const char *name)
{
    PyObject *imported = PyImport_ImportModule(module);
    PyObject *found = imported == NULL ? NULL : PyObject_GetAttrString(imported, name);
    Py_XDECREF(imported);
    return found;
}

/* Looked up when it is needed: its module imports this one. */
static void raise_batch_error(const char *format, ...)
{
    PyObject *class = from_module("penstock.wire.rocketmq.batch", "BatchError");
    if (class == NULL)
        return;
    va_list values;
    va_start(values, format);
    PyErr_FormatV(class, format, values);
    va_end(values);
    Py_DECREF(class);
}

struct part { /* one message of a batch, as `measured` tells of it */
    int64_t start, length, flag, body_at, body_bytes, properties_at, properties_bytes, tag;
};

static int is_ascii(const unsigned char *at, Py_ssize_t length)
{
    unsigned char all = 0;
    for (Py_ssize_t index = 0; index < length; index++)
        all |= at[index];
    return all < 0x80;
}

/* Whether it is UTF-8; otherwise a BatchError is set. */
static int check_text(const unsigned char *text, Py_ssize_t length, Py_ssize_t at)
{
    if (is_ascii(text, length))
        return 0;
    PyObject *decoded = PyUnicode_DecodeUTF8((const char *)text, length, NULL);
    if (decoded != NULL) {
        Py_DECREF(decoded);
        return 0;
    }
    if (!PyErr_ExceptionMatches(PyExc_UnicodeDecodeError))
        return -1;
    PyObject *class, *error, *trace;
    PyErr_Fetch(&class, &error, &trace);
    PyErr_NormalizeException(&class, &error, &trace);
    raise_batch_error("the properties of the message at byte %zd of a batch are not UTF-8: %S", at, error);
    Py_XDECREF(class);
    Py_XDECREF(error);
    Py_XDECREF(trace);
    return -1;
}

/* The message at `at`; where the next begins, or -1 with an error. */
static Py_ssize_t measure(const Py_buffer *body, Py_ssize_t at, int64_t fixed, int64_t shared, int64_t most, struct part *part)
{
    const unsigned char *bytes = body->buf;
    if (body->len - at < BATCHED_BYTES) {
        raise_batch_error("a batch is cut off at byte %zd of %zd", at, body->len);
        return -1;
    }
    int64_t length = from_big4(bytes + at), body_bytes = from_big4(bytes + at + 16);
    if (length > body->len - at || BATCHED_BYTES + body_bytes + 2 > length) {
        raise_batch_error("a message of %lld bytes does not fit at byte %zd of a batch of %zd",
                     (long long)length, at, body->len);
        return -1;
    }
    part->flag = (int32_t)from_big4(bytes + at + 12);
    part->body_at = at + BATCHED_BYTES;
    part->body_bytes = body_bytes;
    part->properties_at = part->body_at + body_bytes + 2;
    part->properties_bytes = length - BATCHED_BYTES - body_bytes - 2;
    const unsigned char *own = bytes + part->properties_at;
    if (part->properties_bytes != (own[-2] << 8 | own[-1])) {
        raise_batch_error("the properties of the message at byte %zd of a batch do not fit", at);
        return -1;
    }
    if (body_bytes == 0) {
        raise_batch_error("the message at byte %zd of a batch is empty, and not every consumer can take that", at);
        return -1;
    }
    if (check_text(own, (Py_ssize_t)part->properties_bytes, at))
        return -1;
    int64_t open = part->properties_bytes && own[part->properties_bytes - 1] != VALUE_END;
    int64_t properties_bytes = part->properties_bytes + open + shared;
    if (properties_bytes > most) {
        raise_batch_error("properties of %lld bytes: at most %lld are taken", (long long)properties_bytes,
                     (long long)most);
        return -1;
    }
    part->tag = tag_in(own, own + part->properties_bytes);
    part->length = fixed + body_bytes + properties_bytes;
    return at + (Py_ssize_t)length;
}

static PyObject *measured(PyObject *module, PyObject *arguments)
{
    Py_buffer body;
    long long fixed, shared, most;
    if (!PyArg_ParseTuple(arguments, "y*LLL", &body, &fixed, &shared, &most))
        return NULL;
    Py_ssize_t at = 0, count = 0, room = 0;
    int64_t start = 0;
    struct part *parts = NULL;
    while (at >= 0 && at < body.len) {
        if (count == room) {
            room = room ? 2 * room : 64; /* at most one for every 22 bytes that came */
            struct part *more = PyMem_Realloc(parts, (size_t)room * sizeof *parts);
            if (more == NULL) {
                PyErr_NoMemory();
                break;
            }
            parts = more;
        }
        at = measure(&body, at, fixed, shared, most, &parts[count]);
        if (at >= 0) {
            parts[count].start = start;
            start += parts[count++].length;
        }
    }
    PyBuffer_Release(&body);
    PyObject *done = PyErr_Occurred() ? NULL
                                      : Py_BuildValue("(y#L)", count ? (char *)parts : "",
                                                      count * (Py_ssize_t)sizeof *parts, (long long)start);
    PyMem_Free(parts);
    return done;
}

struct run {
    Py_buffer buffer, head, prefix, body, parts, shared;
};

/* Whether all parts are where they are said to be, and the record is as long as they are together. `open`: whether the
 * last property has no end of its own, so that another cannot follow. */
static int fits(const struct part *part, const struct run *run, int64_t at, int *open)
{
    int64_t end = run->body.len;
    if (part->body_at < 0 || part->body_bytes < 0 || part->body_bytes > end - part->body_at || part->properties_at < 0 ||
        part->properties_bytes < 0 || part->properties_bytes > end - part->properties_at || at < 0)
        return 0;
    const unsigned char *own = (unsigned char *)run->body.buf + part->properties_at;
    *open = part->properties_bytes && own[part->properties_bytes - 1] != VALUE_END;
    int64_t properties_bytes = part->properties_bytes + *open + run->shared.len;
    return properties_bytes <= UINT16_MAX && part->length <= run->buffer.len - at &&
           part->length == run->head.len + part->body_bytes + run->prefix.len + 2 + properties_bytes;
}

static int write_part(const struct part *part, struct run *run, int open, unsigned char *to, uint64_t offset,
                      uint64_t physical)
{
    const unsigned char *bytes = run->body.buf;
    uint32_t crc;
    if (body_crc(bytes + part->body_at, (size_t)part->body_bytes, &crc))
        return -1;
    memcpy(to, run->head.buf, (size_t)run->head.len);
    big4(to, part->length);
    big4(to + 8, crc);
    big4(to + 16, part->flag);
    big8(to + 20, offset);
    big8(to + 28, physical);
    big4(to + run->head.len - 4, part->body_bytes);
    to = append(to + run->head.len, bytes + part->body_at, (Py_ssize_t)part->body_bytes);
    to = append(to, run->prefix.buf, run->prefix.len);
    big2(to, part->properties_bytes + open + run->shared.len);
    to = append(to + 2, bytes + part->properties_at, (Py_ssize_t)part->properties_bytes);
    if (open)
        *to++ = VALUE_END;
    append(to, run->shared.buf, run->shared.len);
    return 0;
}

static int write_parts(struct run *run, int64_t at, uint64_t offset, uint64_t physical)
{
    struct part part;
    Py_ssize_t count = run->parts.len / (Py_ssize_t)sizeof part;
    for (Py_ssize_t index = 0; index < count; index++) {
        int open = 0;
        memcpy(&part, (char *)run->parts.buf + index * (Py_ssize_t)sizeof part, sizeof part);
        if (!fits(&part, run, at, &open)) {
            PyErr_SetString(PyExc_ValueError, "the parts of a batch do not fit");
            return -1;
        }
        if (write_part(&part, run, open, (unsigned char *)run->buffer.buf + at, offset + index, physical + index))
            return -1;
        at += part.length;
    }
    return 0;
}

static PyObject *write_run(PyObject *module, PyObject *arguments)
{
    struct run run = {0};
    long long at, offset, physical;
    if (!PyArg_ParseTuple(arguments, "w*Ly*y*y*y*y*LL", &run.buffer, &at, &run.head, &run.prefix, &run.body, &run.parts,
                          &run.shared, &offset, &physical))
        return NULL;
    int failed = (run.head.len < 40 ? PyErr_SetString(PyExc_ValueError, "the head of a record is longer"), 1 : 0) ||
                 write_parts(&run, at, (uint64_t)offset, (uint64_t)physical);
    PyBuffer_Release(&run.buffer);
    PyBuffer_Release(&run.head);
    PyBuffer_Release(&run.prefix);
    PyBuffer_Release(&run.body);
    PyBuffer_Release(&run.parts);
    PyBuffer_Release(&run.shared);
    if (failed)
        return NULL;
    Py_RETURN_NONE;
}

/* --- many values at once -------------------------------------------------------------------------------------------- */

/* Values stand one behind the other in `data`, and `borders`, numbers of 32 bits, say where each begins and the last
 * ends. Nobody looks at a value before it is known to be inside. */
typedef struct {
    Py_buffer data, borders;
    Py_ssize_t count;
} Values;

static inline Py_ssize_t border(const Values *values, Py_ssize_t index)
{
    int32_t found;
    memcpy(&found, (const char *)values->borders.buf + index * 4, 4);
    return found;
}

static int check_values(Values *values)
{
    values->count = values->borders.len / 4 - 1;
    int sound = values->count >= 0 && values->borders.len % 4 == 0 && border(values, 0) >= 0 &&
                border(values, values->count) <= values->data.len;
    for (Py_ssize_t index = 0; sound && index < values->count; index++)
        sound = border(values, index) <= border(values, index + 1);
    if (!sound)
        PyErr_SetString(PyExc_ValueError, "borders that do not fit the data");
    return sound ? 0 : -1;
}

typedef int (*Number)(const unsigned char *, size_t, uint32_t *);

static int ascii_hash(const unsigned char *at, size_t length, uint32_t *hash)
{
    *hash = 0;
    for (; length; at++, length--)
        *hash = *hash * 31 + *at;
    return 0;
}

/* A number of 32 bits for each value. */
static PyObject *numbers(PyObject *args, Number number)
{
    Values values;
    if (!PyArg_ParseTuple(args, "y*y*", &values.data, &values.borders))
        return NULL;
    PyObject *found = check_values(&values) ? NULL : PyBytes_FromStringAndSize(NULL, values.count * 4);
    for (Py_ssize_t index = 0; found != NULL && index < values.count; index++) {
        Py_ssize_t start = border(&values, index);
        uint32_t one;
        if (number((const unsigned char *)values.data.buf + start, (size_t)(border(&values, index + 1) - start), &one))
            Py_CLEAR(found);
        else
            memcpy(PyBytes_AS_STRING(found) + index * 4, &one, 4);
    }
    PyBuffer_Release(&values.data);
    PyBuffer_Release(&values.borders);
    return found;
}

static PyObject *checksums(PyObject *self, PyObject *args)
{
    return numbers(args, body_crc);
}

static PyObject *java_hashes(PyObject *self, PyObject *args)
{
    return numbers(args, ascii_hash);
}

/* --- the module ----------------------------------------------------------------------------------------------------- */

static PyMethodDef write_record_definition = {"write_record", (PyCFunction)(void (*)(void))write_record, METH_FASTCALL,
                                              "See write_record_in_python in record.py."};

static PyMethodDef methods[] = {
    {"measured", measured, METH_VARARGS, "See measured_in_python in batch.py."},
    {"write_run", write_run, METH_VARARGS, "See write_run_in_python in batch.py."},
    {"checksums", checksums, METH_VARARGS, "See checksums_in_python in values.py."},
    {"java_hashes", java_hashes, METH_VARARGS, "See java_hashes_in_python in values.py."},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, "_records", "Records and batches, compiled.", -1, methods, NULL, NULL, NULL, NULL,
};

/* `write_record` is used as a method: it has to take its object along, which a plain C function does not. */
static int add_method(PyObject *module)
{
    PyObject *function = PyCFunction_New(&write_record_definition, NULL);
    PyObject *method = function == NULL ? NULL : PyInstanceMethod_New(function);
    Py_XDECREF(function);
    int failed = method == NULL || PyModule_AddObjectRef(module, "write_record", method);
    Py_XDECREF(method);
    return failed ? -1 : 0;
}

PyMODINIT_FUNC PyInit__records(void)
{
    make_crc_table();
    choose_crc();
    if ((crc32 = from_module("isal.isal_zlib", "crc32")) == NULL)
        return NULL;
    PyObject *module = PyModule_Create(&definition);
    if (module != NULL && add_method(module))
        Py_CLEAR(module);
    return module;
}
