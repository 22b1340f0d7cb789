"""Answers a consumer's queries to a log: it reads batches, lists aborted transactions, and finds records by time."""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from libc.stddef cimport size_t
from libc.stdint cimport int64_t, uint8_t
from libc.stdlib cimport free, malloc

from offsetlog._native.csrc cimport (
    OL_BATCH_OVERHEAD,
    OL_NO_MEMORY,
    OL_OK,
    OL_TOO_LARGE,
    ol_aborted_transaction,
    ol_decompressor,
    ol_error,
    ol_file_range,
    ol_log,
    ol_log_collect_aborted,
    ol_log_file_range,
    ol_log_read,
    ol_timed_record,
    ol_topic_log_find_newest,
    ol_topic_log_find_time,
)
from offsetlog._native.status cimport check

from offsetlog.types import TimedRecord

# The time with which a consumer asks for the newest record (docs/format/topics.md §17.4).
cdef enum:
    NEWEST = -3


cdef bytes batches_of(ol_log *log, int64_t offset, int64_t end, int64_t size_max, bint whole_first):
    # Returns the complete batches from the one that contains `offset`, as long as all their records are below `end`.  They
    # have at most `size_max` bytes, but with `whole_first` the first batch is returned whatever its size.
    cdef ol_file_range found
    cdef ol_error error
    cdef size_t size = 0
    cdef size_t capacity
    cdef uint8_t *buffer
    cdef int status
    with nogil:
        check(ol_log_file_range(log, offset, end, size_max if size_max > 0 else 0, &found, &error), &error)
    capacity = found.size
    if capacity == 0 or (not whole_first and <int64_t>capacity > size_max):
        return b""
    if capacity < <size_t>OL_BATCH_OVERHEAD:
        capacity = <size_t>OL_BATCH_OVERHEAD
    buffer = <uint8_t *>malloc(capacity)
    if buffer == NULL:
        raise MemoryError
    try:
        with nogil:
            status = ol_log_read(log, offset, end, buffer, capacity, &size, &error)
        # A cleaner replaced the segment meanwhile, and its first batch is larger now, so the consumer tries again.
        if status == OL_TOO_LARGE:
            return b""
        check(status, &error)
        return PyBytes_FromStringAndSize(<const char *>buffer, <Py_ssize_t>size)
    finally:
        free(buffer)


cdef int64_t size_between(ol_log *log, int64_t offset, int64_t end, int64_t size_max) except -1:
    # Returns how many bytes `batches_of` would return from one segment, without reading them.
    cdef ol_file_range found
    cdef ol_error error
    with nogil:
        check(ol_log_file_range(log, offset, end, size_max, &found, &error), &error)
    return <int64_t>found.size


cdef int _collect(void *context, const ol_aborted_transaction *transaction) noexcept with gil:
    try:
        (<list>context).append((transaction.producer_id, transaction.first_offset))
        return OL_OK
    except MemoryError:
        return OL_NO_MEMORY


cdef tuple aborted_between(ol_log *log, int64_t begin, int64_t end):
    # Returns (producer id, first offset) of the aborted transactions that overlap [begin, end).
    cdef list found = []
    cdef void *context = <void *>found
    cdef ol_error error
    error.status = OL_OK
    with nogil:
        check(ol_log_collect_aborted(log, begin, end, _collect, context, &error), &error)
    return tuple(found)


cdef object record_at_time(ol_log *log, const ol_decompressor *decompressor, int64_t time, int64_t end):
    # Returns the TimedRecord of a time, None if no record below `end` matches.
    cdef ol_timed_record found
    cdef ol_error error
    with nogil:
        if time == NEWEST:
            check(ol_topic_log_find_newest(log, decompressor, end, &found, &error), &error)
        else:
            check(ol_topic_log_find_time(log, decompressor, time, end, &found, &error), &error)
    return None if found.offset < 0 else TimedRecord(found.offset, found.timestamp, found.leader_epoch)
