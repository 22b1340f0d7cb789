# Converts the arguments of a commit to ol_items.  The items borrow from the objects, which must stay alive as long as the
# items are used.

from cpython.long cimport PyLong_CheckExact
from cpython.tuple cimport PyTuple_Check, PyTuple_GET_ITEM, PyTuple_GET_SIZE
from libc.stddef cimport size_t
from libc.stdint cimport INT32_MAX, int32_t, int64_t

from offsetlog._native.buffers cimport NAME_TOPIC, NUMBER_PARTITION, take_name, take_number
from offsetlog._native.csrc cimport (
    OL_CONDITION,
    OL_CONDITION_NONE,
    OL_GENERATION,
    OL_ITEM_POSITION,
    OL_REWIND,
    ol_commit_result,
    ol_error,
    ol_item,
    ol_slice,
    ol_slice_of,
)

# Accepts an int, or a tuple with the first fields of OffsetAndMetadata; adds the objects that it creates to `kept`.  With
# `any_offset` it also accepts negative offsets and leader epochs, which Kafka stores unchanged.
cdef int take_value(object value, ol_item *item, size_t metadata_units_max, list kept, bint any_offset) except -1
# Returns a dictionary that no other thread can change while the GIL is released, and that keeps every key and value alive.
cdef dict own_dictionary(object offsets)
cdef dict own_expected(object expected, object offsets)
cdef int take_expected(ol_item *item, object key, dict expected, bint monotonic) except -1
# Refuses every object but a bool, because a text such as "no" would count as true.
cdef bint take_monotonic(object monotonic) except -1
cdef int refuse_key(object key) except -1
# Returns {key: value} for the arguments of commit_one, which are a topic and its partition, or a key instead of both.
cdef dict one_position(object topic, object partition, object offset, object metadata, object leader_epoch)
# Returns the topic and partition of a call that was given a key instead of both.
cdef tuple one_key(object key, object partition)
# Does the work of `name_key` for the error that is being raised, which has the index; raises it again.
cdef int name_raised(object offsets, Py_ssize_t taken) except -1
# Adds to an error the key that caused it: the key after the first `taken` keys, or, if all were taken, the key at the index
# in the error.  If the keys cannot be read, the error stays unchanged.
cdef void name_key(object failure, object keys, Py_ssize_t taken)
# Fills the item that makes a commit depend on the group's generation, an int or -1.
cdef int start_generation(ol_item *item, ol_slice group, object generation) except -1
# Returns the exception for a condition that did not hold, with the value that was found.
cdef object refusal(int status, const ol_item *items, const ol_commit_result *result, const ol_error *error)
cdef object resting(object failure, const ol_commit_result *result)


cdef inline bint is_refusal(int status) noexcept:
    return status == OL_CONDITION or status == OL_REWIND or status == OL_GENERATION


cdef inline void start_item(ol_item *item, ol_slice group) noexcept:
    item.group = group
    item.kind = OL_ITEM_POSITION
    item.condition = OL_CONDITION_NONE
    item.expected = -1
    item.commit_timestamp = -1
    item.expire_timestamp = -1
    item.leader_epoch = -1
    item.metadata = ol_slice_of("", 0)
    item.topic_id = NULL


# Returns whether a key and its value can be read without running Python code, except to refuse them.
cdef inline bint is_plain(object key, object value):
    return (
        PyTuple_Check(key)
        and PyTuple_GET_SIZE(key) == 2
        and PyLong_CheckExact(<object>PyTuple_GET_ITEM(key, 1))
        and PyLong_CheckExact(value)
    )


cdef inline int take_key(object key, ol_item *item) except -1:
    cdef int64_t number = 0
    if not PyTuple_Check(key) or PyTuple_GET_SIZE(key) != 2:
        refuse_key(key)
    take_name(<object>PyTuple_GET_ITEM(key, 0), NAME_TOPIC, &item.topic)
    take_number(<object>PyTuple_GET_ITEM(key, 1), NUMBER_PARTITION, 0, INT32_MAX, &number)
    item.partition = <int32_t>number
    return 0
