"""Converts values to text in one line.

Values from a log can hold any character.  Control characters are escaped everywhere, so that a name can neither move
the cursor nor end a line; letters of any language are printed as they are.
"""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime, timedelta
from typing import Any

# C0, DEL, C1, line and paragraph separators, characters that change the direction of text, and surrogates.
_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
_SHORT = {"\t": "\\t", "\n": "\\n", "\r": "\\r"}
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC).replace(tzinfo=None)


_ENCODER = json.JSONEncoder(ensure_ascii=False, separators=(", ", ": "))
_ASCII_ENCODER = json.JSONEncoder()


def escape(text: str) -> str:
    r"""Returns the text with control characters as \t, \n, \r, \xNN or \uNNNN."""
    # Nearly all names are printable, and that check is fast.
    return text if text.isprintable() else _CONTROL.sub(_escaped, text)


def _escaped(match: re.Match[str]) -> str:
    character = match[0]
    code = ord(character)
    return _SHORT.get(character) or (f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}")


def name_text(name: str) -> str:
    """Returns a name as text for a sentence; the empty name, which a group may have, becomes two quotes."""
    return escape(name) or '""'


def time_text(timestamp_ms: int | None) -> str:
    """Returns a time in UTC, "-" if there is no time, or the number as text if the time is outside the calendar."""
    if timestamp_ms is None or timestamp_ms == -1:
        return "-"
    try:
        moment = _EPOCH + timedelta(milliseconds=timestamp_ms)
    except OverflowError:
        return str(timestamp_ms)
    return moment.isoformat(" ", "milliseconds")


def json_text(value: Any) -> str:
    """Returns JSON in one line; control characters are escaped even if JSON does not require it."""
    text = _ENCODER.encode(value)
    # Nearly every text is printable, and that check is fast.
    return text if text.isprintable() else _CONTROL.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


def ascii_json_text(value: Any) -> str:
    """Returns JSON in one line, in ASCII."""
    return _ASCII_ENCODER.encode(value)


def plain(value: Any) -> str:
    """Returns any value as text in one line; lists and objects are written as JSON."""
    kind = type(value)
    if kind is int:
        return str(value)
    if kind is str:
        return escape(value)
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, str):
        return escape(value)
    return json_text(value) if isinstance(value, (dict, list)) else str(value)
