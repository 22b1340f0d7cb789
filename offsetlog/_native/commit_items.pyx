"""Checks the arguments of a commit and converts them for the engine."""

from uuid import UUID

from cpython.dict cimport PyDict_CheckExact, PyDict_GetItem, PyDict_Next
from cpython.exc cimport PyErr_Fetch, PyErr_NormalizeException, PyErr_Restore
from cpython.long cimport PyLong_CheckExact
from cpython.object cimport PyObject
from cpython.tuple cimport PyTuple_Check, PyTuple_GET_ITEM, PyTuple_GET_SIZE
from libc.stddef cimport size_t
from libc.stdint cimport INT32_MAX, INT32_MIN, INT64_MAX, INT64_MIN, int32_t, int64_t, uint8_t

from offsetlog._native.buffers cimport (
    NAME_TOPIC,
    NUMBER_COMMIT_TIMESTAMP,
    NUMBER_EXPECTED,
    NUMBER_EXPIRE_TIMESTAMP,
    NUMBER_GENERATION,
    NUMBER_LEADER_EPOCH,
    NUMBER_OFFSET,
    refuse_name,
    take_metadata,
    take_number,
    text_of,
)
from offsetlog._native.csrc cimport (
    OL_CONDITION_ABSENT,
    OL_CONDITION_EQUALS,
    OL_CONDITION_MONOTONIC,
    OL_CONDITION_NONE,
    OL_GENERATION,
    OL_ITEM_GENERATION,
    OL_REWIND,
    ol_commit_result,
    ol_error,
    ol_item,
    ol_slice,
)

from offsetlog.errors import (
    ArgumentTypeError,
    ConditionError,
    DuplicateKeyError,
    ExpectedOffsetError,
    GenerationError,
    InvalidArgumentError,
    OffsetLogError,
    RewindError,
)
from offsetlog.shown_values import shown, shown_key
from offsetlog.types import OffsetAndMetadata, TopicPartition, key_of


cdef bint take_monotonic(object monotonic) except -1:
    if monotonic is True:
        return True
    if monotonic is False:
        return False
    raise ArgumentTypeError(f"monotonic must be True or False, not {type(monotonic).__name__}")


cdef int refuse_key(object key) except -1:
    raise ArgumentTypeError(f"a key must be a TopicPartition or a tuple of topic and partition, not {shown(key)}", item=key)


cdef inline object plain_key(object key):
    # Avoids a call if the key is plain already.
    if PyTuple_Check(key) and PyTuple_GET_SIZE(key) == 2 and PyLong_CheckExact(<object>PyTuple_GET_ITEM(key, 1)):
        return key
    return key_of(key)


cdef dict plain_keys(dict given):
    # Objects of other libraries may create their strings on access, so the returned key keeps them alive.
    cdef dict found = {}
    for key, value in given.items():
        plain = plain_key(key)
        if plain is None:
            refuse_key(key)
        if plain in found:
            raise DuplicateKeyError(f"{shown_key(*plain)} appears more than once, as keys of different types", item=key)
        found[plain] = value
    return found


cdef object key_in_place(object key):
    # A value that is neither a str nor a key was meant to be a topic.
    plain = plain_key(key)
    if plain is None and not PyTuple_Check(key):
        refuse_name(key, NAME_TOPIC)
    if plain is None or not isinstance(plain[0], str):
        refuse_key(key)
    return plain


cdef dict one_position(object topic, object partition, object offset, object metadata, object leader_epoch):
    if isinstance(topic, str):
        key = (topic, partition)
    else:
        key = key_in_place(topic)
        if offset is None:
            offset = partition
        elif partition is not None:
            raise ArgumentTypeError(
                f"{shown_key(*key)} is passed as one key, so only an offset may follow it: pass metadata= and "
                "leader_epoch= by name"
            )
        if offset is None:
            raise ArgumentTypeError(
                f"no offset follows the key {shown_key(*key)}: pass one even if the key object has an offset, as in "
                "commit_one(group, each, each.offset)"
            )
    if metadata != "" or type(leader_epoch) is not int or leader_epoch != -1:
        if isinstance(offset, tuple):
            raise ArgumentTypeError(
                "metadata= and leader_epoch= must not be passed with an OffsetAndMetadata, which has both"
            )
        offset = OffsetAndMetadata(offset, metadata, leader_epoch)
    try:
        return {key: offset}
    except TypeError:  # it is not hashable
        refuse_key(key)


