"""A small JSON file to which changes are appended, so that a change writes its own bytes and not the whole file.

The first line holds the whole content; each later line holds the changes of one append.  Every line carries a checksum.
An append writes one line.  A crash can therefore damage only the last line, whichever pages of the file the crash
loses.  Once the changes are larger than the content and than 1 MiB, the file is replaced by one with a single line.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from offsetlog._native.files import FileSystem
from offsetlog.directory.checkpoint_record import hash_of
from offsetlog.errors import CorruptionError, StorageError, UnsupportedVersionError

_log = logging.getLogger(__name__)

FORMAT = 2
CONTENT_BYTES_MAX = 64 << 20
#: The changes may grow to this many bytes even if the content is small.
CHANGES_BYTES_MIN = 1 << 20
#: A larger file is neither read nor written.
FILE_BYTES_MAX = 2 * CONTENT_BYTES_MAX + CHANGES_BYTES_MIN


class CheckedJournal:
    """One journal file.  Not thread-safe; when a call returns, its changes are durable.

    Args:
        path: the file.
        fs: the file port.
    """

    def __init__(self, path: Path, fs: FileSystem) -> None:
        self.path = path
        self._fs = fs
        self._content_bytes = 0
        #: None if the file must be replaced before changes can be appended to it.
        self._size: int | None = None

    def read(self) -> tuple[dict[str, Any], list[dict[str, Any]]]:
        """Returns the content and the later changes, oldest first.

        An append that a crash left unfinished is reported and dropped.  A file of format 1, which is one indented
        object, is read as content without changes.

        Raises:
            CorruptionError: the file was truncated or changed.
            UnsupportedVersionError: a later version wrote it.
            StorageError: the file cannot be read.
        """
        data = self._fs.read_file(self.path, FILE_BYTES_MAX)
        first, _, rest = data.partition(b"\n")
        if first == b"{":
            self._size = None
            return self._content(data, 1), []
        content = self._content(first, FORMAT)
        lines = rest.split(b"\n")
        torn = lines.pop()
        # A page that did not reach the disk is zeros, which no written line contains.  Each append is one line, so only
        # the last line can be torn.
        if lines and b"\0" in lines[-1]:
            torn = lines.pop() + b"\n" + torn
        changes = [each for number, line in enumerate(lines, 2) for each in self._changes(line, number)]
        self._content_bytes = len(first)
        self._size = None if torn else len(data)
        if torn:
            _log.warning(
                "%s: dropped the last %d bytes, a change that a crash left unfinished", self.path, len(torn)
            )
        return content, changes

    def _content(self, text: bytes, version: int) -> dict[str, Any]:
        line = self._parsed(text, 1)
        if line.get("format") != version:
            raise UnsupportedVersionError(
                f"the file has format {line.get('format')}; this version reads formats 1 and {FORMAT}", path=self.path
            )
        content = self._checked(line, "content", 1)
        if not isinstance(content, dict):
            raise self._damaged(1)
        return content

    def _changes(self, text: bytes, number: int) -> list[dict[str, Any]]:
        found = self._checked(self._parsed(text, number), "changes", number)
        if not isinstance(found, list) or not all(isinstance(each, dict) for each in found):
            raise self._damaged(number)
        return found

    def _parsed(self, text: bytes, number: int) -> dict[str, Any]:
        try:
            line = json.loads(text)
        except (ValueError, RecursionError) as failure:
            raise CorruptionError(f"line {number} cannot be read: {failure}", path=self.path) from failure
        if not isinstance(line, dict):
            raise CorruptionError(f"line {number} is not a JSON object", path=self.path)
        return line

    def _checked(self, line: dict[str, Any], key: str, number: int) -> Any:
        found = line.get(key)
        if line.get("checksum") != _checksum(found):
            raise self._damaged(number)
        return found

    def _damaged(self, number: int) -> CorruptionError:
        return CorruptionError(
            f"the checksum of line {number} is wrong: the file was changed or damaged; "
            "restore it from a copy",
            path=self.path,
        )

    def append(self, changes: Sequence[dict[str, Any]]) -> bool:
        """Appends changes in one write; if `replace` must be called instead, writes nothing and returns False.

        Raises:
            StorageError: the append failed; the next change will replace the file.
        """
        size = self._size
        if size is None or size - self._content_bytes > max(CHANGES_BYTES_MIN, self._content_bytes):
            return False
        line = _line({"checksum": _checksum(changes), "changes": changes})
        if size + len(line) > FILE_BYTES_MAX:
            return False
        # It is unknown whether a line whose write failed is in the file.
        self._size = None
        self._fs.append_to_file(self.path, size, line)
        self._size = size + len(line)
        return True

    def replace(self, content: dict[str, Any]) -> None:
        """Replaces the file with one that has this content and no appended changes.

        Raises:
            StorageError: the write failed, so the next change will replace the file; or the file would be too large to
                be read at the next start.
        """
        line = _line({"format": FORMAT, "checksum": _checksum(content), "content": content})
        if len(line) > FILE_BYTES_MAX:
            raise StorageError(
                f"{self.path}: this change would make the file {len(line)} bytes long, but at its start, the server "
                f"can read at most {FILE_BYTES_MAX} bytes of the file; nothing was changed; delete topics that are not "
                "needed, then try again"
            )
        self._size = None
        self._fs.replace_file(self.path, line)
        self._size = self._content_bytes = len(line)


def _line(fields: Mapping[str, Any]) -> bytes:
    return json.dumps(fields, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"


def _checksum(content: Any) -> str:
    text = json.dumps(content, sort_keys=True, ensure_ascii=False, separators=(",", ":"))
    return hash_of(text.encode())
