def status_name(status: int) -> str: ...
def provoke(
    status: int,
    reason: str,
    path: str = "",
    position: int = -1,
    offset: int = -1,
    item: int = -1,
    errno: int = 0,
) -> int: ...
