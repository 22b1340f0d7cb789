from typing import Self, final

NAMES: dict[int, str]

def inflate(codec: int, source: bytes, limit: int, magic: int = 2) -> bytes: ...

@final
class Decompressor:
    def __new__(cls, limit: int = ...) -> Self: ...
