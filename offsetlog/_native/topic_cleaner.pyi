from typing import Any

from offsetlog._native.cleaner import CleanControl
from offsetlog._native.topic_log import TopicLog
from offsetlog.errors import OffsetLogError

def clean_topic(
    log: TopicLog,
    control: CleanControl,
    *,
    now_ms: int,
    first_dirty: int = -1,
    end_max: int = ...,
    delete_retention_ms: int = 86_400_000,
    map_bytes: int = ...,
    bytes_per_second: int = 0,
) -> tuple[dict[str, Any], OffsetLogError | None]: ...
def segments_of(log: TopicLog) -> list[tuple[int, int]]: ...
def segment_times(log: TopicLog, base_offset: int) -> tuple[int, int]: ...
