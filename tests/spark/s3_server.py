"""A server of the S3 protocol on the loopback address: S3Proxy, which keeps its objects in a directory.

It checks the signature of every request against the one pair of keys that the test made.
"""

from __future__ import annotations

import collections
import contextlib
import os
import re
import secrets
import socket
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pyarrow.fs
from maven_packages import java, packages_or_skip

BUCKET = "offsetlog-tests"
DEADLINE_SECONDS = 120.0
"""How long its start is waited for; far more than it takes."""

_LISTENS = re.compile(r"Started .*ServerConnector@.*\{127\.0\.0\.1:(\d+)\}")


class S3Server:
    """A running server; safe from any thread."""

    def __init__(self, port: int, access_key: str, secret_key: str) -> None:
        self.port = port
        self.access_key = access_key
        self.secret_key = secret_key

    @property
    def settings(self) -> dict[str, str]:
        """Hadoop's settings for it."""
        return {
            "fs.s3a.endpoint": f"http://127.0.0.1:{self.port}",
            "fs.s3a.endpoint.region": "us-east-1",
            "fs.s3a.path.style.access": "true",
            "fs.s3a.access.key": self.access_key,
            "fs.s3a.secret.key": self.secret_key,
        }

    @property
    def files(self) -> pyarrow.fs.S3FileSystem:
        """The file system by pyarrow itself, to put things there and to look at them."""
        return pyarrow.fs.S3FileSystem(
            access_key=self.access_key,
            secret_key=self.secret_key,
            endpoint_override=f"127.0.0.1:{self.port}",
            scheme="http",
            region="us-east-1",
            allow_bucket_creation=True,
        )

    def put(self, directory: Path, name: str) -> str:
        """Puts a directory in the place of what has its name; returns its s3a:// URI. Locks are left where they are."""
        files, place = self.files, f"{BUCKET}/{name}"
        if files.get_file_info(place).type != pyarrow.fs.FileType.NotFound:
            files.delete_dir(place)
        for path in sorted(directory.rglob("*")):
            if path.is_file() and path.name != ".lock":
                with files.open_output_stream(f"{place}/{path.relative_to(directory)}") as stream:
                    stream.write(path.read_bytes())
        return f"s3a://{place}"


@contextlib.contextmanager
def s3_server(directory: Path) -> Iterator[S3Server]:
    """Runs a server with an empty bucket; skips the test where it cannot be had, or fails it where it is required."""
    jars = packages_or_skip("s3proxy")
    access_key, secret_key = f"AK{secrets.token_hex(8)}", secrets.token_hex(20)
    (directory / "objects").mkdir(parents=True)
    properties = {
        "s3proxy.authorization": "aws-v4",
        "s3proxy.endpoint": "http://127.0.0.1:0",
        "s3proxy.identity": access_key,
        "s3proxy.credential": secret_key,
        "jclouds.provider": "filesystem-nio2",
        "jclouds.filesystem.basedir": str(directory / "objects"),
    }
    (directory / "s3proxy.properties").write_text("".join(f"{name}={value}\n" for name, value in properties.items()))
    command = [
        java(), "-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:-UsePerfData",
        f"-Dlogback.configurationFile={Path(__file__).with_name('s3proxy-logback.xml')}",
        "-cp", os.pathsep.join(map(str, jars)),
        "org.gaul.s3proxy.Main", "--properties", str(directory / "s3proxy.properties"),
    ]  # fmt: skip
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace")
    try:
        server = S3Server(_port_of(process), access_key, secret_key)
        server.files.create_dir(BUCKET)
        yield server
    finally:
        process.kill()
        process.wait()


def _port_of(process: subprocess.Popen[str]) -> int:
    """Waits until it listens, and reads on what it says so that it never waits for us."""
    last: collections.deque[str] = collections.deque(maxlen=40)
    found: list[int] = []
    listens = threading.Event()

    def read() -> None:
        assert process.stdout is not None
        with process.stdout:
            for line in process.stdout:
                last.append(line)
                match = _LISTENS.search(line)
                if match is not None:
                    found.append(int(match[1]))
                    listens.set()
        listens.set()

    threading.Thread(target=read, daemon=True).start()
    if not listens.wait(DEADLINE_SECONDS) or not found:
        raise AssertionError(f"S3Proxy does not listen: {''.join(last)}")
    return found[0]


@contextlib.contextmanager
def silent_server() -> Iterator[tuple[int, list[object]]]:
    """Yields the port of a server that takes connections and never answers, and what it took."""
    taken: list[socket.socket] = []
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def take() -> None:
            with contextlib.suppress(OSError):
                while True:
                    taken.append(listener.accept()[0])

        thread = threading.Thread(target=take, daemon=True)
        thread.start()
        try:
            yield listener.getsockname()[1], taken  # type: ignore[misc]
        finally:
            listener.shutdown(socket.SHUT_RDWR)
            thread.join(DEADLINE_SECONDS)
            for each in taken:
                each.close()
