"""Converts Python objects to the engine's slices (a pointer and a size) and back.

Raises the errors for wrong arguments.
"""

from libc.stddef cimport size_t
from libc.stdint cimport int64_t, uint8_t, uint32_t
from libc.stdlib cimport realloc

from offsetlog._native.csrc cimport OL_STRING_SIZE_MAX, ol_item, ol_java_character

from operator import index

from offsetlog.errors import (
    ArgumentTypeError,
    GroupError,
    InvalidArgumentError,
    MetadataTooLargeError,
    OffsetError,
    PartitionError,
    StringTooLongError,
    TopicError,
)
from offsetlog.shown_values import shown

cdef tuple NAMES = ("the group", "the topic", "the metadata")
cdef tuple NAME_ERRORS = (GroupError, TopicError, InvalidArgumentError)
cdef tuple NUMBERS = ("the partition", "the offset", "the leader epoch", "the commit timestamp", "the expire timestamp",
                      "the expected offset", "the generation")
cdef tuple NUMBER_ERRORS = (PartitionError, OffsetError, InvalidArgumentError, InvalidArgumentError, InvalidArgumentError,
                            OffsetError, InvalidArgumentError)
cdef tuple NUMBER_DOMAINS = (
    "from 0 to 2147483647",
    "from 0 to 2**63 - 1",
    "from 0 to 2147483647, or -1 for unknown",
    "from 0 to 2**63 - 1, or -1 for now",
    "from 0 to 2**63 - 1, or -1 for never",
    "from 0 to 2**63 - 1, or None for no offset",
    "from 0 to 2147483647, or -1 for a group without members",
)


#: The refusal of a commit that names a position and no offset.
OFFSET_MISSING = "the offset is missing: pass the next offset that the group will read, as an int or an OffsetAndMetadata"
# Thirty years, in seconds, which is longer than any intended timeout.
cdef double TIMEOUT_MAX = 1e9


cdef int refuse_name(object value, name_kind kind) except -1:
    name, error = NAMES[<int>kind], NAME_ERRORS[<int>kind]
    if not isinstance(value, str):
        raise ArgumentTypeError(f"{name} must be a str, not {type(value).__name__}")
    if kind == NAME_TOPIC and not value:
        raise TopicError("the topic must not be empty")
    try:
        size = len(value.encode("utf-8"))
    except UnicodeEncodeError as failure:
        raise error(f"{name} {value!r} cannot be written as UTF-8: {failure.reason}") from None
    raise StringTooLongError(f"{name} may have at most {OL_STRING_SIZE_MAX} bytes of UTF-8; this one has {size}")


cdef int refuse_number(object value, number_kind kind) except -1:
    raise NUMBER_ERRORS[<int>kind](f"{NUMBERS[<int>kind]} must be {NUMBER_DOMAINS[<int>kind]}, not {shown(value)}")


cdef int refuse_metadata(object value, size_t units_max) except -1:
    units = len(value.encode("utf-16-le")) // 2
    raise MetadataTooLargeError(f"the metadata may have at most {units_max} UTF-16 units; this one has {units}")


cdef int convert_number(object value, number_kind kind, int64_t *number) except -1:
    if value is None and kind == NUMBER_OFFSET:
        raise ArgumentTypeError(OFFSET_MISSING)
    if isinstance(value, bool) or not hasattr(type(value), "__index__"):
        hint = ""
        if kind == NUMBER_OFFSET and isinstance(getattr(value, "offset", None), int):
            hint = "; pass its .offset"
        elif kind == NUMBER_PARTITION and value is None:
            hint = "; name a position by a topic and a partition, or by one TopicPartition"
        raise ArgumentTypeError(f"{NUMBERS[<int>kind]} must be an int, not {type(value).__name__}{hint}")
    try:
        whole = index(value)
    except TypeError as failure:  # an array, of which some are one number
        raise ArgumentTypeError(f"{NUMBERS[<int>kind]} must be an int, not {type(value).__name__}: {failure}") from None
    if not -(2**63) <= whole < 2**63:
        return refuse_number(whole, kind)
    number[0] = <int64_t>whole
    return 0


cdef int64_t take_timeout(object seconds) except -2:
    cdef double value
    if seconds is None:
        return -1
    if isinstance(seconds, bool) or not (hasattr(type(seconds), "__float__") or hasattr(type(seconds), "__index__")):
        raise ArgumentTypeError(f"the timeout must be a number of seconds or None, not {type(seconds).__name__}")
    try:
        value = float(seconds)
    except OverflowError:
        value = TIMEOUT_MAX if seconds > 0 else -1
    if not value >= 0:  # nor NaN
        raise InvalidArgumentError(f"the timeout must be at least 0 seconds, or None for no limit, not {shown(seconds)}")
    return -1 if value >= TIMEOUT_MAX else <int64_t>(value * 1000)


cdef str java_text(const uint8_t *data, size_t size):
    cdef list characters = []
    cdef size_t at = 0
    cdef uint32_t character = 0
    while at < size:
        at += ol_java_character(data + at, size - at, &character)
        characters.append(chr(character))
    return "".join(characters)


cdef int reserve_items(item_array *array, size_t count) except -1:
    cdef ol_item *moved
    if count <= array.capacity:
        return 0
    moved = <ol_item *>realloc(array.items, count * sizeof(ol_item))
    if moved == NULL:
        raise MemoryError()
    array.items = moved
    array.capacity = count
    return 0
