/* From the bytes of a pull to columns, compiled: where records begin, bodies put behind each other, and the properties
 * of messages taken apart. `hop.py` and `gather.py` say what each does, and take their place where this was not built.
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
#define NAME_END 1
#define VALUE_END 2
#define NAMES_MAX 8
#define PAIRS_MAX 64 /* of one message: so many are compared with each other */
#define BYTES_MAX INT32_MAX

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

/* The values of some names of one message, each put into its column: the last that there is, or nothing. */
static void put_texts(Column *columns, PyObject *names, const unsigned char *at, const unsigned char *end)
{
    Pair pair, found[NAMES_MAX];
    Py_ssize_t count = PyTuple_GET_SIZE(names);
    for (Py_ssize_t index = 0; index < count; index++)
        found[index] = (Pair){0};
    while (next_pair(&at, end, &pair))
        for (Py_ssize_t index = 0; index < count; index++) {
            PyObject *name = PyTuple_GET_ITEM(names, index);
            if (same(pair.name, pair.name_bytes, (const unsigned char *)PyBytes_AS_STRING(name), PyBytes_GET_SIZE(name)))
                found[index] = pair;
        }
    for (Py_ssize_t index = 0; index < count; index++)
        put(&columns[index], found[index].value == NULL ? end : found[index].value, found[index].value_bytes);
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
    Py_ssize_t index, count = PyTuple_GET_SIZE(names);
    if (!are_names(names) || check_places(&places))
        goto done;
    for (index = 0; index < count; index++)
        if (make_column(&columns[index], places.count, places.bytes))
            goto done;
    for (index = 0; index < places.count; index++) {
        Py_ssize_t length;
        const unsigned char *at = piece(&places, index, &length);
        if (!is_ascii(at, length)) {
            found = Py_NewRef(Py_None);
            goto done;
        }
        put_texts(columns, names, at, at + length);
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

static inline int is_one_of(PyObject *names, const Pair *pair)
{
    for (Py_ssize_t index = 0; index < PyTuple_GET_SIZE(names); index++) {
        PyObject *name = PyTuple_GET_ITEM(names, index);
        if (same(pair->name, pair->name_bytes, (const unsigned char *)PyBytes_AS_STRING(name), PyBytes_GET_SIZE(name)))
            return 1;
    }
    return 0;
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
        if (is_one_of(left_out, &pair))
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
