"""Makes the lines that Kafka's console consumer prints with the formatters of internal topics.

Several versions of Kafka changed the lines of its formatters; this module makes the lines of any version.  The lines
were compared with the output of Kafka 0.8.2.2, 0.9.0.1, 0.10.2.2, 0.11.0.3, 1.1.1, 2.8.2, 3.9.1 and 4.3.0.  Where the
lines differ between two of these releases, the formatter classes of the releases in between were read to find the
release that changed them.

Kafka prints the elements of a Scala map or set in the order of the collection's hash table, so this module computes
that order.  It follows Scala 2.11 and 2.12 for versions up to Kafka 2.5, and Scala 2.13 from Kafka 2.6 on.
"""

from __future__ import annotations

import enum
import itertools
import json
import re
from collections.abc import Callable, Iterable
from typing import Any

from offsetlog._native.codec import java_hash
from offsetlog.directory.listing import TOPIC, TRANSACTIONS_TOPIC
from offsetlog.errors import InvalidArgumentError

Row = dict[str, Any]
Version = tuple[int, ...]
#: Makes the text of a record's key and value, as `dump` shows them; the value is None for a tombstone.
Form = Callable[[Row, Row | None], str]


class Formatter(enum.StrEnum):
    """The formatters, named by the records that they print."""

    OLD = "old"
    OFFSETS = "offsets"
    GROUPS = "groups"
    TRANSACTIONS = "transactions"


#: The Kafka version whose forms are printed by default.
NEWEST = "4.3"
_OLD = (0, 8, 2)
_SCALA_2_13 = (2, 6)

# ----------------------------------------------------------------------------------------------- hash tables of Scala


def _int32(number: int) -> int:
    return (number + 0x80000000 & 0xFFFFFFFF) - 0x80000000


def _index_2_11(hashed: int, size: int, seed: int) -> int:
    # Scala's byteswap32 of the hash code, rotated by a seed.  The highest bits are the index.
    mixed = hashed * 0x9E3775CD & 0xFFFFFFFF
    mixed = int.from_bytes(mixed.to_bytes(4, "big"), "little") * 0x9E3775CD & 0xFFFFFFFF
    rotated = (mixed >> seed | mixed << 32 - seed) & 0xFFFFFFFF
    return rotated >> 33 - size.bit_length() & size - 1


#: The seed of a map: log2 of 16, which is the first size of a map.  It does not change when the map grows.  The seed of
#: a set follows the present size of the set.
_MAP_SEED = 4


def _map_2_11(keys: Iterable[str], hash_of: Callable[[str], int]) -> list[str]:
    # Chains grow at their head; the walk begins at the end of the table.  The table grows when it is over 3/4 full.
    size = 16
    table: list[list[str]] = [[] for _ in range(size)]
    for count, key in enumerate(dict.fromkeys(keys), 1):
        table[_index_2_11(hash_of(key), size, _MAP_SEED)].insert(0, key)
        if count > size * 3 // 4:
            size *= 2
            old, table = table, [[] for _ in range(size)]
            for chain in reversed(old):
                for each in chain:
                    table[_index_2_11(hash_of(each), size, _MAP_SEED)].insert(0, each)
    return [key for chain in reversed(table) for key in chain]


def _set_2_11(keys: Iterable[str], hash_of: Callable[[str], int]) -> list[str]:
    # Open addressing; the table grows when it is 45 % full.  If two partitions want one place, the first added gets it.
    # Kafka adds the partitions of a topic in the order of a set, this function in the order of the record.
    size = 32
    table: list[str | None] = [None] * size

    def put(key: str) -> None:
        index = _index_2_11(hash_of(key), size, size.bit_length() - 1)
        while table[index] is not None:
            index = (index + 1) % size
        table[index] = key

    for count, key in enumerate(dict.fromkeys(keys), 1):
        put(key)
        if count >= size * 450 // 1000:
            size *= 2
            old, table = table, [None] * size
            for each in old:
                if each is not None:
                    put(each)
    return [key for key in table if key is not None]


