/* From the bytes of a pull to columns, compiled: where records begin, what plain ones say, bodies put behind each other,
 * and the properties of messages taken apart. `hop.py`, `records.py` and `gather.py` say what each does, and take their
 * place where this was not built.
 *
 * All of it comes from the network: every place is checked against what is there before a byte is read, and rooms are as
 * large as what they are filled from. Columns are pairs of buffers as Arrow has them: where each value begins, in 32 bits
 * and with one more for the end, and the values one behind the other.
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "../stores.h"
#include <string.h>

#define RECORD_BYTES_MIN 91
#define HEAD_BYTES 88 /* with hosts of four bytes: see wire/rocketmq/heads.py */
#define MAGIC 0xDAA320A7u
#define NOT_PLAIN 0x31u /* of sysFlag: compressed, a host of sixteen bytes */
#define MS_MAX (INT64_MAX / 1000)
#define NAME_END 1
#define VALUE_END 2
#define NAMES_MAX 8
#define PAIRS_MAX 64 /* of one message: so many are compared with each other */
#define BYTES_MAX INT32_MAX
#define ALIKE_MAX 8 /* properties that others are compared with */
#define ALIKE_BYTES_MAX 512
#define ALIKE_TIMES 3

/* --- columns -------------------------------------------------------------------------------------------------------- */

typedef struct {
    PyObject *borders, *values;
    Py_ssize_t count, room, bytes, bytes_room;
} Column;

static int make_column(Column *column, Py_ssize_t room, Py_ssize_t bytes_room)
{
    *column = (Column){NULL, NULL, 0, room, 0, bytes_room};
    column->borders = PyBytes_FromStringAndSize(NULL, (room + 1) * 4);
    column->values = PyBytes_FromStringAndSize(NULL, bytes_room);
    if (column->borders == NULL || column->values == NULL)
        return -1;
    memset(PyBytes_AS_STRING(column->borders), 0, 4);
    return 0;
}

static void drop_column(Column *column)
{
    Py_CLEAR(column->borders);
    Py_CLEAR(column->values);
}

/* False when there is no room for it. */
static inline int put(Column *column, const unsigned char *from, Py_ssize_t length)
{
    if (column->count >= column->room || length < 0 || length > column->bytes_room - column->bytes)
        return 0;
    memcpy(PyBytes_AS_STRING(column->values) + column->bytes, from, (size_t)length);
    column->bytes += length;
    column->count++;
    int32_t end = (int32_t)column->bytes;
    memcpy(PyBytes_AS_STRING(column->borders) + column->count * 4, &end, 4);
    return 1;
}

/* (borders, values), cut to what was put. The column is empty then. */
static PyObject *taken(Column *column)
{
    PyObject *pair = NULL;
    if (_PyBytes_Resize(&column->borders, (column->count + 1) * 4) == 0 &&
        _PyBytes_Resize(&column->values, column->bytes) == 0)
        pair = PyTuple_Pack(2, column->borders, column->values);
    drop_column(column);
    return pair;
}

/* --- places --------------------------------------------------------------------------------------------------------- */

/* Pieces of `data`, from each of `starts` to the same of `ends`: 64-bit numbers. */
typedef struct {
    Py_buffer data, starts, ends;
    Py_ssize_t count, bytes; /* of all pieces together */
} Places;

static inline int64_t number_at(const Py_buffer *numbers, Py_ssize_t index)
{
    int64_t number;
    memcpy(&number, (const char *)numbers->buf + index * 8, 8);
    return number;
}

static inline const unsigned char *piece(const Places *places, Py_ssize_t index, Py_ssize_t *length)
{
    int64_t start = number_at(&places->starts, index);
    *length = (Py_ssize_t)(number_at(&places->ends, index) - start);
    return (const unsigned char *)places->data.buf + start;
}

