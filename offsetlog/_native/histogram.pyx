"""Counts durations in a histogram with fixed buckets, at the cost of two additions per measurement."""

cimport cython
from libc.stdint cimport uint64_t

#: The upper bounds of the buckets, in seconds; one more bucket holds longer durations.
BOUNDS = (
    0.00005, 0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05,
    0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0,
)

cdef double[BUCKETS - 1] UPPER = BOUNDS


@cython.final
cdef class Histogram:
    """Counts durations by bucket.

    Only one thread at a time may measure.  Any thread may read.  A reader sees complete numbers, but the last
    measurement may already be included in one number and not yet in another.

    Attributes:
        seconds: the sum of all durations.
    """

    cdef void add(self, double seconds, uint64_t times) noexcept:
        cdef int bucket = 0
        # The search starts at the shortest bucket, because most durations are short.
        while bucket < BUCKETS - 1 and seconds > UPPER[bucket]:
            bucket += 1
        self.counts[bucket] += times
        self.seconds += seconds * <double>times

    def observe(self, double seconds, uint64_t times=1):
        """Counts a duration `times` times."""
        self.add(seconds, times)

    def cumulative(self):
        """Returns (bound in seconds, number of durations up to it) for each bucket; the last bound is infinite."""
        cdef int bucket
        cdef uint64_t total = 0
        result = []
        for bucket in range(BUCKETS):
            total += self.counts[bucket]
            result.append((UPPER[bucket] if bucket < BUCKETS - 1 else float("inf"), total))
        return result
