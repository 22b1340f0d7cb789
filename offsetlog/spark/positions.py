"""Converts offsets of Spark's sources to positions of a consumer group, and positions to `startingOffsets`.

Spark keeps the offset of a source as a text.  Each kind of source defines its own form of the text.  This module reads
three forms, and recognizes each by the text alone:

* Topics, `{"orders":{"0":123}}`: used by Kafka's source, by offsetlog's own source, and by Python sources that do the
  same.  Each number is the next offset to read, as in a committed offset.
* A counter, `123` or `{"offset":123}`: used by the rate, socket and memory sources.  It is the number of the next item
  to read.
* A file source's `{"logOffset":122}`: the number of the last batch of files that the source has listed.  The next batch
  is number 123.

A counter, and the number of the next batch of files, become the position of partition 0 of a topic.  The topic is
derived from the source's description (see `source_topic`).
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Mapping
from typing import Any, Literal, NamedTuple

from offsetlog.errors import ArgumentTypeError, ConfigError, CorruptionError, LimitError, StateError, TopicError
from offsetlog.spark.targets import TargetLike, opened_target
from offsetlog.types import OffsetAndMetadata, TopicPartition

#: The longest name of a topic in Kafka.
TOPIC_CHARACTERS_MAX = 249
#: If the offset of a source is longer than this, it is refused before it is parsed.
TEXT_CHARACTERS_MAX = 16 << 20
#: The largest number of partitions in one offset.
PARTITIONS_MAX = 200_000
#: The most characters of a query's name in the metadata of its positions; a longer name is truncated.
NAME_CHARACTERS_MAX = 200
OFFSET_MAX = 2**63 - 1
PARTITION_MAX = 2**31 - 1

EARLIEST = -2
LATEST = -1

Missing = Literal["earliest", "latest", "error"]
#: topic -> the number of its partitions, or a list of them; or a Kafka cluster, which is asked for them.
Partitions = Mapping[str, int | Iterable[int]] | str

_KAFKA = re.compile(r"Kafka(?:Source)?(?:V\d+)?\[")
_IDENTITY = re.compile(r"@[0-9a-f]{1,16}(?=$|[^0-9A-Za-z])")
_ILLEGAL = re.compile(r"[^a-zA-Z0-9._-]+")


class SourceOffset(NamedTuple):
    """The meaning of a source's offset.

    Attributes:
        shape: "topics", "counter" or "files", the forms of this module; "nothing" if there is no offset yet; "unknown"
            for any other form, such as that of Delta, which is not a position in a log.
        positions: the next offset to read, by topic and partition.  It is empty for "nothing" and "unknown".
    """

    shape: Literal["topics", "counter", "files", "nothing", "unknown"]
    positions: dict[TopicPartition, int]


def is_kafka_source(description: str) -> bool:
    """Returns whether a source's description in the progress of a query is that of Spark's own Kafka source."""
    return _KAFKA.match(description) is not None


def source_topic(description: str) -> str:
    """Returns the topic for a source without topics: its description, with only the characters that Kafka allows.

    Java appends an identity (`@6edb6635`) to the names of some objects.  It changes at each start, so it is removed.
    Each run of characters other than ASCII letters, digits, dots, dashes and underscores becomes one underscore.  A
    name longer than 249 characters is truncated to 240 characters, followed by a dash and 8 digits of its digest.  If
    two descriptions differ only in the replaced characters, they get the same name.

    >>> source_topic("FileStreamSource[file:/data/in]")
    'FileStreamSource_file_data_in'
    """
    plain = _ILLEGAL.sub("_", _IDENTITY.sub("", description)).strip("_")
    if plain in {"", ".", ".."}:
        plain = "source"
    if len(plain) > TOPIC_CHARACTERS_MAX:
        plain = f"{plain[:240]}-{hashlib.sha256(plain.encode()).hexdigest()[:8]}"
    return plain


def read_source_offset(text: str | None, topic: str) -> SourceOffset:
    """Reads the offset of a source, in any of the forms of this module.

    A negative number means that the source has read nothing yet.  It is not a position, and is left out.

    Args:
        text: the offset, as in query progress and checkpoints.  None, "", "-", "None" and "null" mean that there is
            none.
        topic: the topic for a counter, or for a file source.

    Raises:
        CorruptionError: the text is not JSON, or its topics do not hold valid partitions and offsets.
        LimitError: the text is longer than 16 Mi characters, or names more than 200,000 partitions.
    """
    if text is None or text.strip() in {"", "-", "None", "null"}:
        return SourceOffset("nothing", {})
    if len(text) > TEXT_CHARACTERS_MAX:
        raise LimitError(f"the offset has {len(text)} characters; the limit is {TEXT_CHARACTERS_MAX}")
    value = parse_json(text)
    if isinstance(value, dict):
        return _read_object(value, topic)
    if _is_number(value):
        return SourceOffset("counter", _counter(topic, value))
    return SourceOffset("unknown", {})


def parse_json(text: str) -> Any:
    """Parses JSON; raises CorruptionError for invalid JSON, a duplicate key, or too deep nesting."""
    try:
        return json.loads(text, object_pairs_hook=_without_duplicates)
    except (ValueError, RecursionError) as error:
        raise CorruptionError(f"the text {shortened(text)!r} is not JSON: {error}") from error


def shortened(text: str, characters: int = 80) -> str:
    """Returns a text for a message, shortened if it is long."""
    return text if len(text) <= characters else f"{text[:characters]}..."


def _without_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) < len(pairs):
        raise ValueError("a key appears more than once")
    return made


def _is_number(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _read_object(value: dict[str, Any], topic: str) -> SourceOffset:
    if set(value) == {"logOffset"} and _is_number(value["logOffset"]):
        return SourceOffset("files", _counter(topic, value["logOffset"] + 1))
    if _is_number(value.get("offset")) and set(value) <= {"offset", "timestamp"}:
        return SourceOffset("counter", _counter(topic, value["offset"]))
    if set(value) == {"__consumer_offsets", "begun"}:
        # The offset of offsetlog's own stream also contains the ends that the log had when the query began.
        value = {"__consumer_offsets": value["__consumer_offsets"]}
    if value and all(isinstance(partitions, dict) for partitions in value.values()):
        return SourceOffset("topics", _topics(value))
    return SourceOffset("nothing" if not value else "unknown", {})


def _counter(topic: str, offset: int) -> dict[TopicPartition, int]:
    return {TopicPartition(topic, 0): _checked(offset, topic, "0")} if offset >= 0 else {}


def _topics(value: dict[str, dict[str, Any]]) -> dict[TopicPartition, int]:
    count = sum(len(partitions) for partitions in value.values())
    if count > PARTITIONS_MAX:
        raise LimitError(f"the offset names {count} partitions; the limit is {PARTITIONS_MAX}")
    positions = {}
    for topic, partitions in value.items():
        if not topic or len(topic) > TOPIC_CHARACTERS_MAX:
            raise CorruptionError(
                f"{shortened(topic)!r} cannot be a Kafka topic: names have 1 to {TOPIC_CHARACTERS_MAX} characters"
            )
        for partition, offset in partitions.items():
            if not re.fullmatch(r"[0-9]{1,10}", partition, re.ASCII) or int(partition) > PARTITION_MAX:
                raise CorruptionError(f"topic {topic!r}: {shortened(partition)!r} is not a partition number")
            if _checked(offset, topic, partition) >= 0:
                positions[TopicPartition(topic, int(partition))] = offset
    return positions


def _checked(offset: Any, topic: str, partition: str) -> int:
    if not _is_number(offset) or abs(offset) > OFFSET_MAX:
        raise CorruptionError(f"partition {partition} of topic {topic!r}: {shortened(repr(offset))} is not an offset")
    return int(offset)


def merged(positions: Iterable[Mapping[TopicPartition, int]]) -> dict[TopicPartition, int]:
    """Merges the positions of the sources of one query; for a partition of several sources, the smallest offset counts.

    Every one of these sources has read everything below the smallest offset.
    """
    joined: dict[TopicPartition, int] = {}
    for some in positions:
        for key, offset in some.items():
            joined[key] = min(offset, joined.get(key, offset))
    return joined


def position_metadata(name: str | None, query_id: str | None, batch: int) -> str:
    """Returns the metadata of a position of a query, as JSON; the name is truncated to 200 characters."""
    named: dict[str, Any] = {}
    if name:
        named["query"] = name[:NAME_CHARACTERS_MAX].encode("utf-8", "replace").decode()
    if query_id:
        named["id"] = query_id[:NAME_CHARACTERS_MAX]
    return json.dumps({**named, "batch": batch}, ensure_ascii=False, separators=(",", ":"))


# ------------------------------------------------------------------------------------------------------ the way back


def starting_offsets(
    store: TargetLike,
    group: str,
    topics: str | Iterable[str] | None = None,
    missing: Missing = "earliest",
    *,
    partitions: Partitions | None = None,
) -> str:
    """Returns the committed positions of a group as JSON for the option `startingOffsets` of Spark's Kafka source.

    Spark requires this JSON to name every partition of its topics.  A Kafka cluster knows these partitions, but a store
    does not.  For a store, give `partitions`.  Without it, the topic is assumed to have all partitions up to the
    highest one with a position.

    Args:
        store: an OffsetStore; the path of a store, which is opened read-only, without its lock; or a Kafka cluster, as
            "host:port,..." or as a dict of confluent-kafka's settings (see `offsetlog.spark.targets`).
        group: the consumer group.
        topics: only these topics; None for all topics in which the group has positions.  Give the topics if the group
            also has positions of other sources, whose topics do not exist in Kafka.
        missing: the value for a partition without a position: "earliest" (-2), "latest" (-1), or "error", which raises
            a StateError.
        partitions: for each topic, the number of its partitions or a list of them; or a Kafka cluster
            ("host:port,..."), from which the partitions are fetched.

    Returns:
        JSON without blanks, with topics and partitions sorted: `{"orders":{"0":123,"1":-2}}`.

    Raises:
        StateError: the group has no positions and `topics` is None; or `missing` is "error" and a partition has no
            position.  The error's `item` is this partition.
        TopicError: the partitions of a topic are not known.
        ClusterError, ClusterUnavailableError: the cluster refused or did not answer.
        InvalidArgumentError: an argument is invalid.  Also everything that opening and reading a store raises.

    Can be called from any thread.
    """
    if missing not in {"earliest", "latest", "error"}:
        raise ConfigError(f'missing must be "earliest", "latest" or "error", not {missing!r}')
    wanted = _listed_topics(topics)
    with opened_target(store, read_only=True) as target:
        committed = target.fetch(group)
        names = sorted({key.topic for key in committed}) if wanted is None else wanted
        if not names:
            raise StateError(f"group {group!r} has no positions, so its topics are unknown; list them in `topics`")
        known = target.partitions_of(names) if partitions is None else _known_partitions(partitions, names)
    starts: dict[str, dict[str, int]] = {}
    for topic in names:
        keys = [TopicPartition(topic, number) for number in _numbers(topic, known, committed)]
        starts[topic] = {str(key.partition): _start(committed, key, group, missing) for key in keys}
    return json.dumps(starts, separators=(",", ":"))


def _listed_topics(topics: str | Iterable[str] | None) -> list[str] | None:
    if topics is None:
        return None
    listed = [topics] if isinstance(topics, str) else list(topics)
    for topic in listed:
        if not isinstance(topic, str):
            raise ArgumentTypeError(f"topics must be str, not {type(topic).__name__}")
        if not topic:
            raise TopicError("the name of a topic must not be empty")
    if not listed:
        raise ConfigError("`topics` is empty; to take all topics of the group, pass None")
    return sorted(set(listed))


def _known_partitions(partitions: Partitions, names: list[str]) -> dict[str, list[int]] | None:
    if isinstance(partitions, str):
        with opened_target(partitions) as cluster:
            if not cluster.kafka_only:
                raise ConfigError(f"partitions must be a dict or a Kafka cluster, not {partitions!r}")
            return cluster.partitions_of(names)
    if not isinstance(partitions, Mapping):
        raise ArgumentTypeError(f"partitions must be a dict or a Kafka cluster, not {type(partitions).__name__}")
    return {topic: _listed_partitions(topic, some) for topic, some in partitions.items()}


def _listed_partitions(topic: str, some: int | Iterable[int]) -> list[int]:
    if isinstance(some, bool | str) or not isinstance(some, int | Iterable):
        raise ArgumentTypeError(f"the partitions of {topic!r} must be a number or a list of numbers")
    if isinstance(some, int):
        if some > PARTITIONS_MAX:
            raise ConfigError(f"{some} partitions of {topic!r} are too many; the limit is {PARTITIONS_MAX}")
        some = range(some)
    listed = sorted(set(some))
    if not all(_is_number(number) and 0 <= number <= PARTITION_MAX for number in listed):
        raise ConfigError(f"the partitions of {topic!r} must be from 0 to {PARTITION_MAX}")
    return listed


def _numbers(
    topic: str, known: Mapping[str, list[int]] | None, committed: Mapping[TopicPartition, OffsetAndMetadata]
) -> list[int]:
    """Returns the partitions of a topic to put into the JSON.  Spark refuses partitions that do not exist."""
    if known is not None and topic in known:
        numbers = known[topic]
    else:
        highest = max((key.partition for key in committed if key.topic == topic), default=-1)
        if highest >= PARTITIONS_MAX:
            raise ConfigError(
                f"topic {topic!r} has a position in partition {highest}, and there are too many lower partitions to "
                "list; name the partitions with partitions="
            )
        numbers = list(range(highest + 1))
    if not numbers:
        raise TopicError(f"the partitions of topic {topic!r} are not known; give their number with partitions=")
    return numbers


def _start(
    committed: Mapping[TopicPartition, OffsetAndMetadata], key: TopicPartition, group: str, missing: Missing
) -> int:
    value = committed.get(key)
    if value is not None:
        return value.offset
    if missing == "error":
        raise StateError(f"group {group!r} has no position for {key.topic}:{key.partition}", item=key)
    return EARLIEST if missing == "earliest" else LATEST
