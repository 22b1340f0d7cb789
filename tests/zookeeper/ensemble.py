"""A real ensemble of ZooKeeper servers on the loopback address, whose servers are killed and started again by tests.

PySpark carries the jars of a whole ZooKeeper.
"""

from __future__ import annotations

import contextlib
import random
import shutil
import signal
import socket
import subprocess
import time
from pathlib import Path
from typing import Self

import pyspark

JARS = Path(pyspark.__file__).parent / "jars"
PATIENCE = 60.0
ELECTION_S = 10.0
"""Seconds that servers grant each other to agree; a server that takes longer starts a new election."""
LOGGING = """status = error
appender.out.type = Console
appender.out.name = out
appender.out.layout.type = PatternLayout
appender.out.layout.pattern = %d{HH:mm:ss.SSS} %p %c{1} [%t] %m%n
rootLogger.level = info
rootLogger.appenderRef.out.ref = out
logger.questions.name = org.apache.zookeeper.server.NIOServerCnxn
logger.questions.level = warn
"""


def is_possible() -> bool:
    """Whether a ZooKeeper can be run here."""
    return shutil.which("java") is not None and any(JARS.glob("zookeeper-[0-9]*.jar"))


def free_ports(count: int) -> list[int]:
    """Returns ports of the loopback address that nobody uses now.

    They lie below those that the system gives to outgoing connections: one of these would take the place of a server
    before it starts, or while it is down.
    """
    found: list[int] = []
    for port in random.SystemRandom().sample(range(10_000, 32_000), 2000):
        if len(found) == count:
            break
        with socket.socket() as tried:
            # As the servers do, so that a port of which old connections are left is not refused.
            tried.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            with contextlib.suppress(OSError):
                tried.bind(("127.0.0.1", port))
                found.append(port)
    return found


