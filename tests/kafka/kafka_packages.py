"""Kafka's published packages on this machine: fetched once with Maven, run with Java.

The packages live in ``.cache/kafka-4.3.0/`` of the repository, or in the directory that ``OFFSETLOG_KAFKA_HOME``
names. A directory that already holds them (for example ``libs/`` of an unpacked Kafka) is used as it is and never
written to.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

KAFKA_VERSION = "4.3.0"
HERE = Path(__file__).resolve().parent


def _repository() -> Path:
    """Returns the working copy, also when the tests run from a copy inside it, as those of the built wheel do."""
    copies = (parent for parent in HERE.parents if (parent / ".git").exists())
    return next(copies, HERE.parent.parent)


REPOSITORY = _repository()
DEADLINE_SECONDS = 120.0
"""How long anything here is waited for; far more than it takes, so that a slow machine does not fail a test."""

FETCH_SECONDS = 900.0
"""How long Maven may take for the first download."""

JVM_FLAGS = (
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
    "-XX:-UsePerfData",
    "-Dfile.encoding=UTF-8",
    "-Dstdout.encoding=UTF-8",
)
"""Small and quick to start: one collector thread, no optimising compiler."""


class KafkaMissing(Exception):
    """Java, Maven or the packages are not there; the message says which and what happened."""


class KafkaFailed(Exception):
    """A program of Kafka's ended with an error or took too long; the message holds the end of what it printed."""


@dataclass(frozen=True)
class KafkaPackages:
    """Where the packages are and how they are run. Immutable, so it may be used from several threads."""

    java: str
    home: Path
    classes: Path

    @property
    def classpath(self) -> str:
        """The class path with every package and the compiled programs of the tests."""
        return f"{self.classes}{os.pathsep}{self.home}/*"

    def command(self, main: str, *arguments: str, heap_mib: int = 256, log_level: str = "ERROR") -> list[str]:
        """Returns the command line that runs the class ``main`` with ``arguments``."""
        return [
            self.java,
            f"-Xmx{heap_mib}m",
            *JVM_FLAGS,
            f"-Doffsetlog.log.level={log_level}",
            f"-Dlog4j2.configurationFile={HERE / 'log4j2.properties'}",
            "-cp",
            self.classpath,
            main,
            *arguments,
        ]

    def run(
        self, main: str, *arguments: str, stdin: str = "", heap_mib: int = 256, seconds: float = DEADLINE_SECONDS
    ) -> str:
        """Runs a class of Kafka's to its end and returns what it printed on stdout.

        Raises KafkaFailed when it exits with another code than 0 or is not done after ``seconds``.
        """
        return self.run_both(main, *arguments, stdin=stdin, heap_mib=heap_mib, seconds=seconds)[0]

    def run_both(
        self, main: str, *arguments: str, stdin: str = "", heap_mib: int = 256, seconds: float = DEADLINE_SECONDS
    ) -> tuple[str, str]:
        """Does what :meth:`run` does and returns (stdout, stderr): some tools report faults on stderr only."""
        try:
            done = subprocess.run(
                self.command(main, *arguments, heap_mib=heap_mib),
                input=stdin.encode(),
                capture_output=True,
                env=environment(),
                timeout=seconds,
                check=False,
            )
        except subprocess.TimeoutExpired as late:
            raise KafkaFailed(f"{main} was not done after {seconds:.0f} s") from late
        # Decoded here and not by subprocess, which would turn a carriage return inside a name into a line end.
        stdout, stderr = (stream.decode("utf-8", errors="replace") for stream in (done.stdout, done.stderr))
        if done.returncode != 0:
            raise KafkaFailed(f"{main} ended with {done.returncode}: {stdout[-2000:]}{stderr[-4000:]}".strip())
        return stdout, stderr


def environment() -> dict[str, str]:
    """Returns the environment for Kafka's programs.

    Java reads its arguments in the encoding of the locale, says on stderr that it has picked up options, and cannot
    run with the sanitizers preloaded that a test run of ours may have.
    """
    dropped = {"LD_PRELOAD", "JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS", "_JAVA_OPTIONS"}
    return {**{name: value for name, value in os.environ.items() if name not in dropped}, "LC_ALL": "C.UTF-8"}


