"""The counts that a server keeps while it answers: so little that it costs no request anything.

All else that is seen from outside is read from the parts of the server when somebody asks
(`offsetlog.server.metrics`).
"""

from __future__ import annotations

from offsetlog.histogram import Histogram

#: Above the key of every API.
API_KEYS = 128


class RequestMetrics:
    """Requests, errors and latencies by API; commits.

    Written by one thread, that of the event loop; any thread may read.

    Attributes:
        latencies: by the key of the API, from the whole request to its answer; None: never asked.
        errors: how many answers had an error, by API and the first error in the answer.
        commits: requests whose positions were committed.
        positions: those positions.
    """

    __slots__ = ("commits", "errors", "latencies", "positions")

    def __init__(self) -> None:
        self.latencies: list[Histogram | None] = [None] * API_KEYS
        self.errors: dict[tuple[int, int], int] = {}
        self.commits = 0
        self.positions = 0

    def answered(
        self, api_key: int, seconds: float, error_code: int = 0, times: int = 1
    ) -> None:
        """Counts requests that were answered together, so many seconds after they were read."""
        latency = self.latencies[api_key]
        if latency is None:
            latency = self.latencies[api_key] = Histogram()
        latency.observe(seconds, times)
        if error_code:
            self.failed(api_key, error_code)

    def failed(self, api_key: int, error_code: int) -> None:
        """Counts an error in an answer that is counted elsewhere."""
        key = (api_key, error_code)
        self.errors[key] = self.errors.get(key, 0) + 1

    def committed(self, positions: int, commits: int = 1) -> None:
        """Counts requests whose positions, so many together, were committed."""
        self.commits += commits
        self.positions += positions
