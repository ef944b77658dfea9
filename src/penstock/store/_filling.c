/* The append loop, compiled: the same as `fill_in_python` in filling.py, which is its definition and takes its place
 * where this was not built. Tests feed both the same entries and compare every byte.
 *
 * Why it is here: a plain write moves 1 KB in 0.3 us, and the loop in Python takes 2. Here it takes what the checksums
 * take. It trusts nothing: what an entry says of itself is checked against the buffer and the widths of the format
 * before a byte is written, and entries write themselves through the same call as ever.
 *
 * A table's numbers are held in C while neighbours go to one queue (`struct tail`) and are put back before anything
 * else can look at them.
 */
#include "../slots.h"
#include "../stores.h"
#include <string.h>

#define HEADER_BYTES 80
#define FACTS_AT 8
#define ROW_BYTES 48
#define MAGIC 0x7E5CA11Fu
#define RUN 1
#define ENCODING_MAX 62 /* a table has a bit for each */
#define OTHERS_CRC_BYTES 4096 /* above: the library's, which takes three streams at once */
#define DIRECT_BYTES 32768 /* from here on a payload that needs no change is not copied */

/* --- CRC32C --------------------------------------------------------------------------------------------------------- */

static uint32_t crc_table[8][256];

static void make_crc_table(void)
{
    for (uint32_t byte = 0; byte < 256; byte++) {
        uint32_t crc = byte;
        for (int bit = 0; bit < 8; bit++)
            crc = crc & 1 ? crc >> 1 ^ 0x82F63B78u : crc >> 1;
        crc_table[0][byte] = crc;
    }
    for (int byte = 0; byte < 256; byte++)
        for (int step = 1; step < 8; step++) {
            uint32_t before = crc_table[step - 1][byte];
            crc_table[step][byte] = before >> 8 ^ crc_table[0][before & 0xFF];
        }
}

static uint32_t crc_by_table(uint32_t crc, const unsigned char *at, size_t length)
{
    for (; length >= 8; at += 8, length -= 8) {
        uint32_t low = crc ^ ((uint32_t)at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 | (uint32_t)at[3] << 24);
        crc = crc_table[7][low & 0xFF] ^ crc_table[6][low >> 8 & 0xFF] ^ crc_table[5][low >> 16 & 0xFF] ^
              crc_table[4][low >> 24] ^ crc_table[3][at[4]] ^ crc_table[2][at[5]] ^ crc_table[1][at[6]] ^
              crc_table[0][at[7]];
    }
    while (length--)
        crc = crc >> 8 ^ crc_table[0][(crc ^ *at++) & 0xFF];
    return crc;
}

static uint32_t (*crc_step)(uint32_t, const unsigned char *, size_t) = crc_by_table;

#if defined(__x86_64__) && defined(__GNUC__)
#include <nmmintrin.h>
#if defined(__clang__) && __clang_major__ >= 14
#define COUNTING __attribute__((target("sse4.2,crc32"))) /* a feature of its own there, which may be switched off */
#else
#define COUNTING __attribute__((target("sse4.2")))
#endif

COUNTING static uint32_t crc_by_sse42(uint32_t crc, const unsigned char *at, size_t length)
{
    uint64_t wide = crc;
    for (; length >= 8; at += 8, length -= 8) {
        uint64_t word;
        memcpy(&word, at, 8);
        wide = _mm_crc32_u64(wide, word);
    }
    crc = (uint32_t)wide;
    while (length--)
        crc = _mm_crc32_u8(crc, *at++);
    return crc;
}

static void choose_crc(void)
{
    __builtin_cpu_init();
    if (__builtin_cpu_supports("sse4.2"))
        crc_step = crc_by_sse42;
}
#else
static void choose_crc(void) {}
#endif

static uint32_t crc32c(const unsigned char *at, size_t length, uint32_t start)
{
    return ~crc_step(~start, at, length);
}

/* --- what is known of classes --------------------------------------------------------------------------------------- */

#define KINDS 16 /* of entries: a handful in all */
#define ENTRY_FIELDS(X) X(queue) X(length) X(count) X(tag) X(producer) X(sequence) X(offset) X(row)
#define TABLE_FIELDS(X) \
    X(turn) X(tail) X(tail_at) X(tail_end) X(next_row) X(next_offset) X(live_bytes) X(last_ms) X(durability) \
    X(encodings) X(visible_row) X(visible_offset)
#define PLACE(name) Py_ssize_t name;
#define ASK(name) || (kind->name = slot_of(type, #name)) < 0

