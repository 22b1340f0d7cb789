"""The surroundings of the pages of Spark: its settings, a store of objects, servers, a command of Kafka, a cluster.

A page makes its session itself, with packages that a JVM takes at its start only: it runs in a process of its own.
"""

from __future__ import annotations

import contextlib
import os
import shlex
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from offsetlog.pytest import ServerFactory
from tests.kafka.kafka_packages import KafkaPackages, find_packages
from tests.maven_packages import POMS, find_jars
from tests.page_hosts import BROKER, Play
from tests.pages import ROOT, play
from tests.spark.s3_server import S3Server, s3_server
from tests.spark_cluster.standalone import JVM_FLAGS, StandaloneCluster

JAR = ROOT / "build" / "jvm" / "offsetlog-spark.jar"
GROUP_COMMAND = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"
#: How long a page is waited for; far more than it takes.
PAGE_SECONDS = 1200
#: Topics of the broker's directory, to which the page commits on a server, and their partitions.
TOPICS = {"billing.in": 4, "orders-in": 6, "rx-etl": 2, "rx-search-index": 2, "orders": 3}
#: The only one with records, by partition.
ORDERS = {0: 5, 1: 3}


def differences_of(page: str) -> str:
    """Runs a page in a process of its own; returns what it prints that the page does not show, "" for nothing."""
    environment = {name: value for name, value in os.environ.items() if name != "LD_PRELOAD"}
    command = [sys.executable, "-m", "tests.pages", "--check", page]
    with subprocess.Popen(command, cwd=ROOT, env=environment, stderr=subprocess.PIPE, text=True) as process:
        try:
            said = process.communicate(timeout=PAGE_SECONDS)[1]
        except subprocess.TimeoutExpired:
            # As a person would end it, so that it ends the servers that it started.
            process.send_signal(signal.SIGINT)
            raise AssertionError(f"{page} ran for {PAGE_SECONDS} s: {process.communicate()[1][-4000:]}") from None
    return "" if process.returncode == 0 else said


@contextlib.contextmanager
def spark_manual() -> Iterator[Play]:
    """The machine of the page's reader, in a directory of its own."""
    from offsetlog.pytest.running_server import OffsetlogServer

    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        logs = folder / "kafka-logs"
        shutil.copytree(BROKER, logs)
        objects = stack.enter_context(s3_server(folder / "s3"))
        put_backup(objects, logs)
        servers = stack.enter_context(ServerFactory(lambda: Path(tempfile.mkdtemp(dir=folder))))
        offsets: OffsetlogServer = stack.enter_context(servers())
        kafka: OffsetlogServer = stack.enter_context(servers())
        for running in (offsets, kafka):
            for topic, partitions in TOPICS.items():
                running.create_topic(topic, partitions)
        produce(kafka.bootstrap_servers)
        key, secret = objects.access_key, objects.secret_key
        jars = ",".join(map(str, find_jars(POMS / "spark-kafka.xml")))
        settings = {
            "spark.master": "local[2]",
            "spark.sql.shuffle.partitions": "2",
            "spark.jars": jars,
            "spark.driver.extraJavaOptions": JVM_FLAGS,
        }
        commands = commands_directory(folder, find_packages())
        given = {
            "PATH": f"{commands}{os.pathsep}{os.environ['PATH']}",
            "AWS_EC2_METADATA_DISABLED": "true",
            "AWS_ENDPOINT_URL": objects.settings["fs.s3a.endpoint"],
            "AWS_REGION": "us-east-1",
            "AWS_ACCESS_KEY_ID": key,
            "AWS_SECRET_ACCESS_KEY": secret,
        }
        stack.enter_context(variables({**given, **spark_variables(folder, settings)}))
        stack.callback(stop_spark)
        replaced = {
            "/var/kafka-logs": str(logs),
            "/data/": f"{folder}/data/",
            "/lake/": f"{folder}/lake/",
            "build/jvm/offsetlog-spark.jar": str(JAR),
            "https://objects.example:9000": objects.settings["fs.s3a.endpoint"],
            "offsets.example:9092": offsets.bootstrap_servers,
            "kafka:9092": kafka.bootstrap_servers,
        }
        yield partial(play, replaced=replaced)


