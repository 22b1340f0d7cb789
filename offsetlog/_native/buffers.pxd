# Converts Python objects to slices and back.
#
# A slice borrows from its object, which must stay alive as long as the slice is used.  Python code runs here only for objects
# that are neither a plain int nor a plain str.

from cpython.exc cimport PyErr_Clear
from cpython.long cimport PyLong_AsLongLongAndOverflow, PyLong_CheckExact
from cpython.ref cimport Py_DECREF, Py_INCREF
from cpython.tuple cimport PyTuple_SET_ITEM
from cpython.unicode cimport PyUnicode_Check
from libc.stdint cimport int64_t, uint8_t

from offsetlog._native.csrc cimport (
    OL_STRING_SIZE_MAX,
    c_bool,
    clear_tuple_hash,
    ol_item,
    ol_slice,
    ol_utf16_units,
    text_or_null,
    tuple_type,
    utf8_or_null,
)

cdef enum name_kind:
    NAME_GROUP
    NAME_TOPIC
    NAME_METADATA

cdef enum number_kind:
    NUMBER_PARTITION
    NUMBER_OFFSET
    NUMBER_LEADER_EPOCH
    NUMBER_COMMIT_TIMESTAMP
    NUMBER_EXPIRE_TIMESTAMP
    NUMBER_EXPECTED
    NUMBER_GENERATION

# Raise the error of an invalid value; return -1.
cdef int refuse_name(object value, name_kind kind) except -1
cdef int refuse_number(object value, number_kind kind) except -1
cdef int refuse_metadata(object value, size_t units_max) except -1
# For numbers that are not exactly int: converts them through __index__, or refuses them.
cdef int convert_number(object value, number_kind kind, int64_t *number) except -1

# Returns the milliseconds of a timeout in seconds; -1 (no limit) for None, infinity, and times too long for any clock.
cdef int64_t take_timeout(object seconds) except -2

# Returns text from a log, which may not be valid UTF-8, decoded as Java decodes it.
cdef str java_text(const uint8_t *data, size_t size)


cdef inline int take_name(object value, name_kind kind, ol_slice *slice) except -1:
    cdef Py_ssize_t size = 0
    cdef const char *text
    if not PyUnicode_Check(value):
        refuse_name(value, kind)
        return -1
    text = utf8_or_null(value, &size)
    if text == NULL:
        PyErr_Clear()
        refuse_name(value, kind)
        return -1
    if size > OL_STRING_SIZE_MAX or (size == 0 and kind == NAME_TOPIC):
        refuse_name(value, kind)
        return -1
    slice.data = <const uint8_t *>text
    slice.size = <size_t>size
    return 0


cdef inline int take_metadata(object value, size_t units_max, ol_slice *slice) except -1:
    cdef c_bool valid = True
    take_name(value, NAME_METADATA, slice)
    # A character has at least as many bytes as UTF-16 units.
    if slice.size > units_max and ol_utf16_units(slice[0], &valid) > units_max:
        refuse_metadata(value, units_max)
        return -1
    return 0


cdef inline int take_number(object value, number_kind kind, int64_t low, int64_t high, int64_t *number) except -1:
    cdef int overflow = 0
    if PyLong_CheckExact(value):
        number[0] = PyLong_AsLongLongAndOverflow(value, &overflow)
        if overflow != 0:
            refuse_number(value, kind)
            return -1
    else:
        convert_number(value, kind, number)
    if not low <= number[0] <= high:
        refuse_number(value, kind)
        return -1
    return 0


cdef inline str text_of(const uint8_t *data, size_t size):
    cdef void *text
    if size == 0:
        return ""
    text = text_or_null(<const char *>data, <Py_ssize_t>size, NULL)
    if text == NULL:
        PyErr_Clear()
        return java_text(data, size)
    result = <str>text
    Py_DECREF(result)
    return result


# Returns an instance of a NamedTuple class for `size` items, all of which the caller must set before anything else.
cdef inline object new_named_tuple(type kind, Py_ssize_t size):
    cdef void *raw = (<tuple_type *>kind).tp_alloc(<tuple_type *>kind, size)
    if raw == NULL:
        raise MemoryError()
    clear_tuple_hash(raw)
    result = <object>raw
    Py_DECREF(result)  # the reference that tp_alloc added
    return result


cdef inline void set_item(object row, Py_ssize_t index, object value) noexcept:
    Py_INCREF(value)
    PyTuple_SET_ITEM(row, index, value)


# A growing array of the items to write.
cdef struct item_array:
    ol_item *items
    size_t capacity

cdef int reserve_items(item_array *array, size_t count) except -1
