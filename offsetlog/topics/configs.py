"""The settings of topics in Kafka 4.3.0, with their types, defaults, allowed values and purposes.

The server checks and stores all settings, but acts only on those whose attribute `is_used` is True.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Mapping
from dataclasses import dataclass

from offsetlog.errors import ConfigError

INT_MAX, LONG_MAX = 2**31 - 1, 2**63 - 1

#: Numbers as Kafka reads them; Python would also accept underscores, and words such as "nan".
WHOLE = re.compile(r"[+-]?[0-9]+")
DECIMAL = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
#: A longer text is refused without being parsed as a number; no setting is longer.
DIGITS_MAX = 100
#: Characters that Java strips from both ends of a value before it parses it.
BLANKS = "".join(map(chr, range(33)))


class Kind(enum.IntEnum):
    """The type of a value, by its number on the wire."""

    BOOLEAN = 1
    STRING = 2
    INT = 3
    LONG = 5
    DOUBLE = 6
    LIST = 7


@dataclass(frozen=True, slots=True)
class TopicConfig:
    """One setting of topics.

    Attributes:
        kind: the type of the value.
        default: the value for topics that do not set one.
        documentation: the setting's purpose.
        broker_name: the broker setting that provides the default; "" for none.
        smallest, largest: bounds of a number.
        choices: the allowed texts, or the allowed elements of a list; empty if any text is allowed.
        is_used: whether the server acts on the setting.
    """

    kind: Kind
    default: str
    documentation: str
    broker_name: str = ""
    smallest: float = -LONG_MAX - 1
    largest: float = LONG_MAX
    choices: tuple[str, ...] = ()
    is_used: bool = False

    def explained(self) -> str:
        """Returns the setting's purpose, with a note if the server does not act on it."""
        return self.documentation if self.is_used else f"{self.documentation} The setting is stored, but not used yet."


def _number(
    default: int, text: str, broker: str = "", *, at_least: int = 0, kind: Kind = Kind.LONG, used: bool = False
) -> TopicConfig:
    largest = INT_MAX if kind is Kind.INT else LONG_MAX
    return TopicConfig(kind, str(default), text, broker, at_least, largest, is_used=used)


def _flag(text: str, broker: str = "") -> TopicConfig:
    return TopicConfig(Kind.BOOLEAN, "false", text, broker)


def _level(default: int, codec: str, smallest: int, largest: int) -> TopicConfig:
    text = f"The level at which the broker compresses with {codec}."
    return TopicConfig(Kind.INT, str(default), text, f"compression.{codec}.level", smallest, largest)


