"""The error of an answer, wherever in it that stands."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from offsetlog.protocol import APIS, fields_of

_ERROR = "error_code"

#: Returns the first error in a message of one class, 0 for none.
_Finder = Callable[[Any], int]


def _finder(name: str) -> _Finder | None:
    # Made of the table of fields: None where no error can be in the message.
    own = None
    inner: list[tuple[int, bool, _Finder]] = []
    for index, field in enumerate(fields_of(name)):
        if field.name == _ERROR:
            own = index
        elif field.of_class is not None:
            found = _finder(field.of_class.__name__)
            if found is not None:
                inner.append((index, field.kind == "array", found))
    if own is None and not inner:
        return None

    def first(message: Any) -> int:
        if own is not None and message[own]:
            return int(message[own])
        for index, is_array, found in inner:
            value = message[index]
            for each in (value or ()) if is_array else (value,):
                error = 0 if each is None else found(each)
                if error:
                    return error
        return 0

    return first


_FINDERS = {
    api.response: found
    for api in APIS.values()
    if (found := _finder(api.response.__name__)) is not None
}


def first_error(message: Any) -> int:
    """Returns the code of the first error in an answer, 0 for none; None is an answer without one."""
    found = _FINDERS.get(type(message))
    return 0 if found is None else found(message)