/* Nobody looks at a piece before all of them are known to be inside. */
static int check_places(Places *places)
{
    places->count = places->starts.len / 8;
    places->bytes = 0;
    if (places->starts.len % 8 || places->ends.len != places->starts.len)
        goto outside;
    for (Py_ssize_t index = 0; index < places->count; index++) {
        int64_t start = number_at(&places->starts, index), end = number_at(&places->ends, index);
        if (start < 0 || end > places->data.len || start > end)
            goto outside;
        places->bytes += (Py_ssize_t)(end - start);
        if (places->bytes > BYTES_MAX)
            goto outside;
    }
    return 0;
outside:
    PyErr_SetString(PyExc_ValueError, "places that are not inside of the data");
    return -1;
}

static void release(Places *places)
{
    PyBuffer_Release(&places->data);
    PyBuffer_Release(&places->starts);
    PyBuffer_Release(&places->ends);
}

static PyObject *gathered(PyObject *self, PyObject *args)
{
    Places places;
    if (!PyArg_ParseTuple(args, "y*y*y*", &places.data, &places.starts, &places.ends))
        return NULL;
    PyObject *found = NULL;
    Column column = {0};
    if (check_places(&places) == 0 && make_column(&column, places.count, places.bytes) == 0) {
        for (Py_ssize_t index = 0; index < places.count; index++) {
            Py_ssize_t length;
            const unsigned char *from = piece(&places, index, &length);
            put(&column, from, length);
        }
        found = taken(&column);
    }
    drop_column(&column);
    release(&places);
    return found;
}

/* --- where records begin -------------------------------------------------------------------------------------------- */

static PyObject *borders(PyObject *self, PyObject *args)
{
    Py_buffer data;
    if (!PyArg_ParseTuple(args, "y*", &data))
        return NULL;
    PyObject *found = PyBytes_FromStringAndSize(NULL, (data.len / RECORD_BYTES_MIN + 1) * 8);
    Py_ssize_t at = 0, count = 0;
    while (found != NULL) {
        int64_t border = at;
        memcpy(PyBytes_AS_STRING(found) + count++ * 8, &border, 8);
        if (data.len - at < RECORD_BYTES_MIN)
            break;
        Py_ssize_t length = from_big4((const unsigned char *)data.buf + at);
        if (length < RECORD_BYTES_MIN || length > data.len - at)
            break;
        at += length;
    }
    int whole = at == data.len;
    PyBuffer_Release(&data);
    if (found != NULL && !whole) {
        Py_DECREF(found);
        Py_RETURN_NONE;
    }
    if (found != NULL)
        _PyBytes_Resize(&found, count * 8);
    return found;
}

/* --- plain records -------------------------------------------------------------------------------------------------- */

enum { OFFSETS, BORN_US, STORE_US, BODIES, BODY_ENDS, PROPERTIES, PROPERTY_ENDS, NUMBERS };

static inline int64_t signed_at(const unsigned char *at)
{
    return (int64_t)((uint64_t)from_big4(at) << 32 | from_big4(at + 4));
}

static inline int is_time(int64_t ms)
{
    return ms >= -MS_MAX && ms <= MS_MAX;
}

/* What a record says that begins at `at` of `left` bytes, places counted from there; how long it is, or 0 when it is not
 * plain. */
static inline Py_ssize_t plain_record(const unsigned char *at, Py_ssize_t left, int64_t *said)
{
    if (left < RECORD_BYTES_MIN)
        return 0;
    Py_ssize_t length = from_big4(at), body_bytes = from_big4(at + HEAD_BYTES - 4);
    if (length < RECORD_BYTES_MIN || length > left || from_big4(at + 4) != MAGIC || from_big4(at + 36) & NOT_PLAIN ||
        body_bytes > length - RECORD_BYTES_MIN)
        return 0;
    int64_t born_ms = signed_at(at + 40), store_ms = signed_at(at + 56);
    Py_ssize_t topic = HEAD_BYTES + body_bytes, properties = topic + 1 + at[topic] + 2;
    if (properties > length || !is_time(born_ms) || !is_time(store_ms))
        return 0;
    Py_ssize_t end = properties + (at[properties - 2] << 8 | at[properties - 1]);
    if (end > length)
        return 0;
    said[OFFSETS] = signed_at(at + 20), said[BORN_US] = born_ms * 1000, said[STORE_US] = store_ms * 1000;
    said[BODIES] = HEAD_BYTES, said[BODY_ENDS] = topic, said[PROPERTIES] = properties, said[PROPERTY_ENDS] = end;
    return length;
}

