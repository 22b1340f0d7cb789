from offsetlog._native.csrc cimport ol_recent_batches, ol_topic_log
from offsetlog._native.decompress cimport Decompressor
from offsetlog._native.files cimport FileSystem


cdef class RecentBatches:
    cdef ol_recent_batches recent


cdef class TopicLog:
    cdef ol_topic_log *handle
    cdef FileSystem fs
    cdef Decompressor decompressor
    cdef bytes directory
    cdef int in_flight
    cdef bint closing
    cdef object idle
    cdef readonly dict recovery

    cdef int enter(self) except -1
    cdef void leave(self) noexcept
    cdef ol_topic_log *_take(self)
