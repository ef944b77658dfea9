/* From rows to the bytes of the log that they stand for, compiled: the same as the functions `..._in_python` in spans.py,
 * which are the definitions and take their place where this was not built.
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include "rows.h"
#include <string.h>

struct found {
    int64_t rows, messages, size_bytes, next_offset, low, high;
};

/* Add a number to a list; the list is the caller's in any case. */
static int add(PyObject *list, int64_t value)
{
    PyObject *number = PyLong_FromLongLong(value);
    int failed = number == NULL || PyList_Append(list, number);
    Py_XDECREF(number);
    return failed;
}

/* The rows from `row` on. 1 when it was done, 0 when one of them is lost or the first is another one, -1 with an error
 * set. */
static int walk(const unsigned char *row, int64_t rows, int64_t first, int64_t messages_max, int64_t bytes_max,
                struct found *found, PyObject *places)
{
    int64_t start = 0, end = 0; /* of what touches, and is not in `places` yet */
    if (rows && !begins_with(row, first))
        return 0;
    for (; found->rows < rows; row += ROW_BYTES) {
        int64_t position = little(row, 8), length = little(row + LENGTH, 4), count = little(row + COUNT, 4);
        if (position < 0 || length < 0)
            return 0;
        if (found->rows && (found->size_bytes + length > bytes_max || found->messages + count > messages_max))
            break;
        if (!found->rows || position != end) {
            if (found->rows && (add(places, start) || add(places, end - start)))
                return -1;
            start = position;
        }
        end = position + length;
        if (!found->rows || position < found->low)
            found->low = position;
        if (end > found->high)
            found->high = end;
        found->rows++;
        found->messages += count, found->size_bytes += length;
        found->next_offset = little(row + BASE, 8) + count;
    }
    if (!found->rows)
        return 0;
    return add(places, start) || add(places, end - start) ? -1 : 1;
}

static PyObject *spans(PyObject *module, PyObject *arguments)
{
    Py_buffer view;
    long long at, rows, first, messages_max, bytes_max;
    if (!PyArg_ParseTuple(arguments, "y*LLLLL", &view, &at, &rows, &first, &messages_max, &bytes_max))
        return NULL;
    PyObject *places = NULL, *answer = NULL;
    if (at < 0 || rows < 0 || at > view.len || rows > (view.len - at) / ROW_BYTES)
        PyErr_SetString(PyExc_ValueError, "no such rows");
    else if ((places = PyList_New(0)) != NULL) {
        struct found found = {0};
        int done = walk((const unsigned char *)view.buf + at, rows, first, messages_max, bytes_max, &found, places);
        if (done > 0)
            answer = Py_BuildValue("(LLLLLLO)", (long long)found.rows, (long long)found.messages,
                                   (long long)found.size_bytes, (long long)found.next_offset, (long long)found.low,
                                   (long long)found.high, places);
        else if (!done)
            answer = Py_NewRef(Py_None);
    }
    Py_XDECREF(places);
    PyBuffer_Release(&view);
    return answer;
}

/* --- the bytes ------------------------------------------------------------------------------------------------------ */

/* One number of a list. */
static int place_in(PyObject *places, Py_ssize_t index, int64_t *value)
{
    *value = PyLong_AsLongLong(PyList_GET_ITEM(places, index));
    return *value == -1 && PyErr_Occurred() ? -1 : 0;
}

/* What lies in one segment, at `to`; only counted where that is NULL. -1 with an error. */
static int64_t part_bytes(PyObject *part, char *to)
{
    Py_buffer view;
    long long base;
    PyObject *places;
    if (!PyTuple_Check(part)) {
        PyErr_SetString(PyExc_TypeError, "a part is a tuple");
        return -1;
    }
    if (!PyArg_ParseTuple(part, "y*LO!", &view, &base, &PyList_Type, &places))
        return -1;
    int64_t total = 0, position, length;
    Py_ssize_t count = PyList_GET_SIZE(places);
    if (count % 2) {
        PyErr_SetString(PyExc_ValueError, "a place without a length");
        total = -1;
    }
    for (Py_ssize_t index = 0; total >= 0 && index < count; index += 2) {
        if (place_in(places, index, &position) || place_in(places, index + 1, &length)) {
            total = -1;
        } else if (position < base || length < 0 || length > view.len || position - base > view.len - length) {
            PyErr_SetString(PyExc_ValueError, "a place outside of its segment");
            total = -1;
        } else {
            if (to != NULL)
                memcpy(to + total, (const char *)view.buf + (position - base), (size_t)length);
            total += length;
        }
    }
    PyBuffer_Release(&view);
    return total;
}

/* One piece: bytes as they are, or a part; at `to`, or only counted where that is NULL. -1 with an error. */
static int64_t piece_bytes(PyObject *piece, char *to)
{
    if (!PyBytes_Check(piece))
        return part_bytes(piece, to);
    if (to != NULL)
        memcpy(to, PyBytes_AS_STRING(piece), (size_t)PyBytes_GET_SIZE(piece));
    return PyBytes_GET_SIZE(piece);
}

static PyObject *joined(PyObject *module, PyObject *pieces)
{
    if (!PyList_Check(pieces)) {
        PyErr_SetString(PyExc_TypeError, "pieces are a list");
        return NULL;
    }
    int64_t total = 0, more;
    for (Py_ssize_t index = 0; index < PyList_GET_SIZE(pieces); index++) {
        if ((more = piece_bytes(PyList_GET_ITEM(pieces, index), NULL)) < 0)
            return NULL;
        total += more;
    }
    PyObject *found = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)total);
    if (found == NULL)
        return NULL;
    char *to = PyBytes_AS_STRING(found);
    for (Py_ssize_t index = 0; index < PyList_GET_SIZE(pieces); index++) { /* nothing has changed since they were counted */
        if ((more = piece_bytes(PyList_GET_ITEM(pieces, index), to)) < 0) {
            Py_DECREF(found);
            return NULL;
        }
        to += more;
    }
    return found;
}

static PyMethodDef methods[] = {
    {"spans", spans, METH_VARARGS, "See spans_in_python in spans.py."},
    {"joined", joined, METH_O, "See joined_in_python in spans.py."},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, "_spans", "From rows to bytes of the log, compiled.", -1, methods, NULL, NULL, NULL, NULL,
};

PyMODINIT_FUNC PyInit__spans(void)
{
    return PyModule_Create(&definition);
}
