"""Certificates of servers and clients on the loopback address, in PEM, made by `openssl`."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

PASSWORD = "of the key"


def is_possible() -> bool:
    """Whether certificates can be made here."""
    return shutil.which("openssl") is not None


class Certificates:
    """An authority of a test's own, and what it signs.

    Args:
        folder: of the files.
        name: of the authority.

    Attributes:
        authority: the file of its certificate.
    """

    def __init__(self, folder: Path, name: str = "authority") -> None:
        self._folder = folder
        self.authority = folder / f"{name}.pem"
        self._key = folder / f"{name}.key"
        openssl(
            "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "30", "-subj", f"/CN={name}",
            "-keyout", self._key, "-out", self.authority,
        )  # fmt: skip

    def signed(self, name: str, subject: str, password: str | None = None) -> Path:
        """Returns a file with a key and its certificate.

        Args:
            name: of the file.
            subject: whom it is for, as "IP:127.0.0.1".
            password: with which the key is enciphered.
        """
        key, request, made = (self._folder / f"{name}.{end}" for end in ("key", "csr", "crt"))
        cipher = ["-nodes"] if password is None else ["-passout", f"pass:{password}"]
        openssl(
            "req", "-newkey", "rsa:2048", *cipher, "-subj", f"/CN={name}", "-addext", f"subjectAltName={subject}",
            "-keyout", key, "-out", request,
        )  # fmt: skip
        openssl(
            "x509", "-req", "-in", request, "-CA", self.authority, "-CAkey", self._key, "-CAcreateserial",
            "-copy_extensions", "copy", "-days", "30", "-out", made,
        )  # fmt: skip
        store = self._folder / f"{name}.pem"
        store.write_text(key.read_text() + made.read_text())
        return store


def openssl(*given: object) -> None:
    """Calls the command, which prints only where it fails."""
    done = subprocess.run(["openssl", *map(str, given)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
