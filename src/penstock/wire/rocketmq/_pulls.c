/* Ordinary pulls, compiled: the same as `front_in_python` in pulls.py, which is the definition and takes its place where
 * this was not built. What is not plain in form is left to others: see pulls.h.
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include "pulls.h"

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
