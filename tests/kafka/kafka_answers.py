"""Answers of a running broker about groups and offsets, and commits that let it go on writing.

Two ways to ask: OffsetFetch itself, which answers for everything that is stored, and ``kafka-consumer-groups``, which
is what an operator would use but cannot show all of it (see :meth:`KafkaAnswers.offsets_by_command`).
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from kafka_packages import DEADLINE_SECONDS, KafkaFailed, KafkaPackages


class CommittedOffset(NamedTuple):
    """One committed offset; ``leader_epoch`` is -1 where there is none."""

    group: str
    topic: str
    partition: int
    offset: int
    leader_epoch: int
    metadata: str


class ListedGroup(NamedTuple):
    """One group as ListGroups names it; ``state`` and ``type`` in Kafka's spelling, as ``Empty`` and ``classic``."""

    group: str
    state: str
    type: str
    protocol_type: str


@dataclass(frozen=True)
class KafkaAnswers:
    """Asks the broker at ``bootstrap`` (``host:port``).

    Every method raises KafkaFailed. Immutable, so it may be used from several threads. Wait with
    KafkaBroker.wait_until_loaded first: a broker that does not lead a partition yet leaves its groups out.
    """

    packages: KafkaPackages
    bootstrap: str

    def offsets(self, *, stable: bool = False) -> list[CommittedOffset]:
        """Returns every committed offset of every listed group, in the order of CommittedOffset's fields.

        ``stable`` asks as a client with ``isolation.level=read_committed`` does; partitions with an open transaction
        are then missing (an all-topics request leaves those that are only pending out, others carry an error and no
        offset).
        """
        rows = []
        for line in self._ask("stable-offsets" if stable else "offsets"):
            answer = json.loads(line)
            for topic, partition, offset, leader_epoch, metadata, error in answer["offsets"]:
                if error == "NONE":
                    rows.append(CommittedOffset(answer["group"], topic, partition, offset, leader_epoch, metadata))
                elif not stable:
                    raise KafkaFailed(f"OffsetFetch of {answer['group']!r}, {topic}-{partition}: {error}")
        return sorted(rows)

    def groups(self) -> list[ListedGroup]:
        """Returns every group the broker lists, sorted by name."""
        return sorted(ListedGroup(**json.loads(line)) for line in self._ask("groups"))

    def offsets_by_command(self, groups: Collection[str] | None = None) -> dict[tuple[str, str, int], int | None]:
        """Returns what ``kafka-consumer-groups --describe --offsets`` prints: (group, topic, partition) -> offset.

        ``groups`` are asked for by name, None means ``--all-groups``. The command wants every topic to exist (see
        :meth:`create_topics`), refuses the empty group id, so that ``--all-groups`` fails where there is one, and
        prints ``-`` for a negative offset (None here). Groups whose names differ in blanks at the end cannot be
        distinguished.
        """
        names = [self._named(group) for group in groups] if groups is not None else [row.group for row in self.groups()]
        chosen = [part for name in names for part in ("--group", name)] if groups is not None else ["--all-groups"]
        if groups is not None and not names:
            return {}
        arguments = ["--bootstrap-server", self.bootstrap, "--describe", "--offsets", *chosen]
        arguments += ["--timeout", f"{DEADLINE_SECONDS * 1000:.0f}"]
        printed = self.packages.run("org.apache.kafka.tools.consumer.group.ConsumerGroupCommand", *arguments)
        # The command says what went wrong and still exits with 0.
        if re.search(r"^Error: ", printed, re.MULTILINE):
            raise KafkaFailed(f"kafka-consumer-groups: {printed.strip()[-2000:]}")
        return _parse_command(printed, names)

    def create_topics(self, topics: Mapping[str, int]) -> None:
        """Creates topics with the given numbers of partitions; one that exists stays as it is."""
        if topics:
            self._ask("create-topics", json.dumps(topics))

    def create_topics_of(self, rows: Iterable[CommittedOffset]) -> None:
        """Creates every topic that ``rows`` name, with enough partitions for :meth:`offsets_by_command`."""
        topics: dict[str, int] = {}
        for row in rows:
            topics[row.topic] = max(topics.get(row.topic, 0), row.partition + 1)
        self.create_topics(topics)

    def commit(self, rows: Iterable[CommittedOffset]) -> None:
        """Commits through Kafka's Admin client, one request a group; topics must exist and groups be empty."""
        groups: dict[str, list[list[object]]] = {}
        for row in rows:
            leader_epoch = row.leader_epoch if row.leader_epoch >= 0 else None
            offset = [row.topic, row.partition, row.offset, leader_epoch, row.metadata]
            groups.setdefault(row.group, []).append(offset)
        self._ask("commit", json.dumps([{"group": group, "offsets": offsets} for group, offsets in groups.items()]))

    def _ask(self, command: str, stdin: str = "") -> list[str]:
        printed = self.packages.run("KafkaAnswers", self.bootstrap, f"{DEADLINE_SECONDS:.0f}", command, stdin=stdin)
        return printed.splitlines()

    @staticmethod
    def _named(group: str) -> str:
        """Returns the name as it is; raises ValueError for one that cannot stand on a command line or in the table."""
        if not group or not group.isprintable():
            raise ValueError(f"kafka-consumer-groups cannot be asked for the group {group!r}")
        return group


_ROW = re.compile(
    r"(?P<group>.*?) +(?P<topic>[A-Za-z0-9._-]+) +(?P<partition>\d+) +(?P<offset>\d+|-) "
    r"+(?:\d+|-) +(?:-?\d+|-) +\S+ +\S+ +.*"
)


def _parse_command(printed: str, names: Collection[str]) -> dict[tuple[str, str, int], int | None]:
    """Reads the tables of the command. Its columns are padded to no fixed width, and a name may hold blanks itself."""
    by_stripped = {name.rstrip(" "): name for name in names}
    if len(by_stripped) != len(names):
        raise ValueError("group names that differ only in blanks at their end look the same in the command's tables")
    offsets: dict[tuple[str, str, int], int | None] = {}
    for line in printed.split("\n"):
        match = _ROW.fullmatch(line)
        if match is None:
            continue
        stripped = match["group"].rstrip(" ")
        if stripped not in by_stripped:
            raise KafkaFailed(f"kafka-consumer-groups names a group that was not asked for: {line!r}")
        key = (by_stripped[stripped], match["topic"], int(match["partition"]))
        offsets[key] = None if match["offset"] == "-" else int(match["offset"])
    return offsets


def read_expected(path: Path) -> list[CommittedOffset]:
    """Reads an ``expected/offsets.tsv`` of the shared data, in the order of :meth:`KafkaAnswers.offsets`."""
    rows = []
    for line in path.read_text(encoding="utf-8").splitlines():
        group, topic, partition, offset, leader_epoch, metadata = line.split("\t")
        numbers = (int(partition), int(offset), int(leader_epoch))
        rows.append(CommittedOffset(json.loads(group), topic, *numbers, json.loads(metadata)))
    return sorted(rows)
