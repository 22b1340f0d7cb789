"""Counts that a server updates for each answer, at almost no cost.

The server's other metrics are read from its components when a client requests them (`offsetlog.server.metrics`).
"""

cimport cython
from libc.stdint cimport int64_t, uint64_t

from offsetlog._native.histogram cimport Histogram

#: Higher than the key of every API.
API_KEYS = 128


@cython.final
cdef class RequestMetrics:
    """Counts the requests, errors and latencies of each API, and the commits.

    Only the thread of the event loop writes; any thread may read.

    Attributes:
        latencies: a Histogram for each API key, of the times from the complete request to its answer; None before the
            first request.
        errors: the number of answers with an error, by API key and by the code of the first error in the answer.
        commits: the number of requests whose positions were committed.
        positions: the number of positions in these requests.
    """

    def __cinit__(self):
        self.latencies = [None] * API_KEYS
        self.errors = {}

    cdef int add(self, int api_key, double seconds, uint64_t times) except -1:
        cdef Histogram latency = self.latencies[api_key]
        if latency is None:
            latency = self.latencies[api_key] = Histogram()
        latency.add(seconds, times)
        return 0

    def answered(self, int api_key, double seconds, int error_code=0):
        """Counts an answer that was given `seconds` after its request was read."""
        self.add(api_key, seconds, 1)
        if error_code:
            self.failed(api_key, error_code)

    def failed(self, int api_key, int error_code):
        """Counts an error.  The answer that contains the error is counted separately."""
        key = (api_key, error_code)
        self.errors[key] = self.errors.get(key, 0) + 1

    def committed(self, int64_t positions, int64_t commits=1):
        """Counts `commits` requests that committed `positions` positions in total."""
        self.commits += commits
        self.positions += positions
