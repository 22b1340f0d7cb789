"""Our keys and values in the words of Kafka's older dump tools.

Those words cannot be taken apart without guessing ("offset::a:b:c:0": which part is the group?), so what is expected
is put into the same words and the two texts are compared.
"""

from __future__ import annotations

import base64
import re
import struct
from typing import Any

from .oracle_records import java_text

_REPLACED = re.compile("\ufffd+")


def raw(key: bytes | None, value: bytes | None) -> str:
    """Bytes printed as a Java String (up to 1.1.1 without decoder).

    How many U+FFFD stand for a malformed sequence differs between decoders: a run of them counts as one, see
    `squeezed`. A tombstone is printed as null by 0.8.2.2, see `printed_nothing` for the others.
    """
    return f" key: {java_text(key or b'')} payload: {'null' if value is None else java_text(value)}"


def printed_nothing(value: bytes | None, content: str) -> bool:
    """From 0.9.0.1 to 1.1.1 the tool prints neither key nor value of a tombstone."""
    return value is None and content == ""


def squeezed(text: str) -> str:
    """The text with every run of U+FFFD as one."""
    return _REPLACED.sub("\ufffd", text)


def words_up_to_1_1(key: dict[str, Any], value: dict[str, Any]) -> str | None:
    """An offset commit in the words of the decoders of 0.9.0.1 to 1.1.1; None for other records."""
    if key["type"] not in ("0", "1"):
        return None
    name, body = key["data"], value["data"]
    metadata = f":{body['metadata']}" if body["metadata"] else ""
    return f" key: offset::{name['group']}:{name['topic']}:{name['partition']} payload: {body['offset']}{metadata}"


def words_2_8(key: dict[str, Any], value: dict[str, Any] | None) -> str | None:
    """An offset commit in the words of the decoder of 2.8.2; None for other records.

    That version prints no leader epoch and no times.
    """
    if key["type"] not in ("0", "1"):
        return None
    name = key["data"]
    prefix = f" key: offset_commit::group={name['group']},partition={name['topic']}-{name['partition']} payload: "
    if value is None:
        return prefix + "<DELETE>"
    body = value["data"]
    metadata = f",metadata={body['metadata']}" if body["metadata"] else ""
    return f"{prefix}offset={body['offset']}{metadata}"


def opened(value: dict[str, Any] | None) -> dict[str, Any] | None:
    """A value with the subscriptions and assignments of "consumer" members as objects, as Kafka's dump tool shows them.

    Kafka's formatter, and its dump tool for other protocol types, leave them base64.  Other values come back as they
    are.
    """
    if value is None or value["data"].get("protocolType") != "consumer" or "members" not in value["data"]:
        return value
    members = [
        each
        | {
            "subscription": _subscription(each["subscription"]),
            "assignment": _assignment(each["assignment"]),
        }
        for each in value["data"]["members"]
    ]
    return value | {"data": value["data"] | {"members": members}}


class _Cursor:
    def __init__(self, data: bytes) -> None:
        self.data, self.at = data, 0

    def number(self, form: str) -> int:
        self.at += struct.calcsize(">" + form)
        return int(struct.unpack_from(">" + form, self.data, self.at - struct.calcsize(">" + form))[0])

    def sized(self, size: int) -> bytes | None:
        if size < 0:
            return None
        self.at += size
        return self.data[self.at - size : self.at]

    def text(self) -> str | None:
        data = self.sized(self.number("h"))
        return None if data is None else java_text(data)

    def blob(self) -> str | None:
        data = self.sized(self.number("i"))
        return None if data is None else base64.b64encode(data).decode("ascii")

    def topics(self) -> list[dict[str, Any]]:
        return [
            {"topic": self.text(), "partitions": [self.number("i") for _ in range(self.number("i"))]}
            for _ in range(self.number("i"))
        ]


def _subscription(blob: Any) -> Any:
    if not isinstance(blob, str) or not blob:
        return blob
    cursor = _Cursor(base64.b64decode(blob))
    version = cursor.number("h")
    body: dict[str, Any] = {"topics": [cursor.text() for _ in range(cursor.number("i"))], "userData": cursor.blob()}
    if version >= 1:
        body["ownedPartitions"] = cursor.topics()
    if version >= 2:
        body["generationId"] = cursor.number("i")
    if version >= 3:
        body["rackId"] = cursor.text()
    return body


def _assignment(blob: Any) -> Any:
    if not isinstance(blob, str) or not blob:
        return blob
    cursor = _Cursor(base64.b64decode(blob))
    cursor.number("h")
    return {"assignedPartitions": cursor.topics(), "userData": cursor.blob()}