/* Fills rows of numbers, one for each thing that records say, with those between two offsets; how many, or -1 when they
 * are not plain or not in order. */
static Py_ssize_t plain_rows(const Py_buffer *data, int64_t first, int64_t until, int64_t *rows, Py_ssize_t room)
{
    const unsigned char *bytes = data->buf;
    int64_t said[NUMBERS], before = INT64_MIN;
    Py_ssize_t count = 0, length;
    for (Py_ssize_t at = 0; at < data->len; at += length) {
        length = plain_record(bytes + at, data->len - at, said);
        if (!length || said[OFFSETS] <= before)
            return -1;
        before = said[OFFSETS];
        if (before < first || before >= until)
            continue;
        for (int what = 0; what < NUMBERS; what++)
            rows[what * room + count] = said[what] + (what >= BODIES ? at : 0);
        count++;
    }
    return count;
}

static PyObject *plain(PyObject *self, PyObject *args)
{
    Py_buffer data;
    long long first, until;
    if (!PyArg_ParseTuple(args, "y*LL", &data, &first, &until))
        return NULL;
    Py_ssize_t room = data.len / RECORD_BYTES_MIN + 1, count = -1;
    int64_t *rows = PyMem_Malloc((size_t)room * NUMBERS * 8);
    if (rows != NULL)
        count = plain_rows(&data, first, until, rows, room);
    PyBuffer_Release(&data);
    PyObject *found = rows == NULL ? PyErr_NoMemory() : count < 0 ? Py_NewRef(Py_None) : PyTuple_New(NUMBERS);
    for (int what = 0; found != NULL && count >= 0 && what < NUMBERS; what++) {
        PyObject *numbers = PyBytes_FromStringAndSize((const char *)(rows + what * room), count * 8);
        if (numbers == NULL)
            Py_CLEAR(found);
        else
            PyTuple_SET_ITEM(found, what, numbers);
    }
    PyMem_Free(rows);
    return found;
}

/* --- properties ----------------------------------------------------------------------------------------------------- */

typedef struct {
    const unsigned char *name, *value;
    Py_ssize_t name_bytes, value_bytes;
} Pair;

/* Where `mark` stands first; `end` when it does not. It is near, mostly: closer than calling memchr is worth. Of eight
 * bytes at once, the lowest that is marked is the first that is equal (the highest bit of a byte is set where it was 0). */
static inline const unsigned char *place_of(unsigned char mark, const unsigned char *at, const unsigned char *end)
{
#if defined(__GNUC__) && __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
    const uint64_t ones = 0x0101010101010101u, highest = 0x8080808080808080u;
    for (uint64_t word; end - at >= 8; at += 8) {
        memcpy(&word, at, 8);
        word ^= ones * mark;
        if ((word = (word - ones) & ~word & highest))
            return at + (__builtin_ctzll(word) >> 3);
    }
#endif
    while (at < end && *at != mark)
        at++;
    return at;
}

/* The next pair that counts, of those between `at` and `end`; False when there is none. */
static inline int next_pair(const unsigned char **at, const unsigned char *end, Pair *pair)
{
    while (*at < end) {
        const unsigned char *name = *at, *over = place_of(VALUE_END, name, end);
        *at = over < end ? over + 1 : end;
        const unsigned char *middle = place_of(NAME_END, name, over);
        if (middle > name && middle + 1 < over) {
            *pair = (Pair){name, middle + 1, middle - name, over - middle - 1};
            return 1;
        }
    }
    return 0;
}