struct kind { /* of entries */
    PyTypeObject *type;
    PyObject *write_into; /* a function that takes the entry first */
    int64_t encoding;
    int is_run, verbatim;
    Py_ssize_t payload; /* where, if it is verbatim */
    ENTRY_FIELDS(PLACE)
};

static struct kind kinds[KINDS];
static struct table_kind {
    PyTypeObject *type;
    TABLE_FIELDS(PLACE)
} table_kind;

static PyObject *queue_not_found, *others_crc;

static int learn(struct kind *kind, PyTypeObject *type)
{
    PyObject *is_run = NULL, *verbatim = NULL, *encoding = NULL, *writer = NULL;
    int failed = (is_run = PyObject_GetAttrString((PyObject *)type, "run")) == NULL ||
                 (verbatim = PyObject_GetAttrString((PyObject *)type, "verbatim")) == NULL ||
                 (encoding = PyObject_GetAttrString((PyObject *)type, "encoding")) == NULL ||
                 (writer = PyObject_GetAttrString((PyObject *)type, "write_into")) == NULL ENTRY_FIELDS(ASK);
    if (!failed) {
        kind->is_run = PyObject_IsTrue(is_run);
        kind->verbatim = PyObject_IsTrue(verbatim);
        kind->payload = kind->verbatim ? slot_of(type, "payload") : 0;
        kind->encoding = PyLong_AsLongLong(encoding);
        failed = PyErr_Occurred() != NULL;
    }
    if (!failed && (kind->encoding < 0 || kind->encoding > ENCODING_MAX)) {
        PyErr_Format(PyExc_ValueError, "an encoding is a number up to %d", ENCODING_MAX);
        failed = 1;
    }
    Py_XDECREF(is_run);
    Py_XDECREF(verbatim);
    Py_XDECREF(encoding);
    if (failed) {
        Py_XDECREF(writer);
        return -1;
    }
    Py_INCREF(type);
    kind->write_into = writer;
    kind->type = type;
    return 0;
}

static struct kind *kind_of(PyObject *entry)
{
    PyTypeObject *type = Py_TYPE(entry);
    struct kind *kind = kinds;
    for (; kind < kinds + KINDS && kind->type != NULL; kind++)
        if (kind->type == type)
            return kind;
    if (kind == kinds + KINDS) { /* classes made in tests, most likely: forget one */
        kind--;
        Py_CLEAR(kind->write_into);
        Py_CLEAR(kind->type);
    }
    return learn(kind, type) ? NULL : kind;
}

static int check_table(PyObject *table)
{
    PyTypeObject *type = Py_TYPE(table);
    if (table_kind.type == type)
        return 0;
    struct table_kind found = {type}, *kind = &found;
    if (0 TABLE_FIELDS(ASK))
        return -1;
    Py_INCREF(type);
    PyTypeObject *before = table_kind.type;
    table_kind = found;
    Py_XDECREF(before);
    return 0;
}

static void set_slot(PyObject *object, Py_ssize_t offset, PyObject *value)
{
    PyObject **place = (PyObject **)((char *)object + offset), *before = *place;
    Py_INCREF(value);
    *place = value;
    Py_XDECREF(before);
}

/* --- the end of a queue's table ------------------------------------------------------------------------------------- */

struct tail {
    PyObject *table; /* NULL: none is in hand */
    Py_buffer rows;
    int64_t queue, at, end, next_row, next_offset, live_bytes, encodings, encodings_before;
};

/* Take a table's numbers; `tail->table` is set by then. */
static int take(struct tail *tail)
{
    PyObject *table = tail->table;
    if (check_table(table) || slot_number(table, table_kind.tail_at, 0, INT64_MAX, &tail->at) ||
        slot_number(table, table_kind.tail_end, 0, INT64_MAX, &tail->end) ||
        slot_number(table, table_kind.next_row, 0, INT64_MAX, &tail->next_row) ||
        slot_number(table, table_kind.next_offset, 0, INT64_MAX, &tail->next_offset) ||
        slot_number(table, table_kind.live_bytes, INT64_MIN, INT64_MAX, &tail->live_bytes) ||
        slot_number(table, table_kind.encodings, INT64_MIN, INT64_MAX, &tail->encodings))
        return -1;
    tail->encodings_before = tail->encodings;
    if (tail->at == tail->end)
        return 0;
    PyObject *rows = slot(table, table_kind.tail);
    int failed = rows == NULL ? -1 : PyObject_GetBuffer(rows, &tail->rows, PyBUF_WRITABLE);
    if (!failed && tail->end > tail->rows.len) {
        PyErr_SetString(PyExc_ValueError, "a table ends behind its memory");
        return -1;
    }
    return failed;
}

