"""Finds the error in an answer, and makes answers that refuse a request with an error."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from offsetlog.protocol import APIS, Field, Request, fields_of

_ERROR = "error_code"

#: Returns the code of the first error in a message of one class; 0 for none.
_Finder = Callable[[Any], int]


def _finder(name: str) -> _Finder | None:
    # Built from the table of fields; None if no message of the class can hold an error.
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
    """Returns the code of the first error in an answer; 0 if the answer is None or has no error."""
    found = _FINDERS.get(type(message))
    return 0 if found is None else found(message)


# ------------------------------------------------------------------------------------------- refusals

#: The response's own error is that of a fetch session, and clients treat it as such.
_EACH_ALONE = frozenset({"FetchResponse"})
#: Fields that are -1 in an answer with an error, although the tables give them another default.
_UNKNOWN = frozenset({"base_offset", "committed_offset", "high_watermark", "node_id", "port"})


def error_answer(request: Request, code: int) -> Any:
    """Makes the answer that refuses every part of a request with the same error.

    The tables of fields say where an answer of this version holds its error: in one field for the
    whole request, or in each entry (a partition, group or key).  Entries keep the order of the
    request.
    """
    return _refused(APIS[request.api_key].response, request.message, request.api_version, code)


def _refused(kind: type[Any], asked: Any, version: int, code: int) -> Any:
    fields = list(_fields(kind.__name__, version))
    filled: dict[str, Any] = {each.name: -1 for each in fields if each.name in _UNKNOWN}
    filled.update(_key(fields, asked, version))
    has_own = any(each.name == _ERROR for each in fields)
    if has_own and kind.__name__ not in _EACH_ALONE:
        return kind(**filled, **{_ERROR: code})
    (inner,) = (each for each in fields if each.kind == "array" and _has_errors(each))
    assert inner.of_class is not None
    filled[inner.name] = tuple(
        _refused(inner.of_class, each, version, code) for each in _asked_for(asked, version)
    )
    return kind(**filled)


def _fields(name: str, version: int) -> Iterator[Field]:
    for each in fields_of(name):
        is_over = each.last_version is not None and each.last_version < version
        if each.first_version <= version and not is_over:
            yield each


def _has_errors(field: Field) -> bool:
    return field.of_class is not None and _finder(field.of_class.__name__) is not None


def _asked_for(asked: Any, version: int) -> tuple[Any, ...]:
    # The first array of a request, or of a topic in it, holds the requested entries.
    arrays = (each for each in _fields(type(asked).__name__, version) if each.kind == "array")
    return tuple(getattr(asked, next(arrays).name) or ())


def _key(fields: list[Field], asked: Any, version: int) -> dict[str, Any]:
    # The fields that identify an element of an answer: a partition's number, a name or an id.
    if type(asked) in _REQUESTS:
        return {}
    names = [each.name for each in fields]
    place = next(each for each in names if not each.startswith("error_"))
    if not isinstance(asked, tuple):
        return {place: asked}
    own = list(_fields(type(asked).__name__, version))
    ids = (each.name for each in own if each.kind == "uuid" and each.name in names)
    found = {each: getattr(asked, each) for each in ids}
    if own[0].kind != "uuid":
        found[place] = getattr(asked, own[0].name)
    return found


_REQUESTS = frozenset(api.request for api in APIS.values())
