"""Arrays that Kafka orders by a hash map, or that hold more than a case has made, in a form that can be compared.

A step lists them under `arrays`: {"path": "groups.members", "key": "client_id", "prefix": "g<S>"}.  The elements whose
key begins with the prefix are kept and sorted by the key; without a key the array is left out.
"""

from __future__ import annotations

from typing import Any

from offsetlog.protocol import Api, decode_response, encode_response


def ordered(api: Api, version: int, frame: bytes, arrays: list[dict[str, str]], suffix: bytes) -> bytes:
    """The answer with its listed arrays in order.

    Raises AssertionError where the answer is not what its own message is written as: only an order may differ.
    """
    correlation_id, message = decode_response(api.response, version, frame)
    assert encode_response(message, version, correlation_id)[4:] == frame, f"another form of {message}"
    for each in arrays:
        prefix = each.get("prefix", "").replace("<S>", suffix.decode())
        message = _ordered(message, each["path"].split("."), each.get("key"), prefix)
    return encode_response(message, version, correlation_id)[4:]


def _ordered(message: Any, path: list[str], key: str | None, prefix: str) -> Any:
    values = getattr(message, path[0])
    if values is None:
        return message
    if len(path) > 1:
        kept = tuple(_ordered(each, path[1:], key, prefix) for each in values)
    elif key is None:
        kept = ()
    else:
        found = [each for each in values if not prefix or getattr(each, key).startswith(prefix)]
        kept = tuple(sorted(found, key=lambda each: (getattr(each, key) is not None, getattr(each, key))))
    return message._replace(**{path[0]: kept})