/* Give the numbers back. */
static int give(struct tail *tail)
{
    if (tail->rows.obj != NULL)
        PyBuffer_Release(&tail->rows);
    PyObject *table = tail->table;
    return check_table(table) || set_slot_number(table, table_kind.tail_at, tail->at) ||
                   set_slot_number(table, table_kind.next_row, tail->next_row) ||
                   set_slot_number(table, table_kind.next_offset, tail->next_offset) ||
                   set_slot_number(table, table_kind.live_bytes, tail->live_bytes) ||
                   (tail->encodings != tail->encodings_before &&
                    set_slot_number(table, table_kind.encodings, tail->encodings))
               ? -1
               : 0;
}

static int let_go(struct tail *tail)
{
    if (tail->table == NULL)
        return 0;
    int failed = give(tail);
    Py_CLEAR(tail->table);
    return failed;
}

/* Have the table of a queue in hand, marked in `touched` when it is the first time in this append. */
static int turn_to(struct tail *tail, int64_t queue, PyObject *key, PyObject *tables, PyObject *turn,
                   PyObject *touched)
{
    if (tail->table != NULL && tail->queue == queue)
        return 0;
    if (let_go(tail))
        return -1;
    PyObject *table = PyDict_GetItemWithError(tables, key);
    if (table == NULL) {
        if (!PyErr_Occurred()) {
            PyObject *name = PyObject_Str(key);
            if (name != NULL)
                PyErr_SetObject(queue_not_found, name);
            Py_XDECREF(name);
        }
        return -1;
    }
    Py_INCREF(table);
    tail->table = table;
    tail->queue = queue;
    int64_t last_turn;
    if (take(tail) || slot_number(table, table_kind.turn, INT64_MIN, INT64_MAX, &last_turn))
        return -1;
    int64_t this_turn = PyLong_AsLongLong(turn);
    if (this_turn == -1 && PyErr_Occurred())
        return -1;
    if (last_turn == this_turn)
        return 0;
    PyObject *mark = PyTuple_Pack(4, table, slot(table, table_kind.next_row), slot(table, table_kind.next_offset),
                                  slot(table, table_kind.live_bytes)); /* `take` has seen that they are there */
    if (mark == NULL)
        return -1;
    int failed = PyList_Append(touched, mark);
    Py_DECREF(mark);
    if (!failed)
        set_slot(table, table_kind.turn, turn);
    return failed;
}

static int add_row(struct tail *tail, int64_t position, int64_t now_ms, int64_t tag, int64_t length, int64_t count,
                   int64_t lead)
{
    if (tail->at == tail->end) {
        if (give(tail))
            return -1;
        PyObject *done = PyObject_CallMethod(tail->table, "extend", "LL", (long long)tail->next_offset, (long long)now_ms);
        if (done == NULL)
            return -1;
        Py_DECREF(done);
        if (take(tail))
            return -1;
    }
    if (tail->end - tail->at < ROW_BYTES) {
        PyErr_SetString(PyExc_ValueError, "a table has no room for a row");
        return -1;
    }
    unsigned char *row = (unsigned char *)tail->rows.buf + tail->at;
    little8(row, position);
    little8(row + 8, tail->next_offset);
    little8(row + 16, now_ms);
    little8(row + 24, tag);
    little4(row + 32, length);
    little4(row + 36, count);
    little4(row + 40, lead);
    little4(row + 44, 0);
    tail->at += ROW_BYTES;
    tail->next_row += 1;
    tail->next_offset += count;
    tail->live_bytes += length;
    return 0;
}

/* A column of int64, one after the other or with gaps between them. */
static int column(PyObject *spans, Py_ssize_t index, Py_buffer *found)
{
    if (PyObject_GetBuffer(PyTuple_GET_ITEM(spans, index), found, PyBUF_STRIDED_RO))
        return -1;
    if (found->ndim == 1 && found->itemsize == 8)
        return 0;
    PyErr_SetString(PyExc_TypeError, "spans are arrays of 64-bit integers");
    return -1;
}

static int64_t in_column(const Py_buffer *column, Py_ssize_t index)
{
    int64_t value;
    memcpy(&value, (char *)column->buf + index * column->strides[0], 8);
    return value;
}

