# Token buckets by group and by client.  Every commit makes a charge, which looks up each name in a dictionary and calculates
# in C.

cimport cython
from libc.stdint cimport int64_t


# One limit, and its remaining tokens.
cdef struct meter:
    double per_second       # 0.0 for no limit
    double burst            # the most tokens; infinite for no limit
    double balance          # the tokens at `at_ns` of its bucket; below zero is a debt


# The limits of one name.
@cython.final
cdef class Bucket:
    cdef meter commits
    cdef meter nbytes
    cdef int64_t at_ns              # when the balances were calculated
    cdef Py_ssize_t place           # the index in Buckets.automatic; -1 for a bucket with an override
    cdef str name

    cdef void set_limits(self, double commits_per_second, double bytes_per_second, double burst_seconds,
                         int64_t now) noexcept
    cdef bint is_full(self, int64_t now) noexcept
    cdef int64_t wait_ns(self, int64_t now) noexcept
    cdef void take(self, double count, double nbytes, int64_t now) noexcept


# All names of one kind.
@cython.final
cdef class Buckets:
    cdef str kind                   # "group" or "client"
    cdef dict named                 # every bucket by its name
    cdef list automatic             # the buckets without an override, in no order
    cdef Py_ssize_t hand            # the index of the bucket in `automatic` that is inspected next for replacement
    cdef Py_ssize_t automatic_max
    cdef double commits_per_second  # the limit of a name without an override; 0.0 for no limit
    cdef double bytes_per_second
    cdef double burst_seconds

    cdef bint limits_all(self) noexcept
    cdef bint limits_any(self) noexcept
    cdef Bucket find(self, str name)
    cdef Bucket new_bucket(self, str name, int64_t now)
    cdef Bucket add(self, str name, int64_t now)
    cdef int append(self, Bucket bucket) except -1
    cdef bint replace_full(self, Bucket bucket, Py_ssize_t inspected_max, int64_t now) except -1
    cdef int set_override(self, str name, double commits_per_second, double bytes_per_second, int64_t now) except -1
    cdef int remove_override(self, str name, int64_t now) except -1
    cdef list listed(self, int64_t now)


@cython.final
cdef class Quotas:
    cdef Buckets groups
    cdef Buckets clients
    cdef object clock               # None for CLOCK_MONOTONIC
    cdef int64_t latest_ns          # the latest time that the clock returned
    cdef readonly int64_t untracked

    # Charges all buckets concerned and returns 0.0, or charges none and returns the seconds until it could.
    cpdef double charge(self, object group, object client, int64_t count, int64_t nbytes) except -1.0
    # Returns the seconds until a charge would be admitted, and changes nothing.
    cpdef double throttle(self, object group, object client) except -1.0
    cdef int64_t now(self) except -1
    cdef int64_t given_now(self) except -1


cpdef int check_client(object client, object principal) except -1
