from typing import final

BOUNDS: tuple[float, ...]

@final
class Histogram:
    @property
    def seconds(self) -> float: ...
    def observe(self, seconds: float, times: int = 1) -> None: ...
    def cumulative(self) -> list[tuple[float, int]]: ...