/* A row per message of a run. */
static int add_spans(struct tail *tail, Py_buffer columns[3], int64_t position, int64_t now_ms)
{
    Py_ssize_t count = columns[0].shape[0];
    if (columns[1].shape[0] != count || columns[2].shape[0] != count) {
        PyErr_SetString(PyExc_ValueError, "spans are arrays of one length");
        return -1;
    }
    for (Py_ssize_t index = 0; index < count; index++) {
        int64_t start = in_column(&columns[0], index), length = in_column(&columns[1], index);
        int64_t tag = in_column(&columns[2], index);
        if (add_row(tail, position + start, now_ms, tag, length, 1, HEADER_BYTES + start))
            return -1;
    }
    return 0;
}

static int add_run(struct tail *tail, PyObject *entry, int64_t position, int64_t now_ms)
{
    PyObject *spans = PyObject_CallMethod(entry, "spans", NULL);
    if (spans == NULL)
        return -1;
    Py_buffer columns[3] = {0};
    int failed = 0;
    if (!PyTuple_Check(spans) || PyTuple_GET_SIZE(spans) != 3) {
        PyErr_SetString(PyExc_TypeError, "spans are three arrays");
        failed = 1;
    }
    for (Py_ssize_t index = 0; index < 3 && !failed; index++)
        failed = column(spans, index, &columns[index]);
    failed = failed || add_spans(tail, columns, position, now_ms);
    for (Py_ssize_t index = 0; index < 3; index++)
        PyBuffer_Release(&columns[index]);
    Py_DECREF(spans);
    return failed ? -1 : 0;
}

/* --- the loop ------------------------------------------------------------------------------------------------------- */

static int call_write_into(struct kind *kind, PyObject *entry, PyObject *view, int64_t at, PyObject *key, PyObject *now)
{
    PyObject *place = PyLong_FromLongLong(at), *offset = slot(entry, kind->offset), *done = NULL;
    if (place != NULL && offset != NULL) {
        PyObject *write_into = kind->write_into;
        Py_INCREF(write_into);
        Py_INCREF(offset);
        PyObject *arguments[] = {NULL, entry, view, place, key, offset, now};
        done = PyObject_Vectorcall(write_into, arguments + 1, 6 | PY_VECTORCALL_ARGUMENTS_OFFSET, NULL);
        Py_DECREF(offset);
        Py_DECREF(write_into);
    }
    Py_XDECREF(place);
    Py_XDECREF(done);
    return done == NULL ? -1 : 0;
}

/* What a verbatim entry holds, a new reference; it has as many bytes as the entry says. */
static PyObject *payload_of(struct kind *kind, PyObject *entry, int64_t length)
{
    PyObject *payload = slot(entry, kind->payload);
    if (payload == NULL)
        return NULL;
    Py_buffer bytes;
    if (PyObject_GetBuffer(payload, &bytes, PyBUF_SIMPLE))
        return NULL;
    int64_t found = bytes.len;
    PyBuffer_Release(&bytes);
    if (found != length)
        return PyErr_Format(PyExc_ValueError, "a payload of %lld bytes is said to have %lld", (long long)found,
                            (long long)length);
    Py_INCREF(payload);
    return payload;
}

static int crc_of(PyObject *payload, uint32_t *crc)
{
    PyObject *found = PyObject_CallOneArg(others_crc, payload);
    if (found == NULL)
        return -1;
    *crc = (uint32_t)PyLong_AsUnsignedLong(found);
    Py_DECREF(found);
    return PyErr_Occurred() ? -1 : 0;
}

static int crc_in(PyObject *view, const unsigned char *buffer, int64_t at, int64_t length, uint32_t *crc)
{
    if (length <= OTHERS_CRC_BYTES) {
        *crc = crc32c(buffer + at, (size_t)length, 0);
        return 0;
    }
    PyObject *part = PySequence_GetSlice(view, (Py_ssize_t)at, (Py_ssize_t)(at + length));
    int failed = part == NULL || crc_of(part, crc);
    Py_XDECREF(part);
    return failed ? -1 : 0;
}

struct call {
    PyObject *view, *now, *turn, *tables, *touched, *numbered, *flags;
    PyObject *follows; /* a payload that was not put into the buffer, or NULL; nothing comes behind it */
    Py_buffer buffer;
    int64_t limit, base, secret, synced, now_ms;
};

