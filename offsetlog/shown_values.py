"""Shows a caller's values in messages.

The text has a limited length, and never shows a whole object, which may hold a secret.
"""

from __future__ import annotations

_CHARACTERS_MAX = 300
#: A larger number is not shown: its digits are unreadable, and Python refuses to print some thousand of them.
_NUMBER_MAX = 10**40


def shown(value: object) -> str:
    """Returns a number, a text or a tuple of two values as a message shows it; the type of any other value."""
    if isinstance(value, tuple) and len(value) == 2:
        return f"({_part(value[0])}, {_part(value[1])})"
    return _part(value)


def shown_key(topic: object, partition: object) -> str:
    """Returns a topic and its partition in the form in which messages show them: `orders:3`."""
    return f"{_name(topic)}:{_name(partition)}"


def _part(value: object) -> str:
    if isinstance(value, int) and abs(value) >= _NUMBER_MAX:
        return f"a number of {value.bit_length()} bits"
    if value is None or isinstance(value, str | bytes | int | float):
        return _shortened(repr(value))
    if isinstance(value, tuple):
        return f"a tuple of {len(value)}"
    return type(value).__name__


def _name(value: object) -> str:
    return _shortened(value) if isinstance(value, str) and value.isprintable() and value else _part(value)


def _shortened(text: str) -> str:
    return text if len(text) <= _CHARACTERS_MAX else text[:_CHARACTERS_MAX] + "..."
