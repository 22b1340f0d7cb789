"""Paths and URIs as users give them; only this module decides whether a text is a path or a URI, and resolves it.

The rule is that of Spark, so that this package and `spark.read.parquet` find the same files for the same text:

* `SCHEME:/...` is a URI.  A scheme has at least two characters, and is followed by a slash.  Therefore `C:/data` and
  `a:b` are paths, and so is `./ab:/c`.
* `file:/...`, `file:///...` and `file://localhost/...` are paths of this machine.
* Nothing is percent-decoded: `%20` stands for these three characters, and a space is written as a space.  Spark names
  folders after values, and writes percent signs in these names.
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
#: Keys before the host, as pyarrow accepts them; Amazon's may contain a slash.
_KEYS = re.compile(r"(?<=://)[^@]*:.*@")
_WITH_KEYS = re.compile(r"(?:s3[an]?|gs|abfss?)://", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Location:
    """A resolved path or URI.  It is immutable, can be used from any thread, and can be sent to executors.

    Attributes:
        text: the path or URI, as it was given.
        path: the absolute path on this machine; None for a URI of another file system.  "." and ".." are resolved in
            the text, without following links, as Spark does it.
    """

    text: str
    path: str | None

    @classmethod
    def of(cls, given: AnyPath) -> Location:
        """Resolves a path or URI.

        Raises:
            ArgumentTypeError: the argument is not a str or path, is empty, or contains a NUL.
            ConfigError: a `file:` URI is relative, or names another machine.
        """
        checked_path(given)
        text = os.fspath(given)
        if _FILE.match(text):
            local = _LOCAL_FILE.match(text)
            if local is None:
                raise ConfigError(
                    f"{text!r}: the URI of a file must name an absolute path on this machine, as 'file:/data/log' "
                    "does; if the name of the directory itself begins with 'file:', put './' before it"
                )
            return cls(text, _absolute(text[local.end() :]))
        return cls(text, None if _URI.match(text) else _absolute(text))

    def __str__(self) -> str:
        """Returns the text without passwords."""
        return shown(self.text)

    @property
    def here(self) -> Path | None:
        """The path on this machine; None for a URI of another file system."""
        return None if self.path is None else Path(self.path)

    @property
    def parts(self) -> tuple[str, ...]:
        """The components of the path, with its links followed, or those of the URI, beginning with its scheme."""
        if self.path is not None:
            return Path(os.path.realpath(self.path)).parts
        scheme, _, rest = self.text.partition(":")
        return scheme.lower(), *(part for part in rest.split("/") if part)


def shown(uri: str) -> str:
    """Returns a path or URI for a message, with the keys and passwords in it replaced."""
    return _PASSWORD.sub("***@", _KEYS.sub("***@", uri) if _WITH_KEYS.match(uri) else uri)


def _absolute(path: str) -> str:
    # `os.path` keeps two leading slashes, which mean the same as one on Linux.
    return "/" + os.path.abspath(path).lstrip("/")
