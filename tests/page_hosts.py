"""The surroundings that the blocks of a page need: a server on a free port, a broker's directory, an accident."""

from __future__ import annotations

import contextlib
import re
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import offsetlog
from offsetlog import TopicPartition
from tests.pages import ROOT, Printed, play

#: Runs a page, as `tests.pages.play`.
Play = Callable[..., Iterator[Printed]]

#: A directory of __consumer_offsets that Kafka 4.3.0 wrote, which comes with the package.
BROKER = ROOT / "offsetlog" / "cli" / "demo" / "kafka-4.3.0"
#: Between two commits whose times must differ, in seconds.
PAUSE_SECONDS = 0.01


@contextlib.contextmanager
def nothing() -> Iterator[Play]:
    """Pages that need nothing."""
    yield play


@contextlib.contextmanager
def server() -> Iterator[Play]:
    """Pages whose clients talk to `offsetlog serve` at 127.0.0.1:9092; a server on a free port stands for it."""
    from offsetlog.pytest import ServerFactory

    with tempfile.TemporaryDirectory() as folder, ServerFactory(lambda: Path(folder) / "server") as factory:
        Path(folder, "server").mkdir()
        with factory() as running:
            yield partial(play, replaced={"127.0.0.1:9092": running.bootstrap_servers})


@contextlib.contextmanager
def broker() -> Iterator[Play]:
    """Pages about /var/kafka-logs: a copy of what a broker wrote stands for it."""
    with tempfile.TemporaryDirectory() as folder:
        logs = Path(folder) / "kafka-logs"
        shutil.copytree(BROKER, logs)
        yield partial(play, replaced={"/var/kafka-logs": str(logs)})


@contextlib.contextmanager
def accident() -> Iterator[Play]:
    """Pages about a group that was reset at 2026-03-01T02:30:00; a moment of this run stands for it."""
    orders = [TopicPartition("orders", number) for number in range(3)]
    with tempfile.TemporaryDirectory() as folder:
        logs = Path(folder) / "kafka-logs"
        with offsetlog.open(logs, partitions=50) as store:
            for step in range(3):
                store.commit("billing", {key: 1200 + 40 * step + key.partition for key in orders})
                time.sleep(PAUSE_SECONDS)
            moment = datetime.fromisoformat(datetime.now(UTC).isoformat(timespec="milliseconds"))
            time.sleep(PAUSE_SECONDS)
            store.commit("billing", dict.fromkeys(orders, 0))
        replaced = {
            "/var/kafka-logs": str(logs),
            "2026-03-01T02:30:00": moment.isoformat(timespec="milliseconds").removesuffix("+00:00"),
        }
        shift = ACCIDENT - moment

        def shifted(page: str, **more: Any) -> Iterator[Printed]:
            for printed in play(page, replaced, **more):
                yield printed._replace(actual=shifted_text(printed.actual, shift))

        yield shifted


#: When the accident of the page happened.
ACCIDENT = datetime(2026, 3, 1, 2, 30, tzinfo=UTC)
TIME = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3}")
MILLISECONDS = re.compile(r"\b1\d{12}\b")
#: The page is read some minutes later.
AGE = re.compile(r"\b\d+ s ago\b")


def later(text: str, shift: timedelta) -> str:
    """Returns a time, as commands print it, that much later."""
    moved = datetime.fromisoformat(text).replace(tzinfo=UTC) + shift
    return moved.isoformat(sep=" ", timespec="milliseconds").removesuffix("+00:00")


def shifted_text(text: str, shift: timedelta) -> str:
    """Returns an output as if the accident had been at ACCIDENT."""
    text = TIME.sub(lambda found: later(found[0], shift), text)
    text = MILLISECONDS.sub(lambda found: str(int(found[0]) + shift // timedelta(milliseconds=1)), text)
    return AGE.sub("20 min ago", text)


@contextlib.contextmanager
def spark_manual() -> Iterator[Play]:
    """The manual of Spark; what it needs is imported for it alone."""
    from tests.spark import page_host

    with page_host.spark_manual() as play_page:
        yield play_page


@contextlib.contextmanager
def spark_cluster() -> Iterator[Play]:
    """The manual of clusters of Spark; likewise."""
    from tests.spark import page_host

    with page_host.spark_cluster() as play_page:
        yield play_page


@contextlib.contextmanager
def ensemble() -> Iterator[Play]:
    """Pages about zk1, zk2 and zk3, servers of one ZooKeeper, and a broker's directory."""
    from offsetlog.zookeeper.connection import ConnectionSettings, ZooKeeperConnection
    from tests.zookeeper.ensemble import Ensemble

    with tempfile.TemporaryDirectory() as name, Ensemble(Path(name) / "zookeeper") as servers, broker() as play_page:
        names = {f"zk{number}:2181": f"127.0.0.1:{port}" for number, port in enumerate(servers.ports, start=1)}
        with ZooKeeperConnection(ConnectionSettings(hosts=servers.hosts)) as connection:
            connection.create("/guarded")
        replaced = {**names, **play_page.keywords["replaced"]}
        yield partial(play, replaced=replaced)


HOSTS: dict[str, Callable[[], contextlib.AbstractContextManager[Play]]] = {
    "docs/how-to/offsets-were-reset.md": accident,
    "docs/kafka.md": accident,
    "docs/server.md": server,
    "docs/spark-clusters.md": spark_cluster,
    "docs/spark.md": spark_manual,
    "docs/zookeeper.md": ensemble,
    "docs/how-to/aiokafka.md": server,
    "docs/how-to/confluent-kafka.md": server,
    "docs/how-to/broker-directory.md": broker,
}


def host_of(page: str) -> contextlib.AbstractContextManager[Any]:
    """Returns the surroundings of a page, to be entered while it runs."""
    return HOSTS.get(page, nothing)()