class Ensemble:
    """Servers that elect a leader; one alone stands for itself.  Started and stopped by `with`.

    Args:
        folder: of their files; it must be empty.
        size: how many servers.
        tick_ms: half of the shortest session that they grant; a lost leader is noticed after a few of them.
        settings: more of zoo.cfg.
        java: more arguments of the JVM, as "-Djute.maxbuffer=...".
        class_path: of another version of ZooKeeper.
    """

    def __init__(
        self,
        folder: Path,
        size: int = 3,
        *,
        tick_ms: int = 200,
        settings: dict[str, object] | None = None,
        java: tuple[str, ...] = (),
        class_path: str = f"{JARS}/*",
    ) -> None:
        self.folder = folder
        self.size = size
        ports = free_ports(3 * size)
        self.ports, self._peer_ports = ports[:size], ports[size:]
        self._java = java
        self._class_path = class_path
        self._processes: dict[int, subprocess.Popen[bytes]] = {}
        self._write_configurations(tick_ms, settings or {})

    def _write_configurations(self, tick_ms: int, settings: dict[str, object]) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        (self.folder / "log4j2.properties").write_text(LOGGING)
        peers = self._peer_ports
        servers = {
            f"server.{number + 1}": f"127.0.0.1:{peers[2 * number]}:{peers[2 * number + 1]}"
            for number in range(self.size)
        }
        for number, port in enumerate(self.ports):
            home = self.folder / f"server-{number}"
            (home / "data").mkdir(parents=True)
            (home / "data" / "myid").write_text(f"{number + 1}\n")
            lines = {
                "tickTime": tick_ms,
                "initLimit": max(2, round(ELECTION_S * 1000 / tick_ms)),
                "syncLimit": 10,
                "dataDir": home / "data",
                "clientPort": port,
                "clientPortAddress": "127.0.0.1",
                "admin.enableServer": "false",
                "maxClientCnxns": 0,
                "4lw.commands.whitelist": "*",
                **(servers if self.size > 1 else {}),
                **settings,
            }
            (home / "zoo.cfg").write_text("".join(f"{name}={value}\n" for name, value in lines.items()))

    @property
    def hosts(self) -> str:
        """All servers, as clients take them."""
        return ",".join(f"127.0.0.1:{port}" for port in self.ports)

    def start(self) -> None:
        """Starts every server that does not run, and waits until the ensemble answers."""
        for number in range(self.size):
            if number not in self._processes:
                self.start_server(number)
        self.wait_until_answering()

    def start_server(self, number: int) -> None:
        """Starts one server; it may not answer yet."""
        home = self.folder / f"server-{number}"
        call = ["java", "-Xmx96m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"]
        # A lost message of an election is sent again after a second; the default backs off to a minute.
        call += ["-Dzookeeper.fastleader.maxNotificationInterval=1000"]
        call += [f"-Dlog4j2.configurationFile={self.folder / 'log4j2.properties'}"]
        call += [*self._java, "-cp", self._class_path]
        with open(home / "out", "ab") as out:
            self._processes[number] = subprocess.Popen(
                [*call, "org.apache.zookeeper.server.quorum.QuorumPeerMain", str(home / "zoo.cfg")],
                stdout=out,
                stderr=out,
                cwd=home,
            )

    def kill_server(self, number: int) -> None:
        """Ends one server at once, as by a loss of power; its files stay."""
        process = self._processes.pop(number)
        process.send_signal(signal.SIGKILL)
        process.wait(PATIENCE)

    def stop(self) -> None:
        """Ends all servers."""
        for number in list(self._processes):
            self.kill_server(number)

    def mode(self, number: int) -> str | None:
        """Returns "leader", "follower" or "standalone"; None where a server does not answer or is not ready."""
        try:
            with socket.create_connection(("127.0.0.1", self.ports[number]), 1.0) as asked:
                asked.settimeout(1.0)
                asked.sendall(b"srvr")
                answer = b""
                while piece := asked.recv(4096):
                    answer += piece
        except OSError:
            return None
        for line in answer.decode().splitlines():
            if line.startswith("Mode: "):
                return line.removeprefix("Mode: ")
        return None

    def leader(self) -> int:
        """Returns the number of the server that leads, and waits until there is one."""
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline:
            for number in self._processes:
                if self.mode(number) in ("leader", "standalone"):
                    return number
            time.sleep(0.05)
        raise AssertionError(self.output())

    def wait_until_answering(self) -> None:
        """Waits until every server that runs serves clients.

        One that does not is started again, as its operator would do: an election that hangs is a fault of ZooKeeper
        alone.
        """
        for starts_left in (1, 0):
            silent = self._still_silent_after(PATIENCE)
            if not silent:
                return
            print(f"ZooKeeper: servers {silent} do not answer; starts left: {starts_left}\n{self.output()}")
            assert starts_left
            for number in silent:
                self.kill_server(number)
                self.start_server(number)

    def _still_silent_after(self, seconds: float) -> list[int]:
        """Returns the servers that run and do not serve clients after so long; none at once where all do."""
        deadline = time.monotonic() + seconds
        while silent := [number for number in self._processes if self.mode(number) is None]:
            assert all(process.poll() is None for process in self._processes.values()), self.output()
            if time.monotonic() > deadline:
                break
            time.sleep(0.05)
        return silent

    def output(self) -> str:
        """Returns the end of what each server printed."""
        outs = sorted(self.folder.glob("*/out"))
        return "\n".join(f"{path.parent.name}:\n{path.read_text(errors='replace')[-4000:]}" for path in outs)

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()


def expire_session(client: object, hosts: str) -> None:
    """Ends the session of an idle kazoo client, as the ensemble does with one that it did not hear of.

    For one with requests under way `outlast_session` does it: there a second client of the session has servers of 3.9
    take its end for an answer to one of these, or fail for good.
    """
    from kazoo.client import KazooClient

    other = KazooClient(hosts=hosts, client_id=client.client_id, timeout=10)  # type: ignore[attr-defined]
    other.start(timeout=PATIENCE)
    other.stop()
    other.close()
