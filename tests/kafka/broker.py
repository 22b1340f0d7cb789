"""A real Kafka broker on a log directory, one process, loopback only.

A broker serves partitions that somebody else wrote when the cluster metadata beside them knows the topic under the id
that ``partition.metadata`` names (docs/format/brokers.md §16). So a :class:`Template` is made first: a fresh cluster
that has created its ``__consumer_offsets`` and was stopped cleanly. Then either

* :func:`install` copies partition folders that exist already into a copy of the template, or
* :func:`copy_template` makes an empty log directory in which a store with ``topic_id=template.topic_id`` writes,

and :class:`KafkaBroker` runs on the result.
"""

from __future__ import annotations

import atexit
import re
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Self

from kafka_packages import DEADLINE_SECONDS, KafkaFailed, KafkaPackages, environment

OFFSETS_TOPIC = "__consumer_offsets"
CLEAN_MARKER = ".kafka_cleanshutdown"
CHECKPOINTS = (
    "recovery-point-offset-checkpoint",
    "log-start-offset-checkpoint",
    "replication-offset-checkpoint",
    "cleaner-offset-checkpoint",
)
Marker = Literal["keep", "write", "remove"]

POLL_SECONDS = 0.05
START_ATTEMPTS = 3
"""A port that was free when it was chosen may be taken when the broker binds it; then other ports are tried."""

TEST_SETTINGS: Mapping[str, str] = {
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "transaction.state.log.num.partitions": "3",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    "share.coordinator.state.topic.num.partitions": "2",
    "group.initial.rebalance.delay.ms": "0",
    "auto.create.topics.enable": "false",
    # Real data is weeks old: nothing may expire between the start of the broker and the question.
    "offsets.retention.minutes": "2147483647",
    "offsets.retention.check.interval.ms": "86400000",
    # Indexes of active segments are allocated at full size; the default of 10 MiB is much for many partitions.
    "log.index.size.max.bytes": "1048576",
    # A killed broker is registered until its session ends, and refuses its successor until then.
    "broker.session.timeout.ms": "6000",
    "broker.heartbeat.interval.ms": "500",
    # Memory and threads for a small machine.
    "log.cleaner.dedupe.buffer.size": "16777216",
    "num.network.threads": "2",
    "num.io.threads": "2",
    "background.threads": "2",
}
"""The settings every broker of the tests has; those of the broker that wrote the shared data, but nothing expires."""

_running: set[subprocess.Popen[bytes]] = set()


@atexit.register
def _kill_what_is_left() -> None:
    """Ends brokers that a test neither stopped nor killed; setpriv covers the case that Python itself is killed."""
    for process in list(_running):
        process.kill()
        process.wait()


@dataclass(frozen=True)
class Template:
    """A cluster that was stopped cleanly, with an empty ``__consumer_offsets`` of ``partitions`` partitions."""

    cluster_id: str
    directory_id: str
    topic_id: str
    path: Path
    partitions: int