def _ordered_2_13(keys: Iterable[str], size: int, hash_of: Callable[[str], int]) -> list[str]:
    # Maps and sets have the same order: chains are sorted by hash, and the walk begins at the start of the table.
    def place(key: str) -> tuple[int, int]:
        hashed = hash_of(key) & 0xFFFFFFFF
        mixed = _int32(hashed ^ hashed >> 16)
        return mixed & size - 1, mixed

    return sorted(dict.fromkeys(keys), key=place)


def _map_2_13(keys: Iterable[str], hash_of: Callable[[str], int]) -> list[str]:
    distinct = list(dict.fromkeys(keys))
    size = 16
    while len(distinct) >= size * 3 // 4:
        size *= 2
    return _ordered_2_13(distinct, size, hash_of)


def _set_2_13(parts: Iterable[list[str]], hash_of: Callable[[str], int]) -> list[str]:
    # Sets are added to a set.  If an added set has five elements or more, the table grows by the size of the added set
    # alone.
    size, held = 16, dict.fromkeys("")
    for part in parts:
        distinct = list(dict.fromkeys(part))
        while size < int((len(distinct) + 1) / 0.75):
            size *= 2
        for key in distinct:
            if len(distinct) < 5 and len(held) + 1 >= size * 3 // 4:
                size *= 2
            held[key] = None
    return _ordered_2_13(held, size, hash_of)


def _topic_partition_hash(text: str) -> int:
    # The result of TopicPartition.hashCode for a text such as "topic-7".
    topic, _, number = text.rpartition("-")
    return _int32(31 * (31 + int(number)) + java_hash(topic))


def _scala_map(kafka: Version, entries: dict[str, str]) -> str:
    modern = kafka >= _SCALA_2_13
    order = _map_2_13 if modern else _map_2_11
    shown = ", ".join(f"{key} -> {entries[key]}" for key in order(entries, java_hash))
    return f"{'HashMap' if modern else 'Map'}({shown})"


def _scala_set(kafka: Version, topics: list[list[str]]) -> str:
    if kafka >= _SCALA_2_13:
        return f"HashSet({', '.join(_set_2_13(topics, _topic_partition_hash))})"
    return f"Set({', '.join(_set_2_11(itertools.chain.from_iterable(topics), _topic_partition_hash))})"


def _option(value: object) -> str:
    return "None" if value is None else f"Some({value})"


# ----------------------------------------------------------------------------------------------------------- offsets


def _position(key: Row) -> str:
    return f"[{key['group']},{key['topic']},{key['partition']}]"


def _offsets_0_8_2(key: Row, value: Row | None) -> str:
    if value is None:
        return f"{_position(key)}::NULL"
    time = value["commitTimestamp"]
    return (
        f"{_position(key)}::OffsetAndMetadata[{value['offset']},{value['metadata'] or 'NO_METADATA'}"
        f"{'' if time == -1 else f',{time}'}]"
    )


def _offsets_0_9(key: Row, value: Row | None) -> str:
    if value is None:
        return f"{_position(key)}::NULL"
    return (
        f"{_position(key)}::[OffsetMetadata[{value['offset']},{value['metadata'] or 'NO_METADATA'}],"
        f"CommitTime {value['commitTimestamp']},ExpirationTime {value.get('expireTimestamp', -1)}]"
    )


def _offsets_2_1(key: Row, value: Row | None) -> str:
    if value is None:
        return f"{_position(key)}::NULL"
    epoch, expires = value.get("leaderEpoch", -1), value.get("expireTimestamp", -1)
    return (
        f"{_position(key)}::OffsetAndMetadata(offset={value['offset']}, "
        f"leaderEpoch={'Optional.empty' if epoch == -1 else f'Optional[{epoch}]'}, metadata={value['metadata']}, "
        f"commitTimestamp={value['commitTimestamp']}, expireTimestamp={_option(None if expires == -1 else expires)})"
    )


# ------------------------------------------------------------------------------------------------------------ groups