static int flags_of(struct call *call, Py_ssize_t index, int64_t *flags)
{
    *flags = 0;
    if (call->flags == Py_None)
        return 0;
    PyObject *own = PySequence_GetItem(call->flags, index);
    int failed = own == NULL || number_in(own, 0, UINT16_MAX, flags);
    Py_XDECREF(own);
    return failed ? -1 : 0;
}

/* One entry at `at`; 1 when it does not fit any more, with nothing changed. `behind` is set where it ends. */
static int one(struct call *call, struct tail *tail, PyObject *entry, Py_ssize_t index, int64_t at, int64_t *behind)
{
    int64_t length, queue, count, tag, sequence, flags, row, offset;
    struct kind *known = kind_of(entry);
    if (known == NULL)
        return -1;
    struct kind kind = *known; /* it may be forgotten while the entry writes itself */
    if (slot_number(entry, kind.length, 0, INT64_MAX / 2, &length))
        return -1;
    int64_t payload_at = at + HEADER_BYTES;
    *behind = payload_at + length;
    if (*behind > call->limit)
        return 1;
    if (length > INT32_MAX) {
        PyErr_Format(PyExc_ValueError, "an entry of %lld bytes is too long for a row", (long long)length);
        return -1;
    }
    PyObject *key = slot(entry, kind.queue), *producer_slot = slot(entry, kind.producer);
    if (key == NULL || producer_slot == NULL)
        return -1;
    uint64_t producer = PyLong_AsUnsignedLongLong(producer_slot);
    if (producer == (uint64_t)-1 && PyErr_Occurred())
        return -1;
    Py_INCREF(key);
    int failed = number_in(key, 0, UINT32_MAX, &queue) || slot_number(entry, kind.count, 0, INT32_MAX, &count) ||
                 slot_number(entry, kind.tag, INT32_MIN, INT32_MAX, &tag) ||
                 slot_number(entry, kind.sequence, INT64_MIN, INT64_MAX, &sequence) ||
                 turn_to(tail, queue, key, call->tables, call->turn, call->touched);
    if (!failed) {
        tail->encodings |= (int64_t)1 << kind.encoding;
        offset = tail->next_offset;
        row = tail->next_row;
        failed = set_slot_number(entry, kind.offset, offset) || set_slot_number(entry, kind.row, row);
    }
    if (!failed && kind.verbatim && length >= DIRECT_BYTES)
        failed = (call->follows = payload_of(&kind, entry, length)) == NULL;
    else if (!failed)
        failed = call_write_into(&kind, entry, call->view, payload_at, key, call->now);
    Py_DECREF(key);
    if (failed || flags_of(call, index, &flags))
        return -1;
    if (kind.is_run) {
        flags |= RUN;
        if (add_run(tail, entry, call->base + payload_at, call->now_ms))
            return -1;
    } else if (add_row(tail, call->base + payload_at, call->now_ms, tag, length, count, HEADER_BYTES))
        return -1;
    if (producer && sequence >= 0 && PyList_Append(call->numbered, entry))
        return -1;
    unsigned char *buffer = call->buffer.buf, *head = buffer + at, *facts = head + FACTS_AT;
    uint32_t crc;
    if (call->follows != NULL ? crc_of(call->follows, &crc) : crc_in(call->view, buffer, payload_at, length, &crc))
        return -1;
    little4(facts, crc);
    little4(facts + 4, length);
    little4(facts + 8, queue);
    little4(facts + 12, count);
    little8(facts + 16, row);
    little8(facts + 24, offset);
    little8(facts + 32, call->now_ms);
    little8(facts + 40, call->synced);
    little8(facts + 48, producer);
    little8(facts + 56, sequence);
    little2(facts + 64, kind.encoding);
    little2(facts + 66, flags);
    little4(facts + 68, tag);
    little4(head, MAGIC);
    little4(head + 4, crc32c(facts, HEADER_BYTES - FACTS_AT, (uint32_t)call->secret + (uint32_t)(call->base + at)));
    return 0;
}

static PyObject *fill_all(struct call *call, PyObject *entries, Py_ssize_t index)
{
    struct tail tail = {0};
    int64_t at = 0, behind, payload_bytes = 0;
    int state = 0;
    for (; index < PyList_GET_SIZE(entries); index++) {
        PyObject *entry = PyList_GET_ITEM(entries, index);
        Py_INCREF(entry);
        state = one(call, &tail, entry, index, at, &behind);
        Py_DECREF(entry);
        if (state)
            break;
        payload_bytes += behind - at - HEADER_BYTES;
        at = call->follows != NULL ? at + HEADER_BYTES : behind;
        if (call->follows != NULL) {
            index++;
            break;
        }
    }
    if (state < 0) { /* the caller takes every table back to its mark */
        if (tail.rows.obj != NULL)
            PyBuffer_Release(&tail.rows);
        Py_CLEAR(tail.table);
        return NULL;
    }
    if (let_go(&tail))
        return NULL;
    return Py_BuildValue("(nLLO)", index, (long long)at, (long long)payload_bytes,
                         call->follows != NULL ? call->follows : Py_None);
}

