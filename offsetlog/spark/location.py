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

from offsetlog.arguments import checked_path
from offsetlog.errors import ConfigError

AnyPath = str | os.PathLike[str]

_URI = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):/")
_FILE = re.compile(r"file:", re.IGNORECASE)
_LOCAL_FILE = re.compile(r"file:(?://(?:localhost)?(?=/)|(?=/(?!/)))", re.IGNORECASE)
_PASSWORD = re.compile(r"(?<=://)[^/@\s']*:[^/@\s']*@")
#: Keys that pyarrow takes before the host; Amazon's may hold a slash.
_KEYS = re.compile(r"(?<=://)[^@]*:.*@")
_WITH_KEYS = re.compile(r"(?:s3[an]?|gs|abfss?)://", re.IGNORECASE)


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
        return shown(self.text)

    @property
    def here(self) -> Path | None:
        """The path on this machine, None for a URI of something else."""
        return None if self.path is None else Path(self.path)

    @property
    def parts(self) -> tuple[str, ...]:
        """The names above it, and its own: of a path with its links followed, of a URI with its scheme."""
        if self.path is not None:
            return Path(os.path.realpath(self.path)).parts
        scheme, _, rest = self.text.partition(":")
        return scheme.lower(), *(part for part in rest.split("/") if part)


def shown(uri: str) -> str:
    """Returns a path or URI as it may be shown: without keys or a password that stand in it."""
    return _PASSWORD.sub("***@", _KEYS.sub("***@", uri) if _WITH_KEYS.match(uri) else uri)


def _absolute(path: str) -> str:
    # POSIX keeps two slashes at the beginning, for which Linux has no use.
    return "/" + os.path.abspath(path).lstrip("/")