def _groups_in_brackets(kafka: Version) -> Form:
    # 0.9 has no groups without members.
    has_states = kafka >= (0, 10, 1)

    def form(key: Row, value: Row | None) -> str:
        if value is None:
            return f"{key['group']}::NULL"
        members = {
            each["memberId"]: f"[{each['memberId']},{each['clientId']},{each['clientHost']},{each['sessionTimeout']}]"
            for each in value["members"]
        }
        kind, state = value["protocolType"], "Stable"
        if has_states:
            kind, state = (_option(kind), state) if members else ("None", "Empty")
        return f"{key['group']}::[{key['group']},{kind},{state},{_scala_map(kafka, members)}]"

    return form


def _groups_in_words(kafka: Version) -> Form:
    def member_text(each: Row) -> str:
        instance = f"groupInstanceId={_option(each.get('groupInstanceId'))}, " if kafka >= (2, 3) else ""
        return (
            f"MemberMetadata(memberId={each['memberId']}, {instance}clientId={each['clientId']}, "
            f"clientHost={each['clientHost']}, sessionTimeoutMs={each['sessionTimeout']}, "
            f"rebalanceTimeoutMs={each.get('rebalanceTimeout', each['sessionTimeout'])}, supportedProtocols="
        )

    def form(key: Row, value: Row | None) -> str:
        if value is None:
            return f"{key['group']}::NULL"
        protocol = "null" if value["protocol"] is None else value["protocol"]
        end = ")" if kafka >= (3, 0) else ", )"
        members = {each["memberId"]: f"{member_text(each)}List({protocol}){end}" for each in value["members"]}
        # Before 1.0.1 the type came from the members alone.
        kind = value["protocolType"] or None if members or kafka >= (1, 0, 1) else None
        return (
            f"{key['group']}::GroupMetadata(groupId={key['group']}, generation={value['generation']}, "
            f"protocolType={_option(kind)}, currentState={'Stable' if members else 'Empty'}, "
            f"members={_scala_map(kafka, members)})"
        )

    return form


# ------------------------------------------------------------------------------------------------------ transactions

_STATES = (
    "Empty",
    "Ongoing",
    "PrepareCommit",
    "PrepareAbort",
    "CompleteCommit",
    "CompleteAbort",
    "Dead",
    "PrepareEpochFence",
)


def _transactions_in_words(kafka: Version) -> Form:
    def form(key: Row, value: Row | None) -> str:
        name = key["transactionalId"]
        if value is None:
            return f"{name}::NULL"
        status = value["transactionStatus"]
        state = _STATES[status] if 0 <= status < len(_STATES) else str(status)
        listed = [] if state == "Empty" else value["transactionPartitions"] or []
        partitions = [[f"{each['topic']}-{number}" for number in each["partitionIds"]] for each in listed]
        return (
            f"{name}::TransactionMetadata(transactionalId={name}, producerId={value['producerId']}, "
            f"producerEpoch={value['producerEpoch']}, txnTimeoutMs={value['transactionTimeoutMs']}, state={state}, "
            f"pendingState=None, topicPartitions={_scala_set(kafka, partitions)}, "
            f"txnStartTimestamp={value['transactionStartTimestampMs']}, "
            f"txnLastUpdateTimestamp={value['transactionLastUpdateTimestampMs']})"
        )

    return form


# -------------------------------------------------------------------------------------------------------------- JSON

_ENCODER = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))
_ESCAPED = re.compile(r"\\(?:u[0-9a-f]{4}|.)")
#: Fields that 4.0 does not have.
_SINCE_4_1 = {"topicId", "nextProducerEpoch"}
#: The fields of a transactional id's value in the order in which Kafka prints them if the value has tagged fields.
_TRANSACTION_FIELDS = (
    "producerId",
    "previousProducerId",
    "nextProducerId",
    "producerEpoch",
    "nextProducerEpoch",
    "transactionTimeoutMs",
    "transactionStatus",
    "transactionPartitions",
    "transactionLastUpdateTimestampMs",
    "transactionStartTimestampMs",
    "clientTransactionVersion",
)


