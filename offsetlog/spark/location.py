"""Paths and URIs as users give them: the one place that decides which of the two a text is, and where it leads.

The rule is Spark's own, so that a text names the same place to this package and to `spark.read.parquet`:

* `SCHEME:/...` is a URI.  A scheme has two characters or more: `C:/data` and `a:b` are paths, and so is `./ab:/c`.
* `file:/...`, `file:///...` and `file://localhost/...` are paths of this machine.
* Nothing is percent-decoded: `%20` stands for itself, and a space may be written as one.  Folders that Spark names
  after values have percent signs in their names.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

from offsetlog.arguments import checked_path
from offsetlog.errors import ConfigError, StorageError

AnyPath = str | os.PathLike[str]

_URI = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):/")
_FILE = re.compile(r"file:", re.IGNORECASE)
_LOCAL_FILE = re.compile(r"file:(?://(?:localhost)?(?=/)|(?=/(?!/)))", re.IGNORECASE)
_PASSWORD = re.compile(r"(?<=://)[^/@\s']*:[^/@\s']*@")


@dataclass(frozen=True, slots=True)
class Location:
    """Where a path or URI leads.  Safe from any thread; goes to executors as it is.

    Attributes:
        text: the path or URI, as it was given.
        path: the absolute path on this machine, without "." and ".." (as Spark reads them, by the text alone); None for
            a URI of something else.
    """

    text: str
    path: str | None

    @classmethod
    def of(cls, given: AnyPath) -> Location:
        """Reads a path or URI.

        Raises:
            ArgumentTypeError: it is no text, or empty, or holds a NUL.
            ConfigError: a `file:` URI that is relative, or of another machine.
        """
        checked_path(given)
        text = os.fspath(given)
        if _FILE.match(text):
            local = _LOCAL_FILE.match(text)
            if local is None:
                raise ConfigError(
                    f"{text!r}: a file: URI names an absolute path of this machine, as file:/data/log does; "
                    "a directory whose name begins with file: is written ./file:..."
                )
            return cls(text, _absolute(text[local.end() :]))
        return cls(text, None if _URI.match(text) else _absolute(text))

    def __str__(self) -> str:
        """Returns the text without a password in it."""
        return _PASSWORD.sub("***@", self.text)

    @property
    def here(self) -> Path | None:
        """The path on this machine, None for a URI of something else."""
        return None if self.path is None else Path(self.path)

    @property
    def parts(self) -> tuple[str, ...]:
        """What is above it, and its name: of a path with its links followed, of a URI with its scheme."""
        if self.path is not None:
            return Path(os.path.realpath(self.path)).parts
        scheme, _, rest = self.text.partition(":")
        return scheme.lower(), *(part for part in rest.split("/") if part)

    def file_system(self, *, mapped: bool = False) -> tuple[Any, str]:
        """Returns pyarrow's file system for it, and the path on that, without a slash at its end.

        Args:
            mapped: whether files of this machine are mapped to be read: only those that nobody cuts short.

        Raises:
            ConfigError: pyarrow knows no file system of that scheme, or the URI is none of that scheme.
            StorageError: the file system cannot be reached.
        """
        # Only where it is needed: commands look at their paths before they load it.
        import pyarrow as pa
        from pyarrow import fs as arrow_fs

        if self.path is not None:
            return arrow_fs.LocalFileSystem(use_mmap=mapped), self.path
        try:
            found, path = arrow_fs.FileSystem.from_uri(_encoded(self.text))
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError, ValueError) as failure:
            why = _PASSWORD.sub("***@", str(failure))
            raise ConfigError(f"path={str(self)!r}: pyarrow knows no file system for it: {why}") from None
        except OSError as failure:
            why = _PASSWORD.sub("***@", str(failure))
            raise StorageError(f"it cannot be reached: {why}", errno=failure.errno, path=str(self)) from None
        return found, path.rstrip("/")


def _absolute(path: str) -> str:
    # POSIX keeps two slashes at the beginning, for which Linux has no use.
    return "/" + os.path.abspath(path).lstrip("/")


def _encoded(uri: str) -> str:
    """Returns a URI whose path pyarrow decodes to what it is here; what follows a "?" is settings of pyarrow's."""
    place, mark, settings = uri.partition("?")
    scheme, _, rest = place.partition(":/")
    authority, slash, path = rest[1:].partition("/") if rest.startswith("/") else ("", "", rest)
    return f"{scheme}:/{'/' if rest.startswith('/') else ''}{authority}{slash}{quote(path)}{mark}{settings}"