def find_packages() -> KafkaPackages:
    """Returns the packages, fetching and compiling what is missing. Quick when everything is cached.

    Safe against other processes doing the same at the same time. Raises KafkaMissing.
    """
    java, compiler = _program("java"), _program("javac")
    cache = REPOSITORY / ".cache"
    named = os.environ.get("OFFSETLOG_KAFKA_HOME")
    home = Path(named).resolve() if named else cache / f"kafka-{KAFKA_VERSION}"
    _make_directory(cache)
    with _locked(cache / "kafka.lock"):
        if not _is_complete(home):
            _fetch(home)
        classes = _compile(compiler, home, cache)
    return KafkaPackages(java, home, classes)


def _program(name: str) -> str:
    """Finds a program of the JDK, in JAVA_HOME first."""
    java_home = os.environ.get("JAVA_HOME")
    found = shutil.which(name, path=str(Path(java_home, "bin"))) if java_home else None
    found = found or shutil.which(name)
    if found is None:
        raise KafkaMissing(f"no {name} on this machine (Kafka {KAFKA_VERSION} needs a JDK of version 17 or later)")
    return found


def _make_directory(path: Path) -> None:
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise KafkaMissing(f"no place for Kafka's packages: {error}") from error


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Holds an exclusive lock on ``path`` so that parallel test processes fetch and compile once."""
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _pom_digest() -> str:
    return hashlib.sha256((HERE / "pom.xml").read_bytes()).hexdigest()


def _is_complete(home: Path) -> bool:
    """Says whether a fetch of the present pom.xml finished here, or somebody else put a whole Kafka here."""
    stamp = home / "fetched"
    if stamp.is_file():
        return stamp.read_text() == _pom_digest()
    wanted = ("kafka_2.13", "kafka-tools", "kafka-clients")
    return all((home / f"{name}-{KAFKA_VERSION}.jar").is_file() for name in wanted)


def _fetch(home: Path) -> None:
    """Lets Maven copy the packages beside ``home`` and moves them there whole: an interrupted fetch leaves nothing.

    A directory that is neither empty nor of an earlier fetch is somebody's: it is refused, not replaced.
    """
    if home.is_dir() and any(home.iterdir()) and not (home / "fetched").is_file():
        raise KafkaMissing(f"{home} holds other things than the packages of Kafka {KAFKA_VERSION}")
    maven = shutil.which("mvn")
    if maven is None:
        raise KafkaMissing(f"Kafka {KAFKA_VERSION} is not in {home}, and there is no Maven (mvn) to fetch it")
    _make_directory(home.parent)
    partial = Path(tempfile.mkdtemp(prefix=f"{home.name}.", dir=home.parent))
    try:
        _run_maven(maven, partial)
        (partial / "fetched").write_text(_pom_digest())
        if home.exists():
            shutil.rmtree(home)
        partial.rename(home)
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def _builder_environment() -> dict[str, str]:
    """Returns the environment for Maven, which may need Java options to reach its repositories."""
    return {name: value for name, value in os.environ.items() if name != "LD_PRELOAD"}


def _run_maven(maven: str, directory: Path) -> None:
    goal = ["dependency:copy-dependencies", f"-DoutputDirectory={directory}", "-DincludeScope=runtime"]
    command = [maven, "-B", "-q", "-Dstyle.color=never", "-f", str(HERE / "pom.xml"), *goal]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, env=_builder_environment(), timeout=FETCH_SECONDS, check=False
        )
    except subprocess.TimeoutExpired as late:
        raise KafkaMissing(f"Maven had not fetched Kafka {KAFKA_VERSION} after {FETCH_SECONDS:.0f} s") from late
    if done.returncode != 0:
        raise KafkaMissing(f"Maven could not fetch Kafka {KAFKA_VERSION}: {(done.stdout + done.stderr).strip()[-600:]}")


def _compile(compiler: str, home: Path, cache: Path) -> Path:
    """Compiles the programs here unless that was done for their text, and returns the directory of the classes."""
    sources = sorted(HERE.glob("*.java"))
    text = b"".join(each.read_bytes() for each in sources)
    digest = hashlib.sha256(text + str(home).encode()).hexdigest()[:16]
    classes = cache / f"kafka-answers-{digest}"
    if classes.is_dir():
        return classes
    partial = Path(tempfile.mkdtemp(prefix="kafka-answers.", dir=cache))
    try:
        options = ["-nowarn", "--release", "17", "-encoding", "UTF-8", "-d", str(partial), "-cp", f"{home}/*"]
        command = [compiler, *options, *map(str, sources)]
        done = subprocess.run(
            command, capture_output=True, text=True, env=environment(), timeout=DEADLINE_SECONDS, check=False
        )
        if done.returncode != 0:
            raise KafkaMissing(f"the Java programs of the tests do not compile: {done.stderr.strip()[-2000:]}")
        partial.rename(classes)
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    return classes