def _in_order(data: Row) -> Row:
    if "producerId" not in data:
        return data
    return {name: data[name] for name in _TRANSACTION_FIELDS if name in data}


def _json_line(kafka: Version, key: Row, value: Row | None) -> str:
    type_name = "type" if kafka >= (4, 0) else "version"
    shown: Row = {"key": {type_name: int(key["type"]), "data": key["data"]}, "value": None}
    if value is not None:
        data = _in_order(value["data"])
        if kafka < (4, 1):
            data = {name: each for name, each in data.items() if name not in _SINCE_4_1}
        shown["value"] = {"version": int(value["version"]), "data": data}
    text = _ENCODER.encode(shown)
    # Jackson writes the digits of a control character in upper case.
    return _ESCAPED.sub(lambda found: found[0] if len(found[0]) == 2 else "\\u" + found[0][2:].upper(), text)


# ---------------------------------------------------------------------------------------------------- which is meant

_OFFSETS, _GROUPS, _TRANSACTIONS = {"offset_commit"}, {"group_metadata"}, {"transaction_log"}
_JSON: Version = (3, 9)


class Lines:
    """Makes the lines of one formatter of one version of Kafka.  Immutable, so any thread may use it."""

    def __init__(self, formatter: Formatter, kafka: str | None = None) -> None:
        """Chooses the form of the lines.

        Args:
            formatter: the formatter, which decides which records are printed.
            kafka: the Kafka version whose lines to print, such as 2.8.2; 0.10 means the last release of 0.10.  None
                means the newest version, but 0.8.2 if the formatter is `old`.

        Raises:
            InvalidArgumentError: `kafka` is not a version, has no such formatter, or is given with `old`.
        """
        if formatter is Formatter.OLD and kafka is not None:
            raise InvalidArgumentError("--formatter old always prints as Kafka 0.8.2 does; omit --kafka")
        version = _OLD if formatter is Formatter.OLD else _parse_version(kafka or NEWEST)
        first: Version
        self._kafka = version
        if formatter is Formatter.TRANSACTIONS:
            self.topic, self.kinds, first = TRANSACTIONS_TOPIC, _TRANSACTIONS, (0, 11)
            self._form = _transactions_in_words(version)
        elif formatter is Formatter.GROUPS:
            self.topic, self.kinds, first = TOPIC, _GROUPS, (0, 9)
            self._form = _groups_in_words(version) if version >= (0, 11) else _groups_in_brackets(version)
        else:
            self.topic, self.kinds, first = TOPIC, _OFFSETS, _OLD
            self._form = _offsets_form(version)
        if version < first:
            raise InvalidArgumentError(
                f"Kafka {kafka} has no formatter for {formatter}; the first version with this formatter is "
                f"{'.'.join(map(str, first))}"
            )

    def of(self, record: Row) -> str | None:
        """Returns the text of a record of `dump_batches`, without a line end; None if the formatter skips the record.

        Metadata can contain line feeds.  The text contains them without escapes, as Kafka prints them.
        """
        if record["kind"] not in self.kinds:
            return None
        key, value = record["key"], record["value"]
        if self._kafka >= _JSON:
            return _json_line(self._kafka, key, value)
        return self._form(key["data"], None if value is None else value["data"])


def _offsets_form(version: Version) -> Form:
    if version >= (2, 1):
        return _offsets_2_1
    return _offsets_0_9 if version >= (0, 9) else _offsets_0_8_2


#: Greater than every number in a Kafka version.
_LAST = 1000


def _parse_version(text: str) -> Version:
    if not re.fullmatch(r"\d{1,3}(\.\d{1,3}){0,3}", text.strip()):
        raise InvalidArgumentError(f"{text!r} is not a Kafka version; write it as 0.10, 2.8.2 or 4.3")
    parts = [int(part) for part in text.strip().split(".")]
    # 0.10 means the last release of 0.10, and 2 the last release of 2.
    return tuple(parts + [_LAST] * (3 - len(parts)))
