/* Runs of staged messages, compiled: the same as `write_packed_in_python` in runs.py, which is its definition and takes
 * its place where this was not built. Tests feed both the same input and compare every byte.
 *
 * What it reads was checked when it was staged, and lay in a file since: every length is checked against what is there
 * before a byte is read or written.
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include "../../stores.h"
#include <string.h>

#define BORN_V6 16
#define HEAD_BYTES 88 /* of a record up to its body, with both hosts as 4 bytes and a port */
#define HEAD_BYTES_MAX 112 /* with both as 16 */
#define HOST_V4_BYTES 8
#define HOST_V6_BYTES 20
#define OFFSET_BITS 36
#define COLUMNS 4 /* of 32 bits: bytes of the body, bytes of its properties, checksum, mark */

struct run {
    Py_buffer buffer, head, prefix, added, columns, bodies, properties;
    unsigned char own[HEAD_BYTES_MAX]; /* the head, with the time */
};

static int64_t in_column(const struct run *run, Py_ssize_t index)
{
    int32_t value;
    memcpy(&value, (const char *)run->columns.buf + index * 4, 4);
    return value;
}

static unsigned char *append(unsigned char *to, const void *from, int64_t length)
{
    memcpy(to, from, (size_t)length);
    return to + length;
}

static int write_all(struct run *run, int64_t at, uint64_t queue, uint64_t offset)
{
    Py_ssize_t count = run->columns.len / (4 * COLUMNS);
    int64_t body_at = 0, properties_at = 0, fixed = run->head.len + run->prefix.len + 2 + run->added.len;
    for (Py_ssize_t index = 0; index < count; index++, offset++) {
        int64_t body_bytes = in_column(run, index), own_bytes = in_column(run, count + index);
        if (body_bytes < 0 || own_bytes < 0 || body_bytes > run->bodies.len - body_at ||
            own_bytes > run->properties.len - properties_at || own_bytes + run->added.len > UINT16_MAX ||
            fixed + body_bytes + own_bytes > run->buffer.len - at)
            return -1;
        unsigned char *to = (unsigned char *)run->buffer.buf + at, *behind = append(to, run->own, run->head.len);
        big4(to, fixed + body_bytes + own_bytes);
        big4(to + 8, in_column(run, 2 * count + index));
        big8(to + 20, offset);
        big8(to + 28, queue << OFFSET_BITS | offset);
        big4(behind - 4, body_bytes);
        behind = append(behind, (unsigned char *)run->bodies.buf + body_at, body_bytes);
        behind = append(behind, run->prefix.buf, run->prefix.len);
        big2(behind, own_bytes + run->added.len);
        behind = append(behind + 2, (unsigned char *)run->properties.buf + properties_at, own_bytes);
        append(behind, run->added.buf, run->added.len);
        at += fixed + body_bytes + own_bytes, body_at += body_bytes, properties_at += own_bytes;
    }
    return body_at == run->bodies.len && properties_at == run->properties.len ? 0 : -1;
}

/* The head with the time in it, when it is one. */
static int take_head(struct run *run, uint64_t store_ms)
{
    if (run->head.len < HEAD_BYTES || run->head.len > HEAD_BYTES_MAX)
        return -1;
    memcpy(run->own, run->head.buf, (size_t)run->head.len);
    big8(run->own + 48 + (from_big4(run->own + 36) & BORN_V6 ? HOST_V6_BYTES : HOST_V4_BYTES), store_ms);
    return 0;
}

static PyObject *write_packed(PyObject *module, PyObject *arguments)
{
    struct run run = {0};
    long long at, queue, offset, store_ms;
    if (!PyArg_ParseTuple(arguments, "w*Ly*y*y*y*y*y*LLL", &run.buffer, &at, &run.head, &run.prefix, &run.added,
                          &run.columns, &run.bodies, &run.properties, &queue, &offset, &store_ms))
        return NULL;
    int failed = at < 0 || run.columns.len % (4 * COLUMNS) || take_head(&run, (uint64_t)store_ms) ||
                 write_all(&run, at, (uint64_t)queue, (uint64_t)offset);
    PyBuffer_Release(&run.buffer);
    PyBuffer_Release(&run.head);
    PyBuffer_Release(&run.prefix);
    PyBuffer_Release(&run.added);
    PyBuffer_Release(&run.columns);
    PyBuffer_Release(&run.bodies);
    PyBuffer_Release(&run.properties);
    if (failed) {
        PyErr_SetString(PyExc_ValueError, "the parts of a run do not fit");
        return NULL;
    }
    Py_RETURN_NONE;
}

static PyMethodDef methods[] = {
    {"write_packed", write_packed, METH_VARARGS, "See write_packed_in_python in runs.py."},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, "_runs", "Runs of staged messages, compiled.", -1, methods, NULL, NULL, NULL, NULL,
};

PyMODINIT_FUNC PyInit__runs(void)
{
    return PyModule_Create(&definition);
}
