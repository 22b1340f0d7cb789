"""Where each value of an encoded message stands, by the tables of fields of `offsetlog.protocol`."""

from __future__ import annotations

from typing import Any, NamedTuple

from offsetlog.protocol import Api, Field, fields_of
from tests.coordinator.golden import WIDTHS, take

#: The API whose answers have a header without tags, whatever their version.
API_VERSIONS = 18


class Span(NamedTuple):
    """One value: `kind` as templates name it, `path` without the places in arrays ("groups.members.member_id")."""

    path: str
    kind: str
    start: int
    end: int
    value: bytes | None


def in_version(field: Field, version: int) -> bool:
    return field.first_version <= version and (field.last_version is None or version <= field.last_version)


class _Reader:
    def __init__(self, data: bytes, version: int, *, is_flexible: bool) -> None:
        self.data = data
        self.version = version
        self.is_flexible = is_flexible
        self.at = 0
        self.spans: list[Span] = []

    def uvarint(self) -> int:
        number = shift = 0
        while True:
            byte = self.data[self.at]
            self.at += 1
            number |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return number

    def count(self) -> int:
        if self.is_flexible:
            return self.uvarint() - 1
        self.at += 4
        return int.from_bytes(self.data[self.at - 4 : self.at], "big", signed=True)

    def struct(self, name: str, prefix: str) -> None:
        tagged = {}
        for field in fields_of(name):
            if not in_version(field, self.version):
                continue
            if field.tag is not None and self.is_flexible:
                tagged[field.tag] = field
            elif field.tag is None:
                self.field(field, prefix + field.name)
        if self.is_flexible:
            self.tags(tagged, prefix)

    def tags(self, tagged: dict[int, Field], prefix: str) -> None:
        for _ in range(self.uvarint()):
            tag, size = self.uvarint(), self.uvarint()
            end = self.at + size
            if tag in tagged:
                self.field(tagged[tag], prefix + tagged[tag].name)
            assert tag not in tagged or self.at == end
            self.at = end

    def field(self, field: Field, path: str) -> None:
        if field.kind == "array":
            for _ in range(self.count()):
                self.value(field, field.element or "", path)
        else:
            self.value(field, field.kind, path)

    def value(self, field: Field, kind: str, path: str) -> None:
        if kind == "struct":
            if field.kind != "array" and field.nullable_from is not None and self.version >= field.nullable_from:
                self.at += 1
                if self.data[self.at - 1] == 0xFF:
                    return
            assert field.of_class is not None
            self.struct(field.of_class.__name__, f"{path}.")
            return
        if kind not in WIDTHS:
            kind = {"string": "str", "bytes": "bytes"}[kind]
            kind = f"c{kind}" if self.is_flexible else kind
        start = self.at
        found, self.at = take(kind, self.data, start)
        self.spans.append(Span(path, kind, start, self.at, found))


def _is_flexible(api: Api, version: int) -> bool:
    return api.flexible_from is not None and version >= api.flexible_from


def _spans(api: Api, kind: type[Any], version: int, frame: bytes, start: int) -> list[Span]:
    reader = _Reader(frame, version, is_flexible=_is_flexible(api, version))
    reader.at = start
    reader.struct(kind.__name__, "")
    assert reader.at == len(frame), f"{len(frame) - reader.at} bytes left over of {kind.__name__} {version}"
    return reader.spans


def response_start(api: Api, version: int) -> int:
    """Where the body of an answer begins."""
    return 5 if _is_flexible(api, version) and api.key != API_VERSIONS else 4


def spans_of_response(api: Api, version: int, frame: bytes) -> list[Span]:
    """The values of an answer, without those of its header."""
    return _spans(api, api.response, version, frame, response_start(api, version))


def spans_of_request(api: Api, version: int, frame: bytes) -> list[Span]:
    """The values of a request, without those of its header."""
    size = int.from_bytes(frame[8:10], "big", signed=True)
    start = 10 + max(size, 0) + (1 if _is_flexible(api, version) else 0)
    return _spans(api, api.request, version, frame, start)
