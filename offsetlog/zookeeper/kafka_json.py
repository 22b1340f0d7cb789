"""The JSON of Kafka's nodes.

Nodes are read with limits, and each error names the path of the node.  The fields of a node are written in Kafka's
order.  Kafka writes the maps of Scala 2.13 in the order of their hash tables.  Readers must not depend on this order,
but a node should have the same bytes whether Kafka or offsetlog writes it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any, NoReturn

from offsetlog.errors import CorruptionError, InvalidArgumentError

#: More than any node of Kafka needs.  With the default `jute.maxbuffer`, ZooKeeper keeps at most 1 MiB in a node.
RECORD_BYTES_MAX = 4 << 20
INT_MAX = 2**31 - 1
LONG_MAX = 2**63 - 1

_SURROGATE = re.compile("[\ud800-\udfff]")

#: Up to this size, an immutable map of Scala keeps the order in which it was created.
_IN_ORDER_MAX = 4


class Fields:
    """A JSON object in a node, whose fields are read one by one.

    Args:
        values: the fields.
        node: the path of the node, for errors.
    """

    def __init__(self, values: Mapping[str, Any], node: str) -> None:
        self.values = values
        self.node = node

    @classmethod
    def parse(cls, data: bytes | None, node: str) -> Fields:
        """Reads the bytes of a node.

        Raises:
            CorruptionError: the bytes are not a JSON object, or there are too many bytes; `path` names the node.
        """
        if data is None:
            raise corrupt("the node is empty, but must hold JSON", node)
        if len(data) > RECORD_BYTES_MAX:
            raise corrupt(f"the node has {len(data)} bytes; the limit is {RECORD_BYTES_MAX}", node)
        try:
            values = json.loads(data.decode(), parse_constant=_refuse_constant)
        except (ValueError, RecursionError):
            raise corrupt(f"the node must hold JSON, not {data[:60]!r}", node) from None
        if not isinstance(values, dict):
            raise corrupt(f"the node must hold a JSON object, not {data[:60]!r}", node)
        return cls(values, node)

    def has(self, name: str) -> bool:
        """Whether a field exists and is not null."""
        return self.values.get(name) is not None

    def integer(self, name: str, low: int = 0, high: int = INT_MAX, default: int | None = None) -> int:
        """Returns a number.  Raises CorruptionError if it is out of bounds, or if it is missing and has no default."""
        value = self._value(name, default)
        return self._checked_integer(value, f"the field {name!r}", low, high)

    def text(self, name: str) -> str:
        """Returns a string.  Raises CorruptionError if the field is missing or is not a valid string."""
        value = self._value(name)
        if not isinstance(value, str):
            raise corrupt(f"the field {name!r} must be a string, not {_shown(value)}", self.node)
        return self._encodable(value, name)

    def number_in_text(self, name: str, default: int | None = None) -> int:
        """Returns a number that is stored as a string or as a number.  Raises the errors of `integer`."""
        value = self._value(name, default)
        if isinstance(value, str) and value.isascii() and value.removeprefix("-").isdecimal() and len(value) < 20:
            value = int(value)
        return self._checked_integer(value, f"the field {name!r}", -1, LONG_MAX)

    def objects(self, name: str) -> Fields:
        """Returns an object, or an empty object if the field is missing.  Raises CorruptionError for anything else."""
        value = self._value(name, {})
        if not isinstance(value, dict):
            raise corrupt(f"the field {name!r} must be an object, not {_shown(value)}", self.node)
        return Fields(value, self.node)

    def integers(self, name: str, default: list[int] | None = None) -> tuple[int, ...]:
        """Returns a list of numbers that are not negative, such as broker ids.  Raises the errors of `integer`."""
        values = self._list(name, default)
        return tuple(self._checked_integer(each, f"the field {name!r}", 0, INT_MAX) for each in values)

    def texts(self, name: str) -> tuple[str, ...]:
        """Returns a list of strings; raises CorruptionError for anything else."""
        values = self._list(name, None)
        for each in values:
            if not isinstance(each, str):
                raise corrupt(f"the field {name!r} must hold strings, not {_shown(each)}", self.node)
        return tuple(self._encodable(each, name) for each in values)

    def _encodable(self, text: str, name: str) -> str:
        # JSON can escape half of a surrogate pair.  Such a text can be neither printed nor written again.
        if _SURROGATE.search(text):
            raise corrupt(f"the field {name!r} has half a surrogate pair in {_shown(text)}", self.node)
        return text

    def _list(self, name: str, default: list[int] | None) -> list[Any]:
        values = self._value(name, default)
        if not isinstance(values, list):
            raise corrupt(f"the field {name!r} must be a list, not {_shown(values)}", self.node)
        return values

    def _value(self, name: str, default: Any = None) -> Any:
        value = self.values.get(name)
        if value is None:
            if default is None:
                raise corrupt(f"the JSON has no field {name!r}", self.node)
            return default
        return value

    def _checked_integer(self, value: Any, where: str, low: int, high: int) -> int:
        if not isinstance(value, int) or isinstance(value, bool) or not low <= value <= high:
            raise corrupt(f"{where} must be a number from {low} to {high}, not {_shown(value)}", self.node)
        return value


def corrupt(text: str, node: str) -> CorruptionError:
    """Creates the CorruptionError of a node."""
    return CorruptionError(text, path=node)


def written(fields: Mapping[str, Any]) -> bytes:
    """Returns a JSON object in UTF-8, with its fields in the given order.

    Raises:
        InvalidArgumentError: a text in the object is not UTF-8.
    """
    text = json.dumps(fields, separators=(",", ":"), ensure_ascii=False)
    try:
        return text.encode()
    except UnicodeEncodeError as failure:
        shown = text[max(0, failure.start - 20) : failure.end + 20]
        raise InvalidArgumentError(f"a node cannot hold text that is not UTF-8: {shown!r}") from None


def mutable_map(entries: Iterable[tuple[str, Any]], buckets: int = 16) -> dict[str, Any]:
    """Returns the entries in the order of a mutable map of Scala 2.13 that begins with `buckets` buckets."""
    given = dict(entries)
    size = 0
    for size in range(1, len(given) + 1):
        if 4 * size >= 3 * buckets:
            buckets *= 2

    # Within a bucket, entries are in the order of their hash, as a signed number.
    def place(name: str) -> tuple[int, int]:
        code = _java_hash(name)
        code ^= code >> 16
        return code & (buckets - 1), code ^ 2**31

    return {name: given[name] for name in sorted(given, key=place)}


def immutable_map(entries: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    """Returns the entries in the order that an immutable map of Scala 2.13 has.

    Up to four entries keep the given order.  More entries have the order of a trie of their hashes.
    """
    given = dict(entries)
    if len(given) <= _IN_ORDER_MAX:
        return given
    return {name: given[name] for name in _trie(list(given), 0)}


def _trie(names: list[str], shift: int) -> list[str]:
    if shift > 30:  # equal hashes keep the given order
        return names
    groups: dict[int, list[str]] = {}
    for name in names:
        groups.setdefault((_trie_hash(name) >> shift) & 31, []).append(name)
    # Each level has its own entries before those of the levels below.
    ordered = [groups[mask] for mask in sorted(groups)]
    own = [group[0] for group in ordered if len(group) == 1]
    return own + [name for group in ordered if len(group) > 1 for name in _trie(group, shift + 5)]


def _trie_hash(name: str) -> int:
    """Returns the hash by which Scala's immutable maps place a string."""
    code = _java_hash(name)
    code = (code + ~(code << 9)) & 0xFFFFFFFF
    code ^= code >> 14
    code = (code + (code << 4)) & 0xFFFFFFFF
    return code ^ code >> 10


def _java_hash(name: str) -> int:
    """Returns Java's hash of a string, 32 bits without a sign."""
    value = 0
    units = name.encode("utf-16-be", "surrogatepass")
    for high, low in zip(units[::2], units[1::2], strict=True):
        value = (31 * value + (high << 8 | low)) & 0xFFFFFFFF
    return value


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


def _shown(value: Any) -> str:
    if isinstance(value, int) and value.bit_length() > 64:
        return "a number of more than 64 bits"
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:60]}..."