class KafkaBroker:
    """One Kafka process, broker and controller combined, on the log directory ``log_dir``.

    ``settings`` come on top of TEST_SETTINGS. The broker's output goes to ``work_dir / "broker-N.log"``, N counting
    its starts. Use it as a context manager: leaving it stops the broker cleanly, or kills it when an exception is on
    its way. Not thread-safe.
    """

    def __init__(
        self,
        packages: KafkaPackages,
        log_dir: Path,
        work_dir: Path,
        *,
        settings: Mapping[str, str] | None = None,
        heap_mib: int = 512,
        deadline_seconds: float = DEADLINE_SECONDS,
    ) -> None:
        self.log_dir = log_dir
        self.work_dir = work_dir
        self.bootstrap = ""
        self.log_files: list[Path] = []
        self._packages = packages
        self._settings = {**TEST_SETTINGS, **(settings or {})}
        self._heap_mib = heap_mib
        self._deadline_seconds = deadline_seconds
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, kind: object, value: object, trace: object) -> None:
        if kind is None:
            self.stop()
        else:
            self.kill()

    @property
    def pid(self) -> int | None:
        """The process id while the broker runs, else None."""
        return self._process.pid if self._process is not None else None

    def start(self) -> Self:
        """Starts the broker and returns when it serves. Raises KafkaFailed with the end of its log when it does not."""
        if self._process is not None:
            raise KafkaFailed("this broker runs already")
        for attempt in range(1, START_ATTEMPTS + 1):
            try:
                self._launch()
                self._wait_until_started()
                return self
            except KafkaFailed:
                self.kill()
                if attempt == START_ATTEMPTS or "Address already in use" not in self.log_text():
                    raise
            except BaseException:
                self.kill()
                raise
        raise AssertionError("the loop returns or raises")

    def stop(self) -> None:
        """Stops the broker as an operator would (SIGTERM). Raises KafkaFailed when it does not end in time."""
        if self._process is None:
            return
        process, self._process = self._process, None
        process.terminate()
        try:
            process.wait(self._deadline_seconds)
        except subprocess.TimeoutExpired as late:
            process.kill()
            process.wait()
            raise KafkaFailed(
                f"the broker did not stop in {self._deadline_seconds:.0f} s: {self.complaints()}"
            ) from late
        finally:
            _running.discard(process)

    def kill(self) -> None:
        """Kills the broker (SIGKILL): its directory is as after a crash of the process. Harmless when it is down."""
        if self._process is None:
            return
        process, self._process = self._process, None
        process.kill()
        process.wait()
        _running.discard(process)

    def log_text(self) -> str:
        """Returns what the broker said since its latest start."""
        if not self.log_files or not self.log_files[-1].exists():
            return ""
        return self.log_files[-1].read_text(encoding="utf-8", errors="replace")

    def complaints(self) -> str:
        """Returns the errors in :meth:`log_text`, each with the line after it (the exception), and its end."""
        text = self.log_text()
        errors = re.findall(r"^\[[^\]]*\] (?:ERROR|FATAL) .*(?:\n.*)?", text, re.MULTILINE)
        return "\n".join([*errors[:10], "...", text[-2000:]])

    def loads(self) -> dict[int, str]:
        """Returns what became of the partitions of ``__consumer_offsets`` that the group coordinator was given.

        partition -> ``""`` when it is loaded, else why the coordinator refused to load it (docs/format/brokers.md §16).
        One that is being loaded or was given away is missing. The last of several loads counts: a broker that was
        killed loads its partitions when it comes back, gives them away when its old session ends, and loads them again.
        """
        states: dict[int, str | None] = {}
        for match in _COORDINATOR_EVENT.finditer(self.log_text()):
            states[int(match["partition"])] = "" if match["loaded"] else match["reason"]
        return {partition: state for partition, state in states.items() if state is not None}

    def load_failures(self) -> dict[int, str]:
        """Returns partition -> reason for those that the group coordinator refused to load."""
        return {partition: reason for partition, reason in self.loads().items() if reason}

    def strays(self) -> list[str]:
        """Returns the folders that Kafka set aside because their topic id is not the cluster's.

        Source: docs/format/brokers.md §15.1.
        """
        return sorted(path.name for path in self.log_dir.glob(f"{OFFSETS_TOPIC}-*-stray"))

    def wait_until_loaded(self, partitions: int, *, allow_failures: bool = False) -> None:
        """Waits until the coordinator has dealt with every partition of ``__consumer_offsets``.

        Before that, Kafka answers without the groups of the partitions that it does not lead yet, and says nothing.
        Raises KafkaFailed when a partition was set aside, or failed to load (unless ``allow_failures``), or when time
        is up.
        """
        for _ in self._polls("the load of every partition"):
            if self.strays():
                raise KafkaFailed(f"Kafka set these folders aside, with another topic id: {self.strays()}")
            loads = self.loads()
            failures = {partition: reason for partition, reason in loads.items() if reason}
            if failures and not allow_failures:
                raise KafkaFailed(f"Kafka refused to load partitions: {failures}")
            if len(loads) >= partitions:
                return

    def _launch(self) -> None:
        broker_port, controller_port = _free_ports(2)
        self.bootstrap = f"127.0.0.1:{broker_port}"
        self.work_dir.mkdir(parents=True, exist_ok=True)
        properties = self.work_dir / "server.properties"
        entries = _listeners(broker_port, controller_port) | {"log.dirs": str(self.log_dir)} | self._settings
        _write_properties(properties, entries)
        self.log_files.append(self.work_dir / f"broker-{len(self.log_files) + 1}.log")
        command = self._packages.command("kafka.Kafka", str(properties), heap_mib=self._heap_mib, log_level="INFO")
        guard = shutil.which("setpriv")
        if guard is not None:
            command = [guard, "--pdeathsig", "KILL", *command]
        with self.log_files[-1].open("wb") as log:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                cwd=self.work_dir,
                env=environment(),
                start_new_session=True,
            )
        _running.add(self._process)

    def _wait_until_started(self) -> None:
        for _ in self._polls("the start of the broker"):
            if "Kafka Server started" in self.log_text():
                return

    def _polls(self, what: str) -> Iterator[None]:
        """Yields every POLL_SECONDS; raises KafkaFailed when the broker has ended or the deadline is over."""
        end = time.monotonic() + self._deadline_seconds
        while True:
            yield
            if self._process is None:
                raise KafkaFailed(f"the broker is not running; waited for {what}")
            if self._process.poll() is not None:
                raise KafkaFailed(f"the broker ended ({self._process.returncode}) before {what}: {self.complaints()}")
            if time.monotonic() > end:
                raise KafkaFailed(f"{what} took longer than {self._deadline_seconds:.0f} s: {self.complaints()}")
            time.sleep(POLL_SECONDS)