static int is_ascii(const unsigned char *at, Py_ssize_t length)
{
    uint64_t word, seen = 0;
    for (; length >= 8; at += 8, length -= 8) {
        memcpy(&word, at, 8);
        seen |= word;
    }
    for (; length; at++, length--)
        seen |= *at;
    return !(seen & 0x8080808080808080u);
}

static inline int same(const unsigned char *one, Py_ssize_t bytes, const unsigned char *other, Py_ssize_t other_bytes)
{
    return bytes == other_bytes && one[0] == other[0] && memcmp(one, other, (size_t)bytes) == 0;
}

/* A name that a message has had, with its end, and the column of its values: -1 when nobody wants them. */
typedef struct {
    const unsigned char *name;
    Py_ssize_t bytes, column;
} Seen;

static Py_ssize_t column_of(PyObject *names, const Pair *pair)
{
    for (Py_ssize_t index = 0; index < PyTuple_GET_SIZE(names); index++) {
        PyObject *name = PyTuple_GET_ITEM(names, index);
        if (same(pair->name, pair->name_bytes, (const unsigned char *)PyBytes_AS_STRING(name), PyBytes_GET_SIZE(name)))
            return index;
    }
    return -1;
}

/* The values of some names of one message, each put into its column: the last that there is, or nothing. Messages mostly
 * have the names of the one before, in the same order (`seen`): then these need not be looked for. */
static void put_texts(Column *columns, PyObject *names, const unsigned char *at, const unsigned char *end, Seen *seen)
{
    Pair pair, found[NAMES_MAX];
    Py_ssize_t count = PyTuple_GET_SIZE(names), nth = 0;
    for (Py_ssize_t index = 0; index < count; index++)
        found[index] = (Pair){0};
    for (; at < end; nth += nth < PAIRS_MAX - 1) {
        Seen *like = &seen[nth];
        if (like->bytes && end - at > like->bytes && memcmp(at, like->name, (size_t)like->bytes) == 0) {
            const unsigned char *value = at + like->bytes, *over = place_of(VALUE_END, value, end);
            at = over < end ? over + 1 : end;
            if (over > value && like->column >= 0)
                found[like->column] = (Pair){like->name, value, like->bytes - 1, over - value};
        } else if (next_pair(&at, end, &pair)) {
            *like = (Seen){pair.name, pair.name_bytes + 1, column_of(names, &pair)};
            if (like->column >= 0)
                found[like->column] = pair;
        }
    }
    for (Py_ssize_t index = 0; index < count; index++)
        put(&columns[index], found[index].value == NULL ? end : found[index].value, found[index].value_bytes);
}

/* Properties of a message as others have them: as long, with the same names at the same places, which is what most of a
 * queue looks like. `fixed` marks the bytes that have to be the same, names and separators; all others are values. */
typedef struct {
    const unsigned char *at;
    Py_ssize_t bytes, bytes_before; /* -1 when there are none; how long those were that were not like them, last */
    int times; /* so many were as long as that, one after the other */
    Pair found[NAMES_MAX];
    unsigned char fixed[ALIKE_BYTES_MAX];
} Alike;

#if defined(__GNUC__)
typedef uint64_t Words __attribute__((vector_size(16)));
#else
typedef uint64_t Words;
#endif
#define WORDS_BYTES ((Py_ssize_t)sizeof(Words))

/* Zero when what is fixed is the same, no value has an end in it, and all of it is ASCII. */
static inline Words differences(const unsigned char *at, const unsigned char *other, const unsigned char *fixed)
{
    const Words none = {0}, ones = none + 0x0101010101010101u, highest = none + 0x8080808080808080u;
    Words here, there, mask;
    memcpy(&here, at, sizeof here);
    memcpy(&there, other, sizeof there);
    memcpy(&mask, fixed, sizeof mask);
    Words ends = here ^ ones * VALUE_END;
    return ((here ^ there) & mask) | ((((ends - ones) & ~ends & ~mask) | here) & highest);
}