#: The settings by name.
TOPIC_CONFIGS: dict[str, TopicConfig] = {
    "cleanup.policy": TopicConfig(
        Kind.LIST,
        "delete",
        "Whether old segments are deleted (delete), superseded records removed (compact), or both. "
        "With compact, records need keys.",
        "log.cleanup.policy",
        choices=("compact", "delete"),
        is_used=True,
    ),
    "compression.gzip.level": _level(-1, "gzip", -1, 9),
    "compression.lz4.level": _level(9, "lz4", 1, 17),
    "compression.type": TopicConfig(
        Kind.STRING,
        "producer",
        "The codec of stored batches; `producer` keeps the codec chosen by the producer.",
        "compression.type",
        choices=("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer"),
    ),
    "compression.zstd.level": _level(3, "zstd", -131072, 22),
    "delete.retention.ms": _number(
        86_400_000, "How long a tombstone stays in a compacted topic, in ms.", "log.cleaner.delete.retention.ms",
        used=True,
    ),
    "file.delete.delay.ms": _number(
        60_000, "How long the files of a deleted segment stay, in ms.", "log.segment.delete.delay.ms", used=True
    ),
    "flush.messages": _number(
        LONG_MAX, "The number of unflushed records after which the log is flushed.",
        "log.flush.interval.messages", at_least=1, used=True
    ),
    "flush.ms": _number(LONG_MAX, "The time after which a record is flushed, in ms.", used=True),
    "follower.replication.throttled.replicas": TopicConfig(
        Kind.LIST, "", "The replicas that are throttled on the follower's side."
    ),
    "index.interval.bytes": _number(
        4096, "Bytes of log between two entries of an index.", "log.index.interval.bytes", kind=Kind.INT, used=True
    ),
    "leader.replication.throttled.replicas": TopicConfig(
        Kind.LIST, "", "The replicas that are throttled on the leader's side."
    ),
    "local.retention.bytes": _number(
        -2, "Bytes of a partition that stay on the local disk if remote storage is used.",
        "log.local.retention.bytes", at_least=-2
    ),
    "local.retention.ms": _number(
        -2, "How long records stay on the local disk if remote storage is used, in ms.",
        "log.local.retention.ms", at_least=-2
    ),
    "max.compaction.lag.ms": _number(
        LONG_MAX, "The age at which a record is due for compaction, in ms.",
        "log.cleaner.max.compaction.lag.ms", at_least=1,
        used=True,
    ),
    "max.message.bytes": _number(
        1_048_588, "The largest size of a stored batch, in bytes.", "message.max.bytes", kind=Kind.INT, used=True
    ),
    "message.timestamp.after.max.ms": _number(
        3_600_000,
        "How far a record's timestamp may be ahead of the broker's clock, in ms.",
        "log.message.timestamp.after.max.ms",
        used=True,
    ),
    "message.timestamp.before.max.ms": _number(
        LONG_MAX,
        "How far a record's timestamp may be before the broker's clock, in ms.",
        "log.message.timestamp.before.max.ms",
        used=True,
    ),
    "message.timestamp.type": TopicConfig(
        Kind.STRING,
        "CreateTime",
        "Whether a record keeps its producer's timestamp or gets the time of the append.",
        "log.message.timestamp.type",
        choices=("CreateTime", "LogAppendTime"),
        is_used=True,
    ),
    "min.cleanable.dirty.ratio": TopicConfig(
        Kind.DOUBLE,
        "0.5",
        "A log is compacted when more than this share of it has not been compacted yet.",
        "log.cleaner.min.cleanable.ratio",
        0,
        1,
        is_used=True,
    ),
    "min.compaction.lag.ms": _number(
        0, "The minimum age of a record before compaction, in ms.", "log.cleaner.min.compaction.lag.ms", used=True
    ),
    "min.insync.replicas": _number(
        1,
        "The number of replicas that must be in sync for a write with acks=all.",
        "min.insync.replicas",
        at_least=1,
        kind=Kind.INT,
    ),
    "preallocate": _flag("Whether a segment's file is created at its full size.", "log.preallocate"),
    "remote.log.copy.disable": _flag("Whether copying to remote storage has stopped."),
    "remote.log.delete.on.disable": _flag("Whether data in remote storage is deleted when remote storage is disabled."),
    "remote.storage.enable": _flag("Whether old segments are copied to remote storage."),
    "retention.bytes": _number(
        -1, "The size of a partition above which old segments are deleted, in bytes; -1 for no limit.",
        "log.retention.bytes",
        at_least=-LONG_MAX - 1, used=True,
    ),
    "retention.ms": _number(
        604_800_000, "The age at which a segment is deleted, in ms; -1 for never.", at_least=-1, used=True
    ),
    "segment.bytes": _number(
        1 << 30, "The size at which a segment is rolled, in bytes.",
        "log.segment.bytes", at_least=1 << 20, kind=Kind.INT,
        used=True,
    ),
    # Kafka allows 4 and more, but such a limit would roll a segment for each record.
    "segment.index.bytes": _number(
        10_485_760, "The largest size of an index file, in bytes.",
        "log.index.size.max.bytes", at_least=64, kind=Kind.INT,
        used=True,
    ),
    "segment.jitter.ms": _number(0, "Segments are rolled early by a random time of at most this many ms."),
    "segment.ms": _number(
        604_800_000, "The age at which a segment is rolled, in ms.", at_least=1, used=True
    ),
    "unclean.leader.election.enable": _flag(
        "Whether a replica out of sync may become leader, which can lose records.", "unclean.leader.election.enable"
    ),
}


def check(name: str, value: str) -> None:
    """Checks the value of a setting.

    Raises:
        ConfigError: the setting is unknown, or the value is not allowed.
    """
    config = TOPIC_CONFIGS.get(name)
    if config is None:
        raise ConfigError(f"{name} is not a setting of topics")
    _CHECKS[config.kind](name, config, value)


def _check_flag(name: str, config: TopicConfig, value: str) -> None:
    if value.strip().lower() not in ("true", "false"):
        raise ConfigError(f"{name} must be true or false, not {value}")


def _check_text(name: str, config: TopicConfig, value: str) -> None:
    if config.choices and value not in config.choices:
        raise ConfigError(f"{name} must be one of {', '.join(config.choices)}, not {value}")


def _check_list(name: str, config: TopicConfig, value: str) -> None:
    for part in parts(value):
        _check_text(name, config, part)


def _check_number(name: str, config: TopicConfig, value: str) -> None:
    text = value.strip(BLANKS)
    is_decimal = config.kind is Kind.DOUBLE
    form = DECIMAL if is_decimal else WHOLE
    if form.fullmatch(text) is None or len(text) > DIGITS_MAX:
        raise ConfigError(f"{name} must be a {'' if is_decimal else 'whole '}number, not {value}")
    number = float(text) if is_decimal else int(text)
    if not config.smallest <= number <= config.largest:
        raise ConfigError(
            f"{name} must be from {config.smallest} to {config.largest}, not {value}"
        )


_CHECKS = {
    Kind.BOOLEAN: _check_flag,
    Kind.STRING: _check_text,
    Kind.LIST: _check_list,
    Kind.INT: _check_number,
    Kind.LONG: _check_number,
    Kind.DOUBLE: _check_number,
}


def parts(value: str) -> list[str]:
    """Returns the elements of a comma-separated list."""
    return [part.strip() for part in value.split(",") if part.strip()]


def effective(own: Mapping[str, str]) -> dict[str, str]:
    """Returns all settings of a topic by name: the given ones, and the defaults of the others."""
    return {name: own.get(name, config.default) for name, config in TOPIC_CONFIGS.items()}
