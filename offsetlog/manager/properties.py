"""Reads the properties of a broker; each is given as text or as a value of its own type."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

from offsetlog.errors import ConfigError

#: A property as text, or as the value itself.
Setting = str | int | float | bool


def number(name: str, value: Setting) -> int:
    """Returns a whole number.  Raises ConfigError with the name of the property."""
    try:
        if isinstance(value, float) and not value.is_integer():
            raise ValueError
        return int(value)
    except (TypeError, ValueError, OverflowError):
        raise ConfigError(f"{name} must be a whole number, not {value!r}") from None


def real(name: str, value: Setting) -> float:
    """Returns a number.  Raises ConfigError with the name of the property."""
    try:
        return float(value)
    except (TypeError, ValueError):
        raise ConfigError(f"{name} must be a number, not {value!r}") from None


def path(name: str, value: Setting) -> Path:
    """Returns a directory.  Raises ConfigError with the name of the property."""
    # Otherwise an unset variable would create a directory "None", or use the broker's working
    # directory.
    if not isinstance(value, str | Path) or not str(value):
        raise ConfigError(f"{name} must be a directory, not {value!r}")
    return Path(value)


def choice(**meanings: Any) -> Callable[[str, Setting], Any]:
    """Returns a function that reads a property whose value must be the name of a keyword argument.

    The function returns the value of that argument.
    """

    def read(name: str, value: Setting) -> Any:
        if value not in meanings:
            raise ConfigError(f"{name} must be {' or '.join(meanings)}, not {value!r}")
        return meanings[str(value)]

    return read


def flag(name: str, value: Setting) -> bool:
    """Returns a boolean.  Raises ConfigError with the name of the property."""
    if isinstance(value, bool):
        return value
    return cast(bool, choice(true=True, false=False)(name, str(value).lower()))


def seconds(name: str, value: Setting) -> float:
    """Converts a number of milliseconds to seconds.  Raises ConfigError with the name of the property."""
    return number(name, value) / 1000


def retention(name: str, value: Setting) -> int | None:
    """Converts minutes to milliseconds; returns None for a negative number.

    Raises ConfigError with the name of the property.
    """
    minutes = number(name, value)
    return None if minutes < 0 else minutes * 60_000