static inline int is_like(const Alike *alike, const unsigned char *at, Py_ssize_t bytes)
{
    if (bytes != alike->bytes)
        return 0;
    Words found = {0}, none = {0};
    Py_ssize_t index = 0;
    for (; index + WORDS_BYTES <= bytes; index += WORDS_BYTES)
        found |= differences(at + index, alike->at + index, alike->fixed + index);
    if ((index = bytes - WORDS_BYTES) >= 0) /* what is left, and what stands before it once more */
        found |= differences(at + index, alike->at + index, alike->fixed + index);
    return memcmp(&found, &none, sizeof found) == 0;
}

static void put_like(Column *columns, Py_ssize_t count, const unsigned char *at, const Alike *alike)
{
    for (Py_ssize_t index = 0; index < count; index++) {
        const Pair *pair = &alike->found[index];
        put(&columns[index], pair->value == NULL ? at : at + (pair->value - alike->at), pair->value_bytes);
    }
}

/* Others are compared with these from now on, when several were as long: it costs half of what taking them apart does. */
static void remember(Alike *alike, PyObject *names, const unsigned char *at, Py_ssize_t bytes)
{
    const unsigned char *const begin = at, *const end = at + bytes;
    alike->times = bytes == alike->bytes_before ? alike->times + 1 : 1;
    alike->bytes_before = bytes;
    if (alike->times < ALIKE_TIMES || bytes < WORDS_BYTES || bytes > ALIKE_BYTES_MAX)
        return;
    alike->at = at, alike->bytes = bytes, alike->times = 0;
    memset(alike->found, 0, sizeof alike->found);
    memset(alike->fixed, 0xFF, (size_t)bytes);
    for (Pair pair; next_pair(&at, end, &pair);) {
        Py_ssize_t column = column_of(names, &pair);
        if (column >= 0)
            alike->found[column] = pair;
        memset(alike->fixed + (pair.value - begin), 0, (size_t)pair.value_bytes);
    }
}

static int are_names(PyObject *names)
{
    int sound = PyTuple_GET_SIZE(names) <= NAMES_MAX;
    for (Py_ssize_t index = 0; sound && index < PyTuple_GET_SIZE(names); index++)
        sound = PyBytes_Check(PyTuple_GET_ITEM(names, index));
    if (!sound)
        PyErr_Format(PyExc_ValueError, "names are bytes, %d at most", NAMES_MAX);
    return sound;
}

/* A column for each name; None when some text is not ASCII. Names differ, so that together their values are no longer
 * than what they are taken from: but any one of them can be as long as all of it. */
static PyObject *texts(PyObject *self, PyObject *args)
{
    Places places;
    PyObject *names, *found = NULL;
    if (!PyArg_ParseTuple(args, "y*y*y*O!", &places.data, &places.starts, &places.ends, &PyTuple_Type, &names))
        return NULL;
    Column columns[NAMES_MAX] = {{0}};
    Seen seen[PAIRS_MAX] = {{0}};
    Alike some[ALIKE_MAX];
    Py_ssize_t index, count = PyTuple_GET_SIZE(names);
    if (!are_names(names) || check_places(&places))
        goto done;
    for (index = 0; index < ALIKE_MAX; index++)
        some[index].bytes = some[index].bytes_before = -1;
    for (index = 0; index < count; index++)
        if (make_column(&columns[index], places.count, places.bytes))
            goto done;
    for (index = 0; index < places.count; index++) {
        Py_ssize_t length;
        const unsigned char *at = piece(&places, index, &length);
        Alike *alike = &some[length % ALIKE_MAX];
        if (is_like(alike, at, length)) {
            put_like(columns, count, at, alike);
        } else if (is_ascii(at, length)) {
            put_texts(columns, names, at, at + length, seen);
            remember(alike, names, at, length);
        } else {
            found = Py_NewRef(Py_None);
            goto done;
        }
    }
    found = PyTuple_New(count);
    for (index = 0; found != NULL && index < count; index++) {
        PyObject *pair = taken(&columns[index]);
        if (pair == NULL)
            Py_CLEAR(found);
        else
            PyTuple_SET_ITEM(found, index, pair);
    }
done:
    for (index = 0; index < NAMES_MAX; index++)
        drop_column(&columns[index]);
    release(&places);
    return found;
}

