"""The log of a long-running program: lines of text, or one JSON object per line."""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import IO, Any, Literal

from offsetlog.cli.text import ascii_json_text, escape

Form = Literal["text", "json"]
Level = Literal["debug", "info", "warning", "error"]

#: The attributes of every record; all others are fields that the log call passed as `extra=`.
_COMMON = {*vars(logging.makeLogRecord({})), "message", "asctime", "taskName"}


def _time(record: logging.LogRecord) -> str:
    moment = datetime.fromtimestamp(record.created, UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


class TextLines(logging.Formatter):
    """Time, level, logger and message in one line; a traceback follows on separate lines."""

    def format(self, record: logging.LogRecord) -> str:
        """See logging.Formatter."""
        line = f"{_time(record)} {record.levelname} {record.name}: {escape(record.getMessage())}"
        if record.exc_info:
            line += "\n" + self.formatException(record.exc_info)
        return line


class JsonLines(logging.Formatter):
    """One JSON object per line: time, level, logger, message, fields, and the exception if there is one.

    Each line is ASCII, so that no name can end the line or change the rest of it.
    """

    def format(self, record: logging.LogRecord) -> str:
        """See logging.Formatter."""
        row: dict[str, Any] = {
            "time": _time(record),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            "fields": {
                name: value if isinstance(value, int | float | bool | None) else str(value)
                for name, value in vars(record).items()
                if name not in _COMMON
            },
        }
        if record.exc_info:
            row["exception"] = self.formatException(record.exc_info)
        return ascii_json_text(row)


@contextmanager
def log_lines(form: Form, level: Level, stream: IO[str] | None = None) -> Iterator[None]:
    """Within the context, sends everything that this program logs to a stream instead of the library's own handlers.

    Args:
        form: the format of the lines.
        level: the lowest level at which records of offsetlog are printed.  Records of other libraries are printed from
            WARNING on.
        stream: the stream; None for the standard error.
    """
    handler = logging.StreamHandler(stream if stream is not None else sys.stderr)
    handler.setFormatter(JsonLines() if form == "json" else TextLines())
    root, library = logging.getLogger(), logging.getLogger("offsetlog")
    before, level_before = library.handlers[:], library.level
    library.handlers[:] = []
    library.setLevel(level.upper())
    root.addHandler(handler)
    try:
        yield
    finally:
        root.removeHandler(handler)
        library.setLevel(level_before)
        library.handlers[:] = before
