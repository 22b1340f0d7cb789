"""Every message of every version against two codecs that were written without this one: kio, and that of kafka-python.

They read our bytes, value by value the same, and write them again as the same bytes; we read these back as the values
we had.
"""

from __future__ import annotations

import importlib
import io
import random
import re
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

import pytest
from kafka.protocol import admin, consumer, metadata, producer
from kio.serial import entity_reader, entity_writer

from offsetlog.protocol import APIS, Field, decode, encode, fields_of
from tests.depth import first_seed

from .drawn_messages import drawn, in_version

ROUNDS = 12
#: Operations that the request did not ask for.
NOT_ASKED_FOR = -(1 << 31)

#: Every message in every version that clients are advised of.
CASES = [
    pytest.param(kind, version, id=f"{kind.__name__}-{version}")
    for api in APIS.values()
    for kind in (api.request, api.response)
    for version in range(api.advertised_from, api.last_version + 1)
]


def messages(kind: type[Any], version: int) -> list[Any]:
    seed = first_seed(1400) + version
    print(f"seed {seed}")
    draw = random.Random(f"{seed} {kind.__name__}")
    return [drawn(kind, version, draw) for _ in range(ROUNDS)]


def plain(value: Any) -> Any:
    """A value of another codec as ours."""
    if isinstance(value, timedelta):
        return round(value.total_seconds() * 1000)
    if isinstance(value, datetime):
        return round(value.timestamp() * 1000)
    if isinstance(value, UUID):
        return value.bytes
    return value


def theirs(message: Any, name: str) -> Any:
    """The field of another codec's message.

    kio leaves the unit of a time away, and kafka-python whose operations they are.
    """
    name = name.rstrip("_")
    short = re.sub(r"^(topic|cluster)_(?=authorized)", "", name.removesuffix("_ms"))
    return getattr(message, name if hasattr(message, name) else short)


def bits(number: int) -> set[int]:
    return {bit for bit in range(32) if number >> bit & 1}


def assert_same_value(ours: Any, other: Any, field: Field, version: int) -> None:
    if field.kind == "struct" and ours is not None:
        # A tag that is not there is a struct of defaults, or none.
        if other is None:
            assert ours == field.default
        else:
            assert_same(ours, other, version)
    elif field.of_class and ours is not None:
        assert len(ours) == len(other)
        for one, another in zip(ours, other, strict=True):
            assert_same(one, another, version)
    elif field.name.endswith("authorized_operations") and not isinstance(other, int):
        assert (None if ours == NOT_ASKED_FOR else bits(ours)) == other
    elif field.kind == "uuid":
        assert ours == (plain(other) or bytes(16))
    else:
        assert ours == (tuple(other) if isinstance(other, list) else plain(other))


def assert_same(ours: Any, other: Any, version: int) -> None:
    for field in fields_of(type(ours).__name__):
        if in_version(field, version):
            assert_same_value(getattr(ours, field.name), theirs(other, field.name), field, version)


@pytest.mark.parametrize(("kind", "version"), CASES)
def test_kio(kind, version):
    api, side = re.fullmatch(r"(\w+)(Request|Response)", kind.__name__).groups()
    package = re.sub(r"(?<!^)(?=[A-Z])", "_", api).lower()
    other = getattr(importlib.import_module(f"kio.schema.{package}.v{version}.{side.lower()}"), kind.__name__)
    for message in messages(kind, version):
        written = encode(message, version)
        read, size = entity_reader(other)(written, 0)
        assert size == len(written)
        assert_same(message, read, version)
        again = io.BytesIO()
        entity_writer(other)(again, read)
        assert again.getvalue() == written
        assert decode(kind, version, written) == (message, len(written))


KAFKA_PYTHON = {name: found for module in (admin, consumer, metadata, producer) for name, found in vars(module).items()}


@pytest.mark.parametrize(("kind", "version"), CASES)
def test_kafka_python(kind, version):
    other = KAFKA_PYTHON[kind.__name__]
    for message in messages(kind, version):
        if getattr(message, "error_code", 0) and kind is APIS[18].response:
            continue  # of which it reads version 0, whatever was asked for
        written = encode(message, version)
        read = other.decode(written, version=version)
        assert_same(message, read, version)
        read._header = None
        assert read.encode(version=version) == written
