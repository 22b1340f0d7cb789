"""Small functions of the record format for Python: hashes, checksums, partition numbers and lengths."""

from libc.stddef cimport size_t
from libc.stdint cimport int32_t

from offsetlog._native.buffers cimport NAME_GROUP, take_name
from offsetlog._native.csrc cimport (
    c_bool,
    ol_crc32c,
    ol_crc32c_implementation,
    ol_hash128,
    ol_java_hash,
    ol_partition_for,
    ol_slice,
    ol_slice_of,
    ol_utf16_units,
    ol_xxh3_128,
)


cdef ol_slice _name(object value) except *:
    # A name as text, or as bytes of a log, which may not be valid UTF-8.
    cdef ol_slice slice
    if isinstance(value, bytes):
        return ol_slice_of(<const char *>value, <size_t>len(value))
    take_name(value, NAME_GROUP, &slice)
    return slice


def java_hash(group):
    """Returns Java's String.hashCode of a group's name, which may be str or bytes (decoded as Java decodes them)."""
    return ol_java_hash(_name(group))


def partition_for(group, int32_t count):
    """Returns which of `count` log partitions keeps a group (docs/format/partitioning.md §4)."""
    if count < 1:
        raise ValueError(f"there must be at least one partition, not {count}")
    return ol_partition_for(_name(group), count)


def utf16_units(text):
    """Returns the length, in UTF-16 units, of a str or of UTF-8 bytes.  Kafka's limits count these units."""
    cdef c_bool valid = True
    return ol_utf16_units(_name(text), &valid)


def crc32c(const unsigned char[::1] data):
    """Returns the CRC-32C of bytes."""
    return ol_crc32c(&data[0] if data.shape[0] > 0 else NULL, <size_t>data.shape[0])


def crc32c_implementation():
    """Returns the implementation of CRC-32C on this processor: sse4.2, armv8 or tables."""
    return ol_crc32c_implementation().decode()


def xxh3_128(const unsigned char[::1] data):
    """Returns the XXH3-128 of bytes, seed 0, as an int."""
    cdef ol_hash128 hash = ol_xxh3_128(&data[0] if data.shape[0] > 0 else NULL, <size_t>data.shape[0])
    return (int(hash.high) << 64) | int(hash.low)