_COORDINATOR_EVENT = re.compile(
    rf"\[GroupCoordinator id=\d+\] (?:(?P<loaded>Finished loading of metadata from)|Failed to load metadata from"
    rf"|Scheduling (?:un)?loading of metadata (?:for|from)) {OFFSETS_TOPIC}-(?P<partition>\d+) "
    rf"(?:.*? due to (?P<reason>.*))?"
)


def format_storage(packages: KafkaPackages, log_dir: Path, work_dir: Path) -> str:
    """Formats ``log_dir`` for a new cluster of one node with Kafka's storage tool and returns the cluster id.

    Folders that are in ``log_dir`` already stay as they are. Raises KafkaFailed.
    """
    cluster_id = packages.run("kafka.tools.StorageTool", "random-uuid").strip()
    work_dir.mkdir(parents=True, exist_ok=True)
    properties = work_dir / "format.properties"
    _write_properties(properties, _listeners(9092, 9093) | {"log.dirs": str(log_dir)})
    packages.run("kafka.tools.StorageTool", "format", f"--cluster-id={cluster_id}", "--config", str(properties))
    return cluster_id


def make_template(
    packages: KafkaPackages, partitions: int, path: Path, *, settings: Mapping[str, str] | None = None
) -> Template:
    """Makes a cluster in ``path`` with an empty ``__consumer_offsets`` of ``partitions``, and stops it cleanly.

    ``settings`` matter where they become settings of the topic (``offsets.topic.*``, ``log.*``). Raises KafkaFailed.
    """
    log_dir, work_dir = path / "log", path / "work"
    log_dir.mkdir(parents=True)
    cluster_id = format_storage(packages, log_dir, work_dir)
    broker = KafkaBroker(
        packages, log_dir, work_dir, settings={"offsets.topic.num.partitions": str(partitions), **(settings or {})}
    )
    with broker:
        packages.run("KafkaAnswers", broker.bootstrap, f"{DEADLINE_SECONDS:.0f}", "make-offsets-topic")
        broker.wait_until_loaded(partitions)
    topic_id = read_properties(log_dir / f"{OFFSETS_TOPIC}-0" / "partition.metadata", separator=": ")["topic_id"]
    directory_id = read_properties(log_dir / "meta.properties")["directory.id"]
    return Template(cluster_id, directory_id, topic_id, log_dir, partitions)


def copy_template(template: Template, log_dir: Path) -> Path:
    """Copies the template to ``log_dir``, which must not exist, and returns it.

    The copy holds empty partitions with the template's topic id and the clean-shutdown marker; a store may write in
    place.
    """
    shutil.copytree(template.path, log_dir)
    return log_dir


