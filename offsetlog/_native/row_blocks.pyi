from collections.abc import Sequence
from typing import Any, final

VIEWS: dict[str, tuple[str, ...]]

# Schemas are pyarrow's, which has no types.

def view_schema(view: str) -> Any: ...

@final
class RowBlock: ...

@final
class RowBlocks:
    def __init__(self, view: str, columns: Sequence[str] | None) -> None: ...
