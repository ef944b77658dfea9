/* Fields of objects whose class keeps them in slots (msgspec structs, classes with __slots__), read and written where
 * they lie: a fifth of what asking for an attribute by name costs. Where a class keeps them is asked once, of the class.
 */
#ifndef PENSTOCK_SLOTS_H
#define PENSTOCK_SLOTS_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdint.h>
#include <structmember.h>

/* Where a class keeps a field; -1 with an error set when that is not a slot of this class or of its bases: any class can
 * have another's descriptor as an attribute. */
static Py_ssize_t slot_of(PyTypeObject *type, const char *name)
{
    PyObject *found = PyObject_GetAttrString((PyObject *)type, name);
    if (found == NULL)
        return -1;
    Py_ssize_t offset = -1;
    if (Py_TYPE(found) == &PyMemberDescr_Type) {
        PyMemberDef *member = ((PyMemberDescrObject *)found)->d_member;
        if (member->type == T_OBJECT_EX && !(member->flags & READONLY) &&
            PyType_IsSubtype(type, ((PyMemberDescrObject *)found)->d_common.d_type))
            offset = member->offset;
    }
    Py_DECREF(found);
    if (offset < 0)
        PyErr_Format(PyExc_TypeError, "%s of %s is not a slot", name, type->tp_name);
    return offset;
}

/* Borrowed. */
static inline PyObject *slot(PyObject *object, Py_ssize_t offset)
{
    PyObject *found = *(PyObject **)((char *)object + offset);
    if (found == NULL)
        PyErr_SetString(PyExc_AttributeError, "a field was never set");
    return found;
}

/* An integer between two bounds. */
static inline int number_in(PyObject *found, int64_t low, int64_t high, int64_t *value)
{
    *value = PyLong_AsLongLong(found);
    if (*value == -1 && PyErr_Occurred())
        return -1;
    if (*value < low || *value > high) {
        PyErr_Format(PyExc_ValueError, "%lld does not fit where it has to stand", (long long)*value);
        return -1;
    }
    return 0;
}

static inline int slot_number(PyObject *object, Py_ssize_t offset, int64_t low, int64_t high, int64_t *value)
{
    PyObject *found = slot(object, offset);
    return found == NULL ? -1 : number_in(found, low, high, value);
}

static inline int set_slot_number(PyObject *object, Py_ssize_t offset, int64_t value)
{
    PyObject *number = PyLong_FromLongLong(value);
    if (number == NULL)
        return -1;
    PyObject **place = (PyObject **)((char *)object + offset), *before = *place;
    *place = number;
    Py_XDECREF(before);
    return 0;
}

#endif