static PyObject *fill(PyObject *module, PyObject *arguments)
{
    struct call call;
    PyObject *entries;
    Py_ssize_t index;
    long long limit, base, secret, synced;
    if (!PyArg_ParseTuple(arguments, "O!nOLLLLOO!O!O!O!O", &PyList_Type, &entries, &index, &call.view, &limit, &base,
                          &secret, &synced, &call.now, &PyLong_Type, &call.turn, &PyDict_Type, &call.tables, &PyList_Type, &call.touched,
                          &PyList_Type, &call.numbered, &call.flags))
        return NULL;
    call.base = base, call.secret = secret, call.synced = synced, call.follows = NULL;
    call.now_ms = PyLong_AsLongLong(call.now);
    if (call.now_ms == -1 && PyErr_Occurred())
        return NULL;
    if (PyObject_GetBuffer(call.view, &call.buffer, PyBUF_WRITABLE))
        return NULL;
    call.limit = limit < call.buffer.len ? limit : call.buffer.len;
    PyObject *done = index < 0 ? PyErr_Format(PyExc_ValueError, "no entry %zd", index) : fill_all(&call, entries, index);
    PyBuffer_Release(&call.buffer);
    Py_XDECREF(call.follows);
    return done;
}

/* --- what can be seen afterwards ------------------------------------------------------------------------------------ */

static int reveal_one(PyObject *table, PyObject *last_ms, PyObject *sync, PyObject *hidden)
{
    if (check_table(table))
        return -1;
    PyObject *row = slot(table, table_kind.next_row), *offset = slot(table, table_kind.next_offset);
    PyObject *durability = slot(table, table_kind.durability);
    if (row == NULL || offset == NULL || durability == NULL)
        return -1;
    set_slot(table, table_kind.last_ms, last_ms);
    if (durability != sync) {
        set_slot(table, table_kind.visible_row, row);
        set_slot(table, table_kind.visible_offset, offset);
        return 0;
    }
    PyObject *shown = PyTuple_Pack(3, table, row, offset);
    int failed = shown == NULL || PyList_Append(hidden, shown);
    Py_XDECREF(shown);
    return failed ? -1 : 0;
}

static PyObject *reveal(PyObject *module, PyObject *arguments)
{
    PyObject *touched, *last_ms, *sync;
    if (!PyArg_ParseTuple(arguments, "O!OO", &PyList_Type, &touched, &last_ms, &sync))
        return NULL;
    PyObject *hidden = PyList_New(0);
    for (Py_ssize_t index = 0; hidden != NULL && index < PyList_GET_SIZE(touched); index++) {
        PyObject *mark = PyList_GET_ITEM(touched, index);
        if (!PyTuple_Check(mark) || PyTuple_GET_SIZE(mark) != 4) {
            PyErr_SetString(PyExc_TypeError, "a mark is a tuple of four");
            Py_CLEAR(hidden);
        } else if (reveal_one(PyTuple_GET_ITEM(mark, 0), last_ms, sync, hidden))
            Py_CLEAR(hidden);
    }
    return hidden;
}

static PyMethodDef methods[] = {
    {"fill", fill, METH_VARARGS, "See fill_in_python in filling.py."},
    {"reveal", reveal, METH_VARARGS, "See reveal_in_python in filling.py."},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, "_filling", "The append loop, compiled.", -1, methods, NULL, NULL, NULL, NULL,
};

static PyObject *from_module(const char *module, const char *name)
{
    PyObject *imported = PyImport_ImportModule(module);
    PyObject *found = imported == NULL ? NULL : PyObject_GetAttrString(imported, name);
    Py_XDECREF(imported);
    return found;
}

PyMODINIT_FUNC PyInit__filling(void)
{
    make_crc_table();
    choose_crc();
    if ((queue_not_found = from_module("penstock.errors", "QueueNotFound")) == NULL ||
        (others_crc = from_module("crc32c", "crc32c")) == NULL)
        return NULL;
    return PyModule_Create(&definition);
}