def install(
    template: Template,
    offsets_dir: Path,
    log_dir: Path,
    *,
    marker: Marker,
    checkpoints: bool = True,
    topic_id: bool = True,
) -> Path:
    """Copies the offsets partitions of ``offsets_dir`` into a copy of the template, and returns ``log_dir``.

    ``log_dir`` must not exist. ``marker`` says what becomes of the clean-shutdown marker: ``"keep"``: as
    ``offsets_dir`` has it; ``"write"``: it is there; ``"remove"``: it is not, so Kafka recovers every log. With
    ``checkpoints`` the entries of ``__consumer_offsets`` in the checkpoint files of ``offsets_dir`` are taken, else
    the files are left out. With ``topic_id`` every ``partition.metadata`` is written again with the template's id;
    without, the folders must have it already, else Kafka sets them aside. A partition that ``offsets_dir`` does not
    have is left out too, and Kafka creates it.

    Raises ValueError when ``offsets_dir`` has no partitions, or one that the template's topic does not have.
    """
    folders = partition_folders(offsets_dir)
    if not folders or max(folders) >= template.partitions:
        raise ValueError(f"{offsets_dir} has the partitions {sorted(folders)}, the template {template.partitions}")
    skip = shutil.ignore_patterns(f"{OFFSETS_TOPIC}-*", CLEAN_MARKER, ".lock", *CHECKPOINTS)
    shutil.copytree(template.path, log_dir, ignore=skip)
    for folder in folders.values():
        _copy_writable(folder, log_dir / folder.name)
        if topic_id:
            metadata = f"version: 0\ntopic_id: {template.topic_id}"
            (log_dir / folder.name / "partition.metadata").write_text(metadata)
    if checkpoints:
        for name in CHECKPOINTS:
            _install_checkpoint(template.path / name, offsets_dir / name, log_dir / name)
    _install_marker(template, offsets_dir, log_dir, marker)
    return log_dir


def partition_folders(offsets_dir: Path) -> dict[int, Path]:
    """Returns partition -> folder of ``__consumer_offsets`` in a log directory."""
    folders = (path for path in offsets_dir.iterdir() if path.is_dir())
    matches = ((re.fullmatch(rf"{OFFSETS_TOPIC}-(\d+)", path.name), path) for path in folders)
    return {int(match.group(1)): path for match, path in matches if match}


def read_properties(path: Path, *, separator: str = "=") -> dict[str, str]:
    """Returns the entries of a small text file of Kafka's (``meta.properties``, ``partition.metadata``)."""
    lines = (line for line in path.read_text().splitlines() if line and not line.startswith("#"))
    return dict(line.split(separator, 1) for line in lines)


def _copy_writable(source: Path, target: Path) -> None:
    """Copies a folder without its access modes: test data may be read-only, and a broker must be able to write."""
    target.mkdir()
    for path in source.iterdir():
        shutil.copyfile(path, target / path.name)


def _install_checkpoint(template: Path, source: Path, target: Path) -> None:
    """Joins the entries of the offsets topic in ``source`` and those of other topics in the template.

    A file that a crash left empty stays empty, because that is what the broker found.
    """
    if not source.exists():
        return
    if source.stat().st_size == 0:
        target.write_bytes(b"")
        return
    ours = [line for line in _checkpoint_lines(source) if line.startswith(f"{OFFSETS_TOPIC} ")]
    others = [line for line in _checkpoint_lines(template) if not line.startswith(f"{OFFSETS_TOPIC} ")]
    target.write_text("\n".join(["0", str(len(ours) + len(others)), *ours, *others]) + "\n")


def _checkpoint_lines(path: Path) -> list[str]:
    """Returns the entries of a checkpoint file: what follows the version and the number of entries.

    Source: docs/format/directory.md §1.5.
    """
    return path.read_text().splitlines()[2:] if path.exists() else []


def _install_marker(template: Template, offsets_dir: Path, log_dir: Path, marker: Marker) -> None:
    source = offsets_dir / CLEAN_MARKER if marker == "keep" else template.path / CLEAN_MARKER
    if marker != "remove" and source.exists():
        shutil.copyfile(source, log_dir / CLEAN_MARKER)


def _listeners(broker_port: int, controller_port: int) -> dict[str, str]:
    return {
        "process.roles": "broker,controller",
        "node.id": "1",
        "listeners": f"PLAINTEXT://127.0.0.1:{broker_port},CONTROLLER://127.0.0.1:{controller_port}",
        "advertised.listeners": f"PLAINTEXT://127.0.0.1:{broker_port}",
        "controller.listener.names": "CONTROLLER",
        "controller.quorum.voters": f"1@127.0.0.1:{controller_port}",
    }


def _write_properties(path: Path, entries: Mapping[str, str]) -> None:
    path.write_text("".join(f"{key}={value}\n" for key, value in entries.items()))


def _free_ports(count: int) -> list[int]:
    """Returns different ports of the loopback interface that were free a moment ago."""
    sockets = [socket.socket() for _ in range(count)]
    try:
        for held in sockets:
            held.bind(("127.0.0.1", 0))
        return [held.getsockname()[1] for held in sockets]
    finally:
        for held in sockets:
            held.close()