cdef tuple one_key(object key, object partition):
    plain = key_in_place(key)
    if partition is not None:
        raise ArgumentTypeError(f"{shown_key(*plain)} is passed as one key, so no partition may follow it")
    return plain[0], plain[1]


cdef int find_key(object failure, object keys, Py_ssize_t taken) except -1:
    # Runs only after an error is raised, so that a successful commit pays nothing for it.
    cdef list listed
    if taken < 0:
        return 0  # the error is not about a key
    listed = list(keys)
    index = taken if taken < len(listed) else failure.item
    if type(index) is not int or not 0 <= index < len(listed):
        return 0
    key = listed[index]
    failure.item = key
    key = key_of(key)
    if isinstance(failure, ConditionError) or key is None:
        return 0  # said already
    message = f"{shown_key(*key)}: {failure.message}"
    failure.message = message
    failure.args = (message,)
    return 0


cdef void name_key(object failure, object keys, Py_ssize_t taken):
    try:
        find_key(failure, keys, taken)
    except Exception:
        pass  # raised by the caller's keys or mapping: not the cause of the error


cdef int name_raised(object offsets, Py_ssize_t taken) except -1:
    cdef PyObject *kind
    cdef PyObject *value
    cdef PyObject *trace
    PyErr_Fetch(&kind, &value, &trace)
    PyErr_NormalizeException(&kind, &value, &trace)
    if value != NULL and isinstance(<object>value, OffsetLogError):
        name_key(<object>value, offsets, taken)
    PyErr_Restore(kind, value, trace)
    return -1


cdef int start_generation(ol_item *item, ol_slice group, object generation) except -1:
    cdef int64_t expected = 0
    take_number(generation, NUMBER_GENERATION, -1, INT32_MAX, &expected)
    start_item(item, group)
    item.kind = OL_ITEM_GENERATION
    item.expected = expected
    return 0


cdef object refusal(int status, const ol_item *items, const ol_commit_result *result, const ol_error *error):
    cdef const ol_item *item = &items[error.item]
    group = text_of(item.group.data, item.group.size)
    if status == OL_GENERATION:
        reason = (<bytes>error.reason).decode("utf-8", "replace")
        found = result.found_offset if result.found else None
        return resting(GenerationError(f"group {group!r}: {reason}", group=group, asked=item.expected, actual=found), result)
    topic = text_of(item.topic.data, item.topic.size)
    actual = result.found_offset if result.found else None
    if status == OL_REWIND:
        refused = RewindError.found(group, topic, item.partition, asked=item.offset, actual=actual)
    else:
        expected = item.expected if item.condition == OL_CONDITION_EQUALS else None
        refused = ExpectedOffsetError.found(group, topic, item.partition, expected=expected, actual=actual)
    refused.item = TopicPartition(topic, item.partition)
    return resting(refused, result)


cdef object resting(object failure, const ol_commit_result *result):
    # The value that caused the refusal may still be truncated away.  A manager therefore answers only when W has passed
    # the value (docs/architecture.md §7).
    if result.rests_on >= 0:
        failure.rests_on = (result.rests_on, result.term)
    return failure


cdef int take_topic_id(object value, ol_item *item, list kept) except -1:
    if value is None:
        return 0
    if not isinstance(value, UUID):
        raise ArgumentTypeError(f"the topic id must be a UUID or None, not {type(value).__name__}")
    # The format uses an id of zeros for "none".
    if value.int == 0:
        return 0
    raw = value.bytes
    kept.append(raw)
    item.topic_id = <const uint8_t *><const char *>raw
    return 0


