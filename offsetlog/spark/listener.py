"""Makes the progress of streaming queries visible: commits the offsets of their sources as positions of a group.

Kafka's tools and lag monitors then see a Spark job like any consumer.  The positions only show the progress; the query
itself restarts from its checkpoint.  Spark reports each batch after it is done, on a thread of its own and at most
once.  The positions may therefore lag by one batch.  If a report is missed, the next report makes up for it, since
offsets are absolute.

A committed position moves forward with its query.  It moves back only if the query itself moved back, because the query
was started again from an older checkpoint, or because its source lost data.  A late report of an earlier run or an
earlier batch is ignored.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, Self

from pyspark.sql.streaming.listener import StreamingQueryListener

from offsetlog.errors import ArgumentTypeError, ConfigError, CorruptionError
from offsetlog.spark.committer import LOGGER, CommitFailure, PositionCommitter
from offsetlog.spark.positions import (
    is_kafka_source,
    merged,
    position_metadata,
    read_source_offset,
    shortened,
    source_topic,
)
from offsetlog.spark.targets import TIMEOUT_SECONDS, Committed, TargetLike, make_target
from offsetlog.types import Durability, OffsetAndMetadata, TopicPartition

if TYPE_CHECKING:
    from pyspark.sql.streaming.listener import (
        QueryIdleEvent,
        QueryProgressEvent,
        QueryStartedEvent,
        QueryTerminatedEvent,
        StreamingQueryProgress,
    )

_RETIRED_MAX = 1000
_TOLD_MAX = 1000


class Query(NamedTuple):
    """A run of a streaming query.

    Attributes:
        id: the id of the query, which stays the same when the query restarts from its checkpoint.
        run_id: the id of the run; each start of the query has a new one.
        name: the `queryName` of the query, or None.
    """

    id: str
    run_id: str
    name: str | None

    @property
    def title(self) -> str:
        """The name of the query, or its id if it has no name."""
        return self.name or self.id


GroupOf = str | Callable[[Query], str | None]
Chosen = str | Collection[str] | Callable[[Query], bool] | None


@dataclass(slots=True)
class _Run:
    """The last report of a run."""

    run_id: str
    batch: int = -1
    group: str | None = None
    positions: Committed = field(default_factory=dict)
    time: float = 0.0


class OffsetCommitListener(StreamingQueryListener):
    """Commits the end offsets of every batch of streaming queries under a group.

        listener = OffsetCommitListener("kafka:9092", "spark-{query}")
        spark.streams.addListener(listener)

    `offsetlog.spark.positions` decides which offsets of which sources are positions, and under which topics they are
    committed.  A Kafka cluster gets only the positions of Spark's Kafka sources, since other topics do not exist there.
    Each source that is left out is logged once.  If several sources of a query read one partition, the smallest of
    their offsets is committed.  The metadata of a position is JSON: `{"query":"<name>","id":"<id>","batch":<number>}`.

    The methods that Spark calls only parse and queue positions; they never wait or raise.  A thread of the listener
    commits the newest positions of each group, retries failed commits, and records failures (in `failures` and
    `last_error`, and with the logger "offsetlog.spark").  When a query ends, its positions are committed at once.  At
    its end, the process waits up to 5 seconds for positions that are not committed yet.  Every method and attribute can
    be used from any thread.

    Args:
        target: an OffsetStore, a path, "host:port,..." or a dict of confluent-kafka's settings: see
            `offsetlog.spark.targets`.
        group: the consumer group, as a str or a function.  In a str, `{query}` is replaced by the query's name, or by
            its id if it has no name, and `{id}` is replaced by its id.  A function gets a `Query` and returns the
            group, or None if the query is not to be committed.  If two queries in one group read the same partition,
            each overwrites the position of the other.
        queries: the queries to commit: None for all queries, a name or id, several names or ids, or a function of a
            `Query`.
        interval_seconds: the time between two commits of one group; each commit has the newest positions.
        back_off_seconds: the first and the longest pause before a failed commit is tried again.
        refresh_seconds: the time after which the positions of an idle query are committed again.  This is needed
            because a broker drops the positions of a group without members 7 days (`offsets.retention.minutes`) after
            the last commit.
        timeout_seconds: how long a Kafka cluster may take for one answer.
        positions_max: how many positions may wait to be committed.
        failures_max: how many failures are kept.
        durability: the failure that a commit to a store survives.  None means the store's own setting, or "disk" if the
            target is a path.
        hold: whether a store that is given as a path stays open until `close` is called, or until another process asks
            for it.  With False, the listener opens and closes the store for each round of commits.

    Raises:
        ArgumentTypeError: the target, the group or the queries are of a wrong type.
        ConfigError: the group is empty, a setting is out of range, or confluent-kafka is not installed.
    """

    def __init__(
        self,
        target: TargetLike,
        group: GroupOf,
        *,
        queries: Chosen = None,
        interval_seconds: float = 1.0,
        back_off_seconds: tuple[float, float] = (0.25, 30.0),
        refresh_seconds: float = 3600.0,
        timeout_seconds: float = TIMEOUT_SECONDS,
        positions_max: int = 1_000_000,
        failures_max: int = 100,
        durability: Durability | None = None,
        hold: bool = True,
    ) -> None:
        if not callable(group) and not isinstance(group, str):
            raise ArgumentTypeError(f"group must be a str or a function, not {type(group).__name__}")
        if group == "":
            raise ConfigError("the group's name must not be empty")
        self._group = group
        self._chosen = _chooser(queries)
        first, longest = back_off_seconds
        if interval_seconds < 0 or refresh_seconds <= 0 or timeout_seconds <= 0 or not 0 < first <= longest:
            raise ConfigError(
                "interval_seconds must be at least 0. refresh_seconds, timeout_seconds and both values of "
                "back_off_seconds must be above 0. The first value of back_off_seconds must not exceed the second"
            )
        if positions_max < 1 or failures_max < 1:
            raise ConfigError("positions_max and failures_max must be at least 1")
        self._refresh = refresh_seconds
        made = make_target(target, durability=durability, hold=hold, timeout_seconds=timeout_seconds)
        self._committer = PositionCommitter(
            made,
            interval_seconds=interval_seconds,
            back_off_seconds=back_off_seconds,
            positions_max=positions_max,
            failures_max=failures_max,
        )
        self._lock = threading.Lock()
        self._runs: dict[str, _Run] = {}
        self._retired: dict[str, None] = {}
        self._told: set[str] = set()

    # ------------------------------------------------------------------------------------------------ for its owner

    @property
    def failures(self) -> tuple[CommitFailure, ...]:
        """The newest failures, oldest first; `failure_count` counts all failures."""
        return self._committer.failures

    @property
    def failure_count(self) -> int:
        """How many commits have failed since the listener was created."""
        return self._committer.failure_count

    @property
    def last_error(self) -> Exception | None:
        """The newest error; None if there was none.  A later success does not reset it."""
        return self._committer.last_error

    @property
    def commits(self) -> int:
        """How many commits the target has accepted, completely or in part."""
        return self._committer.commits

    @property
    def pending(self) -> dict[str, Committed]:
        """The positions that wait to be committed, by group."""
        return self._committer.pending

    def flush(self, timeout: float | None = None) -> bool:
        """Waits until everything that Spark has reported so far is committed.

        Spark reports a batch some tenths of a second after it is done; this call does not wait for such a report.
        Returns False if the wait took longer than `timeout` seconds.  Also returns False if a position was refused for
        good since the last flush that completed in time, on any thread; `failures` contains the reason.
        """
        return self._committer.flush(timeout)

    def close(self, timeout: float | None = 10.0) -> bool:
        """Flushes, ends the thread, and closes the target if the listener opened it.  Ignores later reports.

        Returns the result of the flush.  First remove the listener from Spark:
        `spark.streams.removeListener(listener)`.
        """
        return self._committer.close(timeout)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, value: object, trace: object) -> None:
        self.close()

    # ------------------------------------------------------------------------------------------------ for Spark

    def onQueryStarted(self, event: QueryStartedEvent) -> None:  # noqa: N802  (the name is Spark's)
        """Begins a run; from now on reports of earlier runs of the query are ignored."""
        try:
            self._begin(str(event.id), str(event.runId))
        except Exception as error:  # Spark would only log it
            self._committer.fail(None, 0, error)

    def onQueryProgress(self, event: QueryProgressEvent) -> None:  # noqa: N802
        """Queues the end offsets of a batch."""
        try:
            if not self._committer.closed:
                self._take(event.progress)
        except Exception as error:
            self._committer.fail(None, 0, error)

    def onQueryIdle(self, event: QueryIdleEvent) -> None:  # noqa: N802
        """Commits the positions of an idle query again if their last commit is old."""
        try:
            self._take_again(str(event.id), str(event.runId))
        except Exception as error:
            self._committer.fail(None, 0, error)

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:  # noqa: N802
        """Starts the commit of the query's last positions at once."""
        try:
            self._finish(str(event.id), str(event.runId))
        except Exception as error:
            self._committer.fail(None, 0, error)

    # ------------------------------------------------------------------------------------------------ inside

    def _begin(self, query_id: str, run_id: str) -> None:
        with self._lock:
            earlier = self._runs.get(query_id)
            if earlier is not None and earlier.run_id != run_id:
                self._retire(earlier.run_id)
            self._runs[query_id] = _Run(run_id)

    def _retire(self, run_id: str) -> None:
        self._retired[run_id] = None
        while len(self._retired) > _RETIRED_MAX:
            self._retired.pop(next(iter(self._retired)))

    def _take(self, progress: StreamingQueryProgress) -> None:
        query = Query(str(progress.id), str(progress.runId), progress.name)
        if not self._chosen(query):
            return
        group = self._group_of(query)
        if group is None:
            return
        offsets = merged(self._source_positions(query, source, group) for source in progress.sources)
        if not offsets:
            return
        metadata = position_metadata(query.name, query.id, progress.batchId)
        positions = {key: OffsetAndMetadata(offset, metadata) for key, offset in offsets.items()}
        with self._lock:
            if query.run_id in self._retired:
                return
            run = self._runs.get(query.id)
            if run is None or run.run_id != query.run_id:
                run = self._runs[query.id] = _Run(query.run_id)
            if progress.batchId < run.batch:
                return
            run.batch, run.group, run.positions, run.time = progress.batchId, group, positions, time.monotonic()
            # Queued under the lock, so that no older report comes after this one.
            self._committer.put(group, positions)

    def _take_again(self, query_id: str, run_id: str) -> None:
        with self._lock:
            run = self._runs.get(query_id)
            if run is None or run.run_id != run_id or run.group is None or self._committer.closed:
                return
            if time.monotonic() - run.time >= self._refresh:
                run.time = time.monotonic()
                self._committer.put(run.group, run.positions)

    def _finish(self, query_id: str, run_id: str) -> None:
        with self._lock:
            run = self._runs.get(query_id)
            if run is None or run.run_id != run_id:
                return
            del self._runs[query_id]
            self._retire(run_id)
        if run.group is not None:
            self._committer.hurry(run.group)

    def _group_of(self, query: Query) -> str | None:
        if isinstance(self._group, str):
            return self._group.replace("{query}", query.title).replace("{id}", query.id)
        group = self._group(query)
        if group is not None and not isinstance(group, str):
            raise ArgumentTypeError(f"the group of query {query.title!r} must be a str, not {type(group).__name__}")
        return group

    def _source_positions(self, query: Query, source: Any, group: str) -> dict[TopicPartition, int]:
        """Returns the positions of one source; records a failure and returns none if its offset cannot be read."""
        description = str(source.description)
        try:
            found = read_source_offset(source.endOffset, source_topic(description))
        except CorruptionError as error:
            error.item = shortened(description, 200)
            self._committer.fail(group, 0, error)
            return {}
        if found.shape == "unknown":
            self._tell_once(query, description, "its offset is not a position in a log")
            return {}
        if found.positions and self._committer.target.kafka_only and not is_kafka_source(description):
            self._tell_once(query, description, f"its topics do not exist in {self._committer.target}")
            return {}
        return found.positions

    def _tell_once(self, query: Query, description: str, why: str) -> None:
        topic = source_topic(description)
        if topic not in self._told and len(self._told) < _TOLD_MAX:
            self._told.add(topic)
            facts = (query.title, shortened(description), why)
            LOGGER.warning("query %s: the progress of %s is not committed: %s", *facts)


def _chooser(queries: Chosen) -> Callable[[Query], bool]:
    if queries is None:
        return lambda _: True
    if callable(queries):
        return queries
    if not isinstance(queries, Collection):
        raise ArgumentTypeError(f"queries must be names or ids, or a function, not {type(queries).__name__}")
    names = {queries} if isinstance(queries, str) else set(queries)
    return lambda query: query.id in names or query.name in names