/* All pairs of one message that are not `left_out`; False when it is not as simple as that: text beyond ASCII, too many,
 * or one name twice. */
static int put_pairs(Column *keys, Column *values, PyObject *left_out, const unsigned char *at, const unsigned char *end)
{
    Pair pairs[PAIRS_MAX];
    Py_ssize_t count = 0;
    uint64_t seen = 0;
    if (!is_ascii(at, end - at))
        return 0;
    for (Pair pair; next_pair(&at, end, &pair); pairs[count++] = pair) {
        if (count == PAIRS_MAX)
            return 0;
        uint64_t mark = (uint64_t)1 << ((pair.name_bytes * 7 + pair.name[0] + pair.name[pair.name_bytes - 1]) & 63);
        for (Py_ssize_t other = 0; seen & mark && other < count; other++)
            if (same(pair.name, pair.name_bytes, pairs[other].name, pairs[other].name_bytes))
                return 0;
        seen |= mark;
        if (column_of(left_out, &pair) >= 0)
            continue;
        if (!put(keys, pair.name, pair.name_bytes) || !put(values, pair.value, pair.value_bytes))
            return 0;
    }
    return 1;
}

/* (where each message's pairs begin, names, values); None when it is not as simple as that. */
static PyObject *pairs(PyObject *self, PyObject *args)
{
    Places places;
    PyObject *left_out;
    if (!PyArg_ParseTuple(args, "y*y*y*O!", &places.data, &places.starts, &places.ends, &PyTuple_Type, &left_out))
        return NULL;
    PyObject *found = NULL, *firsts = NULL, *names = NULL, *texts = NULL;
    Column keys = {0}, values = {0};
    if (!are_names(left_out) || check_places(&places))
        goto done;
    Py_ssize_t room = places.bytes / 4 + places.count; /* a pair takes 4 bytes, the last of a message 3 */
    if ((firsts = PyBytes_FromStringAndSize(NULL, (places.count + 1) * 4)) == NULL ||
        make_column(&keys, room, places.bytes) || make_column(&values, room, places.bytes))
        goto done;
    memset(PyBytes_AS_STRING(firsts), 0, 4);
    for (Py_ssize_t index = 0; index < places.count; index++) {
        Py_ssize_t length;
        const unsigned char *at = piece(&places, index, &length);
        if (!put_pairs(&keys, &values, left_out, at, at + length)) {
            found = Py_NewRef(Py_None);
            goto done;
        }
        int32_t first = (int32_t)keys.count;
        memcpy(PyBytes_AS_STRING(firsts) + (index + 1) * 4, &first, 4);
    }
    if ((names = taken(&keys)) != NULL && (texts = taken(&values)) != NULL)
        found = PyTuple_Pack(3, firsts, names, texts);
done:
    Py_XDECREF(firsts);
    Py_XDECREF(names);
    Py_XDECREF(texts);
    drop_column(&keys);
    drop_column(&values);
    release(&places);
    return found;
}

/* --- the module ----------------------------------------------------------------------------------------------------- */

static PyMethodDef methods[] = {
    {"borders", borders, METH_VARARGS, "See borders_in_python in hop.py."},
    {"plain", plain, METH_VARARGS, "See plain_in_python in records.py."},
    {"gathered", gathered, METH_VARARGS, "See gathered_in_python in gather.py."},
    {"texts", texts, METH_VARARGS, "See texts_in_python in gather.py."},
    {"pairs", pairs, METH_VARARGS, "See pairs_in_python in gather.py."},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, "_columns", "From pulls to columns, compiled.", -1, methods, NULL, NULL, NULL, NULL,
};

PyMODINIT_FUNC PyInit__columns(void)
{
    return PyModule_Create(&definition);
}
