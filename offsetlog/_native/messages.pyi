from typing import Any, NamedTuple, TypeVar

from typing_extensions import Buffer

_M = TypeVar("_M")

VALUES_MAX: int
MESSAGE_BYTES_MAX: int

class Api(NamedTuple):
    key: int
    name: str
    first_version: int
    last_version: int
    advertised_from: int
    flexible_from: int | None
    request: type[Any]
    response: type[Any]

class Field(NamedTuple):
    name: str
    kind: str
    element: str | None
    first_version: int
    last_version: int | None
    nullable_from: int | None
    tag: int | None
    default: Any
    of_class: type[Any] | None

class Request(NamedTuple):
    api_key: int
    api_version: int
    correlation_id: int
    client_id: str | None
    message: Any

APIS: dict[int, Api]
CLASSES: dict[str, type[Any]]

def fields_of(name: str) -> list[Field]: ...
def decode(kind: type[_M], version: int, data: Buffer, start: int = 0) -> tuple[_M, int]: ...
def encode(message: Any, version: int) -> bytes: ...
def decode_request(frame: Buffer) -> Request: ...
def encode_request(message: Any, version: int, correlation_id: int, client_id: str | None = None) -> bytes: ...
def encode_response(message: Any, version: int, correlation_id: int) -> bytes: ...
def decode_response(kind: type[_M], version: int, frame: Buffer) -> tuple[int, _M]: ...
