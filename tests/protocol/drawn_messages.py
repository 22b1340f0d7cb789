"""Random messages of every class and version, of values that every codec accepts."""

from __future__ import annotations

import random
import string
from typing import Any

from offsetlog.protocol import Field, fields_of

RANGES = {"int8": 7, "int16": 15, "int32": 31, "int64": 63}
ERROR_CODES = (0, -1, 1, 3, 14, 15, 16, 22, 25, 27)


def in_version(field: Field, version: int) -> bool:
    return field.first_version <= version and (field.last_version is None or version <= field.last_version)


def may_be_null(field: Field, version: int) -> bool:
    return field.nullable_from is not None and version >= field.nullable_from


def drawn_one(field: Field, kind: str, version: int, draw: random.Random) -> Any:
    if kind == "struct":
        assert field.of_class
        return drawn(field.of_class, version, draw)
    if kind == "bool":
        return draw.random() < 0.5
    if kind == "string":
        return "".join(draw.choices(string.ascii_letters + "äπ🦄", k=draw.randrange(12)))
    if kind == "bytes":
        return draw.randbytes(draw.randrange(30))
    if kind == "uuid":
        return draw.randbytes(16)
    if field.name.endswith("error_code"):
        return draw.choice(ERROR_CODES)
    bits = RANGES[kind]
    # Codecs with types of their own for times take no negative ones, and none beyond year 9999.
    if field.name.endswith("_ms"):
        return draw.randrange(1 << min(bits, 40))
    return draw.choice((field.default or 0, -1, 0, draw.randrange(-(1 << bits), 1 << bits)))


def drawn_value(field: Field, version: int, draw: random.Random) -> Any:
    if may_be_null(field, version) and draw.random() < 0.25:
        return None
    if field.kind == "array":
        return tuple(drawn_one(field, field.element or "", version, draw) for _ in range(draw.randrange(4)))
    return drawn_one(field, field.kind, version, draw)


def drawn(kind: type[Any], version: int, draw: random.Random) -> Any:
    """A message, or a struct, with values in every field that the version has."""
    fields = [field for field in fields_of(kind.__name__) if in_version(field, version)]
    return kind(**{field.name: drawn_value(field, version, draw) for field in fields})
