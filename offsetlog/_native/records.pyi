from os import PathLike
from types import TracebackType
from typing import Any, Self

from typing_extensions import disjoint_base

from offsetlog._native.decompress import Decompressor
from offsetlog._native.files import FileSystem

CODECS: tuple[str, ...]
KEY_TYPE_MAX: int
KINDS: dict[int, str]
TRANSACTION_KIND: str

def decode_key(key: bytes) -> dict[str, Any] | None: ...
def decode_value(key_type: int, value: bytes) -> dict[str, Any]: ...
def decode_subscription(value: bytes) -> dict[str, Any]: ...

@disjoint_base
class SegmentReader:
    path: str
    def __init__(
        self,
        path: str | bytes | PathLike[str],
        file_system: FileSystem | None = ...,
        decompressor: Decompressor | None = ...,
        *,
        transactions: bool = ...,
    ) -> None: ...
    def __enter__(self) -> Self: ...
    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None
    ) -> None: ...
    def close(self) -> None: ...
    @property
    def position(self) -> int: ...
    @property
    def size(self) -> int: ...
    def read(self) -> tuple[dict[str, Any], list[dict[str, Any]]] | None: ...
    def read_again(self, position: int) -> None: ...
    def skip(self) -> bool: ...
