"""Recorded answers of Kafka 4.3.0, and how they are compared: hex with holes.

`<S>` is the run's suffix, 8 ASCII bytes; `<M=kind>` takes a value under a name, `<M:kind>` puts it
back, `<*kind>` is any value of the kind.
"""

from __future__ import annotations

import json
import re
import struct
from pathlib import Path
from typing import Any

DATA = Path(__file__).parent.parent / "data" / "wire"
HOLE = re.compile(r"<([^>]+)>")
WIDTHS = {"int8": 1, "bool": 1, "int16": 2, "uint16": 2, "int32": 4, "int64": 8, "uuid": 16}


def scenarios(name: str) -> list[dict[str, Any]]:
    """The recorded cases of one file."""
    return json.loads((DATA / f"{name}.json").read_text())["scenarios"]


def uvarint(number: int) -> bytes:
    out = bytearray()
    while number >= 0x80:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*out, number])


def put(kind: str, value: bytes | None) -> bytes:
    """A value as the wire has it."""
    if kind == "str":
        return struct.pack(">h", -1) if value is None else struct.pack(">h", len(value)) + value
    if kind == "cstr":
        return b"\0" if value is None else uvarint(len(value) + 1) + value
    assert value is not None
    assert len(value) == WIDTHS[kind]
    return value


def take(kind: str, data: bytes, at: int) -> tuple[bytes | None, int]:
    """The value that begins at a place, and where it ends."""
    if kind in WIDTHS:
        size = WIDTHS[kind]
    elif kind in ("str", "bytes"):
        form, width = (">h", 2) if kind == "str" else (">i", 4)
        (size,) = struct.unpack_from(form, data, at)
        at += width
    else:
        size = shift = 0
        while True:
            byte = data[at]
            at += 1
            size |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                break
        size -= 1
    if size < 0:
        return None, at
    assert at + size <= len(data), "the answer is cut"
    return data[at : at + size], at + size


def parts(text: str) -> list[bytes | str]:
    """The bytes of a template, and its holes."""
    split = HOLE.split(text)
    return [bytes.fromhex(each) if i % 2 == 0 else each for i, each in enumerate(split)]


def render(text: str, values: dict[str, bytes | None]) -> bytes:
    """The bytes of a request."""
    out = b""
    for part in parts(text):
        if isinstance(part, bytes):
            out += part
        elif part == "S":
            out += values["S"] or b""
        else:
            name, kind = part.split(":")
            out += put(kind, values[name])
    return out


def assert_matches(text: str, got: bytes, values: dict[str, bytes | None]) -> None:
    """An answer is as recorded; what its holes take goes into `values`."""
    at = 0
    for part in parts(text):
        if isinstance(part, str) and part[0] == "*":
            _, at = take(part[1:], got, at)
        elif isinstance(part, str) and "=" in part:
            name, kind = part.split("=")
            values[name], at = take(kind, got, at)
        else:
            wanted = part if isinstance(part, bytes) else render(f"<{part}>", values)
            found = got[at : at + len(wanted)]
            assert found == wanted, f"byte {at}: {found.hex()}, and Kafka has {wanted.hex()}"
            at += len(wanted)
    assert at == len(got), f"{len(got) - at} bytes more than Kafka has"
