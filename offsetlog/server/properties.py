"""The properties of a server, by Kafka's names: their allowed values, and a reader for properties files.

`PROPERTIES` defines every property.  The table in docs/server.md is generated from `PROPERTIES`.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from offsetlog.config import PARTITIONS_MAX
from offsetlog.errors import ConfigError
from offsetlog.missing_library import missing_library
from offsetlog.topics.configs import INT_MAX, LONG_MAX, TOPIC_CONFIGS, Kind, check

#: The size of the largest properties file that is read, in bytes.
FILE_BYTES_MAX = 1 << 20
#: How many unknown names one message lists besides the first.
NAMES_MAX = 20

_LISTENER = re.compile(r"(PLAINTEXT|http)://(?:\[([0-9a-fA-F:.]+)\]|([^\s\[\]:,/]*)):(\d{1,5})", re.ASCII)


class Given(NamedTuple):
    """A property as the user gave it.

    Attributes:
        text: the value.
        place: the file and line, or the command-line option, that sets the property.
    """

    text: str
    place: str


class Address(NamedTuple):
    """A host ("" for all addresses of this machine) and a port (0 for a free one)."""

    host: str
    port: int


Value = int | bool | float | str | Address


@dataclass(frozen=True, slots=True)
class Property:
    """One property.

    Attributes:
        meaning: the description in the table, without a full stop.
        default: the default as text; "" for none.
        places: the settings that the property changes, each as "part.field"; "manager" if the
            manager reads the property.
        smallest, largest: the bounds of a whole number.
        choices: the allowed texts; empty for a number.
        form: the allowed values in words, if they are neither whole numbers nor `choices`.
        divisor: the number by which a value is divided to get the setting's unit, such as 1000 if
            the property is in ms and the setting is in seconds.
        factor: the number by which a value is multiplied to get the setting's unit, such as 60000
            if the property is in minutes and the setting is in ms.
        of_topic: the name of the topic setting for which this property is the default, if that
            setting is a list or a fraction.  The value is parsed as for that setting.  "" for all
            other properties.
    """

    meaning: str
    default: str
    places: tuple[str, ...]
    smallest: int = 0
    largest: int = INT_MAX
    choices: tuple[str, ...] = ()
    form: str = ""
    divisor: int = 1
    factor: int = 1
    of_topic: str = ""

    @property
    def allowed(self) -> str:
        """The allowed values, in words."""
        if self.form:
            return self.form
        if self.choices:
            return " or ".join(self.choices)
        return f"a whole number from {self.smallest} to {self.largest}"

    @property
    def kind(self) -> Kind:
        """The type, as DescribeConfigs names it."""
        if self.of_topic:
            return TOPIC_CONFIGS[self.of_topic].kind
        if self.form or (self.choices and self.choices != BOOLEAN):
            return Kind.STRING
        if self.choices:
            return Kind.BOOLEAN
        return Kind.INT if self.largest <= INT_MAX else Kind.LONG

    def read(self, text: str) -> Value:
        """Parses the text of a value.

        Raises:
            ValueError: the value is not allowed.
        """
        if self.form in (LISTENER, HTTP_LISTENER):
            return _address(text, self.form)
        if self.of_topic:
            return _value_of_topic(self.of_topic, text)
        if self.form:
            return _line(text)
        if self.choices:
            return self._choice(text)
        if re.fullmatch(r"-?\d{1,19}", text, re.ASCII) and self.smallest <= int(text) <= self.largest:
            return int(text)
        raise ValueError

    def in_units(self, value: Value) -> Value | float:
        """Converts a value to the unit of its setting; does not multiply a negative value, such as -1 for never."""
        if isinstance(value, bool) or not isinstance(value, int):
            return value
        if self.divisor > 1:
            return value / self.divisor
        return value if value < 0 else value * self.factor

    def _choice(self, text: str) -> bool | str:
        # Like Kafka, accepts true and false in upper or lower case, but other words only as listed.
        if self.choices == BOOLEAN:
            text = text.lower()
        if text not in self.choices:
            raise ValueError
        return text == "true" if self.choices == BOOLEAN else text


LISTENER = "PLAINTEXT://HOST:PORT"
HTTP_LISTENER = "http://HOST:PORT"
DIRECTORY = "one directory"
BOOLEAN = ("true", "false")


def _address(text: str, form: str) -> Address:
    found = _LISTENER.fullmatch(text)
    if found is None or not form.startswith(found[1]) or int(found[4]) > 65535:
        raise ValueError
    return Address(found[2] or found[3], int(found[4]))


def _line(text: str) -> str:
    if not text or "," in text or not text.isprintable():
        raise ValueError
    return text


def _value_of_topic(config: str, text: str) -> str | float:
    try:
        check(config, text)
    except ConfigError:
        raise ValueError from None
    return float(text) if TOPIC_CONFIGS[config].kind is Kind.DOUBLE else text


def _meaning_of_topics(config: str) -> str:
    text = TOPIC_CONFIGS[config].documentation
    return f"the default of the topic setting `{config}`: {text[0].lower()}{text[1:-1]}"


def _of_topics(config: str, field: str, *, smallest: int | None = None) -> Property:
    # The property is the broker's default for a setting of topics, and has the allowed values of
    # that setting.
    setting = TOPIC_CONFIGS[config]
    return Property(
        _meaning_of_topics(config),
        setting.default,
        (f"topic_logs.{field}",),
        int(setting.smallest) if smallest is None else smallest,
        int(setting.largest),
    )


def _of_topics_in_form(config: str, field: str, form: str) -> Property:
    # Like `_of_topics`, for a setting that is a list or a fraction.
    default, place = TOPIC_CONFIGS[config].default, f"topic_logs.{field}"
    return Property(_meaning_of_topics(config), default, (place,), form=form, of_topic=config)


#: The properties, by Kafka's names.  A property that Kafka does not have has a name of offsetlog.
PROPERTIES: dict[str, Property] = {
    "log.dirs": Property(
        "the log directory, unless the command names it", "", ("path",), form=DIRECTORY
    ),
    "node.id": Property("the node's id; used only for a new directory", "0", ("node_id",)),
    "listeners": Property(
        "the address to listen on; an empty HOST means all addresses of the machine, and port 0 a free port; an "
        "address other than loopback needs `--allow-any-host`",
        "PLAINTEXT://127.0.0.1:9092",
        ("listener",),
        form=LISTENER,
    ),
    "advertised.listeners": Property(
        "the address given to clients, if it differs from `listeners`", "", ("advertised",), form=LISTENER
    ),
    "metrics.listener": Property(
        "the address for `/metrics`, `/healthz`, `/readyz` and `/groups`, in the form of `listeners`; "
        "none by default (not a property of Kafka)",
        "",
        ("metrics",),
        form=HTTP_LISTENER,
    ),
    "socket.request.max.bytes": Property(
        "the largest request, in bytes", "104857600", ("limits.request_bytes_max",), 1
    ),
    "queued.max.request.bytes": Property(
        "limit for the bytes of incomplete requests, of commits that wait for a flush, "
        "and of requests that wait for threads",
        "536870912",
        ("limits.queued_request_bytes_max",),
        1,
        LONG_MAX,
    ),
    "max.connections": Property("the most connections in total", "20000", ("limits.connections_max",), 1),
    "max.connections.per.ip": Property(
        "the most connections from one address", "20000", ("limits.connections_per_host_max",), 1
    ),
    "connections.max.idle.ms": Property(
        "a connection is closed after this time without a request",
        "600000",
        ("limits.idle_seconds",),
        1,
        LONG_MAX,
        divisor=1000,
    ),
    "group.initial.rebalance.delay.ms": Property(
        "how long the first rebalance of a group waits for more members",
        "3000",
        ("coordinator.initial_rebalance_delay",),
    ),
    "group.min.session.timeout.ms": Property(
        "the shortest session timeout that a member may request",
        "6000",
        ("coordinator.min_session_timeout",),
    ),
    "group.max.session.timeout.ms": Property(
        "the longest session timeout that a member may request",
        "1800000",
        ("coordinator.max_session_timeout",),
    ),
    "group.max.size": Property(
        "the most members of one group", str(INT_MAX), ("coordinator.max_size",), 1
    ),
    "offsets.topic.num.partitions": Property(
        "the number of partitions of the offsets topic; used only for a new directory",
        "4",
        ("manager",),
        1,
        PARTITIONS_MAX,
    ),
    "offsets.topic.segment.bytes": Property(
        "the size at which a segment of the offsets topic is rolled",
        "104857600",
        ("manager",),
        4096,
    ),
    "offset.metadata.max.bytes": Property(
        "the longest metadata of a position, in UTF-16 units", "4096", ("manager",), 0, 32767
    ),
    "offsets.commit.timeout.ms": Property(
        "how long a commit or a change of a group may take to be written",
        "5000",
        ("manager", "coordinator.commit_timeout"),
        1,
    ),
    "offsets.commit.durability": Property(
        "when a commit is answered: after the write, or after the flush (not a property of Kafka)",
        "disk",
        ("manager",),
        choices=("process", "disk"),
    ),
    "offsets.load.threads": Property(
        "the number of log partitions that are loaded at the same time (not a property of Kafka)",
        "4",
        ("manager",),
        1,
        1024,
    ),
    "offsets.retention.minutes": Property(
        "how long positions stay after the last member has left the group or, if the group never had members, after "
        "the commit; while the group has members, only positions of topics that no member reads expire; with -1, "
        "positions never expire",
        "10080",
        ("manager",),
        -1,
    ),
    "offsets.retention.check.interval.ms": Property(
        "time between two checks for expired positions", "600000", ("manager",), 1, LONG_MAX
    ),
    "log.cleaner.enable": Property(
        "whether topics are compacted, and the offsets topic is cleaned and snapshotted, in the background",
        "true",
        ("manager", "compaction.enabled"),
        choices=BOOLEAN,
    ),
    "log.cleaner.backoff.ms": Property(
        "time between two checks for topics to compact", "15000", ("compaction.backoff_ms",), 1, LONG_MAX
    ),
    "log.cleaner.dedupe.buffer.size": Property(
        "the memory for the keys of the topic that is being compacted, in bytes",
        "134217728",
        ("compaction.map_bytes",),
        1 << 20,
        LONG_MAX,
    ),
    "log.cleaner.io.max.bytes.per.second": Property(
        "the most bytes per second that the compaction of topics reads and writes",
        str(LONG_MAX),
        ("compaction.bytes_per_second",),
        1,
        LONG_MAX,
    ),
    "log.cleaner.min.cleanable.ratio": _of_topics_in_form(
        "min.cleanable.dirty.ratio", "min_cleanable_dirty_ratio", "a number from 0 to 1"
    ),
    "log.cleaner.delete.retention.ms": _of_topics("delete.retention.ms", "delete_retention_ms"),
    "log.cleaner.min.compaction.lag.ms": _of_topics("min.compaction.lag.ms", "min_compaction_lag_ms"),
    "log.cleaner.max.compaction.lag.ms": _of_topics("max.compaction.lag.ms", "max_compaction_lag_ms"),
    "num.partitions": Property(
        "the number of partitions of a new topic for which the client gives no number",
        "1",
        ("topics.partitions",),
        1,
        9999,
    ),
    "auto.create.topics.enable": Property(
        "whether a topic is created when a client asks for it",
        "true",
        ("topics.auto_create",),
        choices=BOOLEAN,
    ),
    "log.cleanup.policy": _of_topics_in_form(
        "cleanup.policy", "cleanup_policy", "delete, compact, or both, separated by a comma"
    ),
    "log.segment.bytes": _of_topics("segment.bytes", "segment_bytes"),
    "log.roll.ms": _of_topics("segment.ms", "segment_ms"),
    "log.index.interval.bytes": _of_topics("index.interval.bytes", "index_interval_bytes"),
    "log.index.size.max.bytes": _of_topics("segment.index.bytes", "segment_index_bytes", smallest=24),
    "log.retention.hours": Property(
        "`log.retention.ms` in hours; used if neither `log.retention.ms` nor `log.retention.minutes` is set",
        "168",
        ("topic_logs.retention_ms",),
        -1,
        factor=3_600_000,
    ),
    "log.retention.minutes": Property(
        "`log.retention.ms` in minutes; used if `log.retention.ms` is not set",
        "",
        ("topic_logs.retention_ms",),
        -1,
        factor=60_000,
    ),
    "log.retention.ms": _of_topics("retention.ms", "retention_ms"),
    "log.retention.bytes": _of_topics("retention.bytes", "retention_bytes", smallest=-1),
    "log.segment.delete.delay.ms": _of_topics("file.delete.delay.ms", "file_delete_delay_ms"),
    "log.retention.check.interval.ms": Property(
        "time between two checks for old segments of topics",
        "300000",
        ("retention_check_ms",),
        1,
        LONG_MAX,
    ),
    "disk.reserve.bytes": Property(
        "`/healthz` fails when the disk has fewer free bytes than this; 0 for never (not a property of Kafka)",
        "134217728",
        ("disk_reserve_bytes",),
        0,
        LONG_MAX,
    ),
    "producer.id.expiration.ms": Property(
        "an idempotent producer's state is dropped when the producer has written no batch for this time",
        "86400000",
        ("topic_logs.producer_id_expiration_ms",),
        1,
    ),
}


#: Properties that set the same thing.  A later one has priority over an earlier one, whatever their
#: order in the file.
RETENTIONS = ("log.retention.hours", "log.retention.minutes", "log.retention.ms")


def in_order(given: Mapping[str, Given]) -> list[tuple[str, Given]]:
    """Returns the properties in the order in which they take effect: those of RETENTIONS come last."""
    others = [(name, each) for name, each in given.items() if name not in RETENTIONS]
    return others + [(name, given[name]) for name in RETENTIONS if name in given]


# ----------------------------------------------------------------------------------------- the values


def value_of(name: str, given: Given) -> Value:
    """Returns the value of a property.

    Raises:
        ConfigError: the property is unknown, or the value is not allowed.
    """
    found = PROPERTIES.get(name)
    if found is None:
        near = difflib.get_close_matches(name, PROPERTIES, 1)
        hint = f"; did you mean {near[0]}?" if near else ""
        raise ConfigError(
            f"{given.place}: {name or repr(name)} is not a property of this server{hint} "
            f"(docs/server.md lists all {len(PROPERTIES)})"
        )
    try:
        return found.read(given.text)
    except ValueError:
        raise ConfigError(
            f"{given.place}: {name} must be {found.allowed}, not {given.text!r}"
        ) from None


# ------------------------------------------------------------------------------------------- the file


def read_properties(path: Path) -> dict[str, Given]:
    """Reads a Java properties file in UTF-8, and checks names and values.

    Raises:
        ConfigError: the file has another format, a name is unknown or appears more than once, or a
            value is not allowed (the message names the file and line); or a package is missing.
        OSError: the file cannot be read.
    """
    found: dict[str, Given] = {}
    entries = _entries(path)
    _check_names(entries)
    for name, given in entries:
        if name in found:
            raise ConfigError(
                f"{given.place}: {name} is already given on line {_line_of(found[name])}; remove one of the two lines"
            )
        value_of(name, given)
        found[name] = given
    return found


def _check_names(entries: list[tuple[str, Given]]) -> None:
    # Reports all unknown names at once, since a broker's file has many that do not exist here.
    unknown = {name: given for name, given in entries if name not in PROPERTIES}
    if len(unknown) > 1:
        first, *others = unknown
        lines = [f"{name or repr(name)} (line {_line_of(unknown[name])})" for name in others]
        more = f" and {len(lines) - NAMES_MAX} more" if len(lines) > NAMES_MAX else ""
        raise ConfigError(
            f"{unknown[first].place}: {first or repr(first)} is not a property of this server, "
            f"nor are {', '.join(lines[:NAMES_MAX])}{more} (docs/server.md lists all {len(PROPERTIES)})"
        )


def _line_of(given: Given) -> str:
    return given.place.rpartition(":")[2]


def _entries(path: Path) -> list[tuple[str, Given]]:
    try:
        import javaproperties
    except ModuleNotFoundError:
        raise missing_library("--config", "javaproperties") from None
    line = 1
    entries = []
    try:
        for each in javaproperties.parse(_text(path)):
            if isinstance(each, javaproperties.KeyValue):
                entries.append((each.key, Given(each.value.strip(), f"{path}:{line}")))
            line += each.source.count("\n")
    except javaproperties.InvalidUEscapeError as failure:
        raise ConfigError(f"{path}:{line}: {failure}") from None
    return entries


def _text(path: Path) -> str:
    with path.open("rb") as file:
        content = file.read(FILE_BYTES_MAX + 1)
    if len(content) > FILE_BYTES_MAX:
        raise ConfigError(f"{path}: the file is longer than {FILE_BYTES_MAX} bytes, so it is not a file of properties")
    try:
        # Java also ends lines at CR.
        return content.decode().replace("\r\n", "\n").replace("\r", "\n")
    except UnicodeDecodeError as failure:
        line = content.count(b"\n", 0, failure.start) + 1
        raise ConfigError(f"{path}:{line}: the line is not UTF-8; write \\uXXXX for other characters") from None
