"""Samples of a server's /metrics, and the rates and quantiles between two polls."""

from __future__ import annotations

import json
import math
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from http.client import HTTPException
from typing import NamedTuple

from offsetlog.errors import CorruptionError
from offsetlog.missing_library import missing_library

#: The size of one answer; a larger one is not read.
ANSWER_BYTES_MAX = 64 << 20

Labels = tuple[tuple[str, str], ...]


class Samples(NamedTuple):
    """The samples of one poll.

    Attributes:
        at: the time, in seconds since 1970.
        values: the values of each metric by its labels; the labels are sorted by name.
        group_commits: how many commits each group has made; None if the server does not report it.
    """

    at: float
    values: Mapping[str, Mapping[Labels, float]]
    group_commits: Mapping[str, int] | None = None

    def get(self, name: str, **labels: str) -> float | None:
        """Returns one sample; None if it does not exist."""
        return self.values.get(name, {}).get(tuple(sorted(labels.items())))

    def total(self, name: str) -> float | None:
        """Returns the sum over all labels; None if no sample exists."""
        found = self.values.get(name)
        return sum(found.values()) if found else None


def parse(text: str, at: float) -> Samples:
    """Parses an answer of /metrics.

    Raises:
        CorruptionError: the text is not in the format of Prometheus.
    """
    try:
        from prometheus_client.parser import text_string_to_metric_families
    except ModuleNotFoundError:
        raise missing_library("--metrics", "prometheus_client") from None
    values: dict[str, dict[Labels, float]] = {}
    try:
        for family in text_string_to_metric_families(text):
            for sample in family.samples:
                labels = tuple(sorted(sample.labels.items()))
                values.setdefault(sample.name, {})[labels] = sample.value
    except (ValueError, IndexError, KeyError) as failure:
        raise CorruptionError(f"the answer is not in the format of Prometheus: {failure}") from failure
    return Samples(at, values)


def fetch(host: str, port: int, timeout: float, at: float) -> Samples:
    """Fetches /metrics and /groups; `timeout` is in seconds.  Raises OSError and the errors of `parse`."""
    url = f"http://{f'[{host}]' if ':' in host else host}:{port}"
    samples = parse(_read(f"{url}/metrics", timeout).decode(errors="replace"), at)
    return samples._replace(group_commits=_group_commits(f"{url}/groups", timeout))


def _group_commits(url: str, timeout: float) -> Mapping[str, int] | None:
    # The rates of groups are optional: without them the rest is shown.
    try:
        commits = json.loads(_read(url, timeout))["commits"]
        return {str(group): int(count) for group, count in commits.items()}
    except (ConnectionError, ValueError, KeyError, TypeError, AttributeError):
        return None


def _read(url: str, timeout: float) -> bytes:
    try:
        with urllib.request.urlopen(url, timeout=timeout) as answer:
            content: bytes = answer.read(ANSWER_BYTES_MAX + 1)
    except urllib.error.URLError as failure:
        reason = getattr(failure.reason, "strerror", None) or failure.reason
        raise ConnectionError(f"{url}: {reason}") from failure
    except (OSError, HTTPException) as failure:
        raise ConnectionError(f"{url}: no valid HTTP answer: {failure}") from failure
    if len(content) > ANSWER_BYTES_MAX:
        raise CorruptionError(f"{url}: the answer has more than {ANSWER_BYTES_MAX} bytes")
    return content


class Interval:
    """The events between two polls, or since the start of the server if only one poll was made.

    Args:
        now: the samples of the later poll.
        before: the samples of the earlier poll, or None; ignored if the server was restarted between the polls.
    """

    def __init__(self, now: Samples, before: Samples | None) -> None:
        started = now.get("offsetlog_start_time_seconds")
        if before is not None and before.get("offsetlog_start_time_seconds") != started:
            before = None
        self.now = now
        self.is_since_start = before is None
        self._before = before
        begin = started if before is None else before.at
        self.seconds = max(0.0, now.at - begin) if begin is not None else 0.0

    def _past(self, name: str, labels: Labels) -> float:
        return 0.0 if self._before is None else self._before.values.get(name, {}).get(labels, 0.0)

    def rate(self, name: str, **labels: str) -> float | None:
        """Returns the growth of a counter per second, over all samples with these labels; None if unknown."""
        found = self.now.values.get(name)
        if not found or not self.seconds:
            return None
        wanted = set(labels.items())
        grown = [value - self._past(name, key) for key, value in found.items() if wanted <= set(key)]
        return sum(grown) / self.seconds if grown else None

    def group_rates(self) -> Mapping[str, float] | None:
        """Returns the commits per second of each group that has committed; None if unknown."""
        commits = self.now.group_commits
        if commits is None or not self.seconds:
            return None
        before = {} if self._before is None else self._before.group_commits or {}
        # The server drops the counts of some groups; a dropped count starts again at 0.
        grown = {
            group: count - past if (past := before.get(group, 0)) <= count else count
            for group, count in commits.items()
        }
        return {group: count / self.seconds for group, count in grown.items() if count}

    def quantile(self, name: str, share: float, **labels: str) -> float | None:
        """Returns a quantile of a histogram in seconds, estimated as in Prometheus; None if there were no events."""
        return quantile(share, sorted(self._buckets(f"{name}_bucket", labels)))

    def _buckets(self, name: str, labels: Mapping[str, str]) -> Iterator[tuple[float, float]]:
        for key, value in self.now.values.get(name, {}).items():
            own = dict(key)
            bound = own.pop("le", None)
            if bound is not None and own == labels:
                yield float(bound), value - self._past(name, key)


def quantile(share: float, cumulative: list[tuple[float, float]]) -> float | None:
    """Returns a quantile of a histogram, interpolated linearly within its bucket.

    Args:
        share: the quantile, from 0 to 1.
        cumulative: each bucket's upper bound with the number of values up to it, ascending; the last bound is infinite.

    Returns:
        None if there are no values; infinity if the quantile is above the last finite bound.
    """
    if not cumulative or cumulative[-1][1] <= 0:
        return None
    rank = share * cumulative[-1][1]
    lower, below = 0.0, 0.0
    for bound, count in cumulative:
        if count >= rank:
            if math.isinf(bound):
                return math.inf
            inside = count - below
            return lower + (bound - lower) * ((rank - below) / inside if inside else 1.0)
        lower, below = bound, count
    return math.inf
