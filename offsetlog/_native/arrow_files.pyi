from typing import Any, Self

from typing_extensions import disjoint_base

from offsetlog._native.files import FileSystem

READ_AHEAD_BYTES: int

def failure_text(failure: BaseException) -> str: ...

@disjoint_base
class ArrowFileSystem(FileSystem):
    # A pyarrow.fs.FileSystem, which has no types.
    files: Any
    def __new__(cls, files: Any) -> Self: ...
