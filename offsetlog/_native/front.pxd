cimport cython
from libc.stdint cimport int32_t, int64_t, uint8_t, uint64_t

from offsetlog._native.csrc cimport ol_answers, ol_front, ol_request_header, ol_slice
from offsetlog._native.manager_core cimport ManagerCore
from offsetlog._native.request_metrics cimport RequestMetrics
from offsetlog._native.store_core cimport StoreCore


# Returns the present time in seconds; unlike the loop's time, it advances within a turn of the loop.
cdef double seconds_now() noexcept nogil


# The number of requests by API, and the number of positions in the commits.
cdef struct counted:
    int64_t commits
    int64_t fetches
    int64_t heartbeats
    int64_t positions


# The place of a request in the order of answers: its answer is sent after those of all earlier places.
@cython.final
cdef class Place:
    cdef public object exchange     # the request that a handler answers; None: requests that the front has answered
    cdef bytes answer               # None: not answered yet
    cdef readonly Py_ssize_t requests
    cdef counted counts             # the requests that the front has answered
    cdef counted refused            # those of them whose commits failed later
    cdef double read_at             # when they were read, in seconds of a monotonic clock
    # For requests that the front has answered, while their answers wait until their commits are safe:
    cdef object stream              # called with the place once the commits are safe
    cdef bytes frames
    cdef bytes prepared
    cdef int waits                  # the number of log partitions that are not safe yet
    cdef dict failures              # by number of the log partition

    cdef int settle(self, Front front, int32_t number, object failure) except -1
    cdef bytes with_refusals(self, Front front)


# A commit for which a place waits.
cdef struct awaited:
    int64_t end_offset
    uint64_t term


@cython.final
cdef class Front:
    cdef ol_front front
    cdef ol_answers answers         # the answers of the run of requests being read
    cdef ManagerCore manager
    cdef StoreCore core
    cdef object loop
    cdef object now_ms
    cdef object refused
    cdef bint waits_for_flush
    cdef public bint is_off         # every request is declined
    cdef readonly int64_t commits, fetches, heartbeats
    cdef public RequestMetrics metrics  # None: nothing is counted
    cdef public int64_t received_bytes, sent_bytes      # of all connections
    # The present run: its counts, and the commits that it waits for.
    cdef counted counts
    cdef int32_t last_number        # -1: no commit yet
    cdef awaited last
    cdef dict others                # number -> (end offset, term)
    # All runs:
    cdef dict dirty                 # commits parked at the end of the loop's turn
    cdef bint is_turn_ordered
    cdef dict waiting               # number -> deque of (end offset, place)

    cdef bint answer(self, const uint8_t *frame, size_t size, double at) except -1
    cdef bint commit(self, const ol_request_header *header, ol_slice body, double at) except -1
    cdef int wait_for(self, int32_t number, int64_t end_offset, uint64_t term) except -1
    cdef Place take_run(self, object stream, const uint8_t *frames, size_t size, Py_ssize_t requests,
                             double read_at)
    cdef int drop_run(self) except -1
    cdef bint waits(self) noexcept
    cdef int count_run(self, double read_at) except -1
    cdef int clear_answers(self) noexcept
    cdef int report(self, const counted *counts, const counted *refused, double read_at) except -1
    cdef int park(self, Place place) except -1