@contextlib.contextmanager
def spark_cluster() -> Iterator[Play]:
    """A stand-alone cluster of Spark; the log below /var is on the workers' machines alone, where that can be made."""
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        cluster = StandaloneCluster(folder)
        stack.callback(cluster.close)
        shutil.copytree(BROKER, folder / "mnt" / "kafka-logs")
        shutil.copytree(BROKER, cluster.shown / "kafka-logs")
        hidden = cluster.hidden or cluster.shown
        settings = {"spark.driver.extraJavaOptions": JVM_FLAGS, "spark.executor.extraJavaOptions": JVM_FLAGS}
        stack.enter_context(variables(spark_variables(folder, settings)))
        stack.callback(stop_spark)
        replaced = {
            "/var/kafka-logs": str(hidden / "kafka-logs"),
            "/mnt/": f"{folder}/mnt/",
            "/opt/offsetlog/bin/python": sys.executable,
            "spark://master.example:7077": cluster.url,
        }
        yield partial(play, replaced=replaced)


def put_backup(objects: S3Server, logs: Path) -> None:
    """Copies the broker's directory to the bucket of the page."""
    objects.files.create_dir("backup")
    for path in logs.rglob("*"):
        if path.is_file():
            with objects.files.open_output_stream(f"backup/kafka-logs/{path.relative_to(logs)}") as stream:
                stream.write(path.read_bytes())


def produce(server: str) -> None:
    """Sends some records to the topic that the page's query reads."""
    import confluent_kafka

    producer = confluent_kafka.Producer({"bootstrap.servers": server, "log_level": 2})
    for partition, count in ORDERS.items():
        for number in range(count):
            producer.produce("orders", f"order {number}".encode(), partition=partition)
    assert producer.flush(30) == 0


def spark_variables(folder: Path, more: dict[str, str]) -> dict[str, str]:
    """Writes Spark's defaults for this machine, and more, which no page names; returns the environment for it."""
    made = folder / "conf"
    made.mkdir()
    shutil.copy(ROOT / "offsetlog" / "spark" / "jobs" / "log4j2.properties", made)
    settings = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.memory": "1g",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.local.dir": folder / "local",
        "spark.sql.warehouse.dir": folder / "warehouse",
        "spark.sql.session.timeZone": "UTC",
        **more,
    }
    (made / "spark-defaults.conf").write_text("".join(f"{name} {value}\n" for name, value in settings.items()))
    return {
        "PYTHONPATH": str(ROOT),
        "SPARK_CONF_DIR": str(made),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "PYSPARK_PYTHON": sys.executable,
    }


def commands_directory(folder: Path, kafka: KafkaPackages) -> Path:
    """Writes Kafka's command of groups; returns its directory."""
    made = folder / "bin"
    made.mkdir()
    program = made / "kafka-consumer-groups"
    program.write_text(f'#!/bin/sh\nexec {shlex.join(kafka.command(GROUP_COMMAND))} "$@"\n')
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    return made


@contextlib.contextmanager
def variables(given: dict[str, str]) -> Iterator[None]:
    """Sets variables of the environment, and restores them."""
    before = {name: os.environ.get(name) for name in given}
    os.environ.update(given)
    try:
        yield
    finally:
        for name, value in before.items():
            os.environ.pop(name, None)
            if value is not None:
                os.environ[name] = value


def stop_spark() -> None:
    """Ends the queries and the session of the page."""
    session: Any = SparkSession.getActiveSession()
    if session is not None:
        for query in session.streams.active:
            query.stop()
        session.stop()
