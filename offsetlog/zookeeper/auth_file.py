"""Reads credentials for an ensemble from a file, because every user of a machine can read command lines."""

from __future__ import annotations

import os
from pathlib import Path

from offsetlog.errors import InvalidArgumentError

_BYTES_MAX = 1 << 16


def read_auth_file(path: Path) -> tuple[tuple[str, str], ...]:
    """Reads lines of the form SCHEME:CREDENTIAL, such as digest:USER:PASSWORD.

    Ignores empty lines and lines that begin with #.

    Returns:
        Pairs of scheme and credential, for `ConnectionSettings.auth`.

    Raises:
        InvalidArgumentError: the file cannot be read, is too large, or contains no credentials; or users other than its
            owner may access it; or a line has another form.  The message contains no credential.
    """
    try:
        with open(path, "rb") as file:
            others = os.fstat(file.fileno()).st_mode & 0o077
            data = file.read(_BYTES_MAX + 1)
    except OSError as failure:
        raise InvalidArgumentError(f"cannot read the credentials in {path}: {failure.strerror}") from None
    if others:
        raise InvalidArgumentError(
            f"{path} holds credentials, but other users may access it; allow only its owner (chmod 600)"
        )
    if len(data) > _BYTES_MAX:
        raise InvalidArgumentError(f"{path} is not a credentials file: it has more than {_BYTES_MAX} bytes")
    found = tuple(
        _credential(line, f"line {number} of {path}")
        for number, line in enumerate(data.split(b"\n"), 1)
        if line.strip() and not line.startswith(b"#")
    )
    if not found:
        raise InvalidArgumentError(f"{path} holds no credentials; add a line such as digest:USER:PASSWORD")
    return found


def _credential(line: bytes, place: str) -> tuple[str, str]:
    try:
        scheme, _, credential = line.removesuffix(b"\r").decode().partition(":")
    except UnicodeDecodeError:
        raise InvalidArgumentError(f"{place} is not UTF-8") from None
    if not scheme or scheme != scheme.strip() or not credential:
        raise InvalidArgumentError(f"{place} must have the form SCHEME:CREDENTIAL, such as digest:USER:PASSWORD")
    if scheme == "digest" and not credential.partition(":")[2]:
        raise InvalidArgumentError(f"{place} has no password; it must have the form digest:USER:PASSWORD")
    return scheme, credential