cdef int take_value(object value, ol_item *item, size_t metadata_units_max, list kept, bint any_offset) except -1:
    cdef Py_ssize_t size
    cdef int64_t number = 0
    cdef int64_t offset_min = INT64_MIN if any_offset else 0
    cdef int64_t epoch_min = INT32_MIN if any_offset else -1
    if not PyTuple_Check(value):
        return take_number(value, NUMBER_OFFSET, offset_min, INT64_MAX, &item.offset)
    size = PyTuple_GET_SIZE(value)
    if size == 0 or size > 6:
        raise ArgumentTypeError(
            f"a position must be an int, an OffsetAndMetadata or a tuple of 1 to 6 fields; this one has {size}"
        )
    take_number(<object>PyTuple_GET_ITEM(value, 0), NUMBER_OFFSET, offset_min, INT64_MAX, &item.offset)
    if size > 1:
        take_metadata(<object>PyTuple_GET_ITEM(value, 1), metadata_units_max, &item.metadata)
    if size > 2:
        take_number(<object>PyTuple_GET_ITEM(value, 2), NUMBER_LEADER_EPOCH, epoch_min, INT32_MAX, &number)
        item.leader_epoch = <int32_t>number
    if size > 3:
        take_number(<object>PyTuple_GET_ITEM(value, 3), NUMBER_COMMIT_TIMESTAMP, -1, INT64_MAX, &item.commit_timestamp)
    if size > 4:
        take_number(<object>PyTuple_GET_ITEM(value, 4), NUMBER_EXPIRE_TIMESTAMP, -1, INT64_MAX, &item.expire_timestamp)
    if size > 5:
        take_topic_id(<object>PyTuple_GET_ITEM(value, 5), item, kept)
    return 0


cdef int refuse_mapping(object offsets) except -1:
    message = f"the offsets must be a mapping, not {type(offsets).__name__}"
    if isinstance(offsets, (list, tuple)) and any(hasattr(each, "topic") and key_of(each) for each in offsets):
        message += "; convert objects with {(each.topic, each.partition): each.offset for each in offsets}"
    raise ArgumentTypeError(message)


cdef dict own_dictionary(object offsets):
    cdef Py_ssize_t cursor = 0
    cdef PyObject *key
    cdef PyObject *value
    cdef dict own
    if PyDict_CheckExact(offsets):
        own = (<dict>offsets).copy()
    elif callable(getattr(offsets, "items", None)):
        pairs = offsets.items()  # the caller's code: its errors are its own
        try:
            own = dict(pairs)
        except (TypeError, ValueError) as failure:
            raise ArgumentTypeError(
                f"the offsets must be a mapping, but items() of this {type(offsets).__name__} returns no pairs: "
                f"{failure}"
            ) from failure
    else:
        refuse_mapping(offsets)
    while PyDict_Next(own, &cursor, &key, &value):
        if not PyTuple_Check(<object>key) or PyTuple_GET_SIZE(<object>key) != 2:
            return plain_keys(own)
    return own


cdef dict own_expected(object expected, object offsets):
    if expected is None:
        return None
    cdef dict own = own_dictionary(expected)
    for key in own:
        if key not in offsets:
            raise InvalidArgumentError(
                f"{shown_key(*key)}: expected= names this partition, but the call commits no offset of this partition",
                item=key,
            )
    return own


cdef int take_expected(ol_item *item, object key, dict expected, bint monotonic) except -1:
    cdef PyObject *wanted = PyDict_GetItem(expected, key)
    if wanted == NULL:
        item.condition = OL_CONDITION_MONOTONIC if monotonic else OL_CONDITION_NONE
        return 0
    if <object>wanted is None:
        item.condition = OL_CONDITION_ABSENT
        return 0
    offset = <object>wanted
    if PyTuple_Check(offset) and PyTuple_GET_SIZE(offset) > 0:
        offset = <object>PyTuple_GET_ITEM(offset, 0)  # a position as fetch returns it
    take_number(offset, NUMBER_EXPECTED, 0, INT64_MAX, &item.expected)
    if monotonic and item.offset < item.expected:
        raise InvalidArgumentError(
            f"monotonic=True refuses offset {item.offset}, which is below the expected offset {item.expected}"
        )
    item.condition = OL_CONDITION_EQUALS
    return 0
