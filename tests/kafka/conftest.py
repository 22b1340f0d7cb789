"""Fixtures of the tests that run a real Kafka 4.3.0. All of them carry the marker ``kafka``.

Without Java, Maven or the packages these tests are skipped, and with ``OFFSETLOG_REQUIRE_KAFKA=1`` they fail. The
shared data of real brokers is looked for in ``../shared`` beside the repository, or where ``OFFSETLOG_SHARED``
points.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Iterator, Mapping
from pathlib import Path
from typing import NoReturn

import broker as kafka
import pytest
from kafka_answers import KafkaAnswers
from kafka_packages import REPOSITORY, KafkaMissing, KafkaPackages, find_packages
from spark_packages import find_spark_jars

HERE = Path(__file__).resolve().parent
_brokers = pytest.StashKey[list[kafka.KafkaBroker]]()

TemplateMaker = Callable[[int], kafka.Template]
BrokerMaker = Callable[..., kafka.KafkaBroker]
Installer = Callable[..., Path]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.kafka)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Shows the end of what the brokers of a failed test said."""
    report = yield
    if report.failed:
        for number, broker in enumerate(_brokers_of(item), start=1):
            for path in broker.log_files:
                text = path.read_text(encoding="utf-8", errors="replace")
                report.sections.append((f"broker {number}, {path}", text[-4000:]))
    return report


def _brokers_of(item: pytest.Item) -> list[kafka.KafkaBroker]:
    """Returns the brokers that a test has made so far, for its report and its end."""
    empty: list[kafka.KafkaBroker] = []
    return item.stash.setdefault(_brokers, empty)


def skip_or_fail(reason: str, environment: Mapping[str, str]) -> NoReturn:
    """Skips the test, or fails it where Kafka is required."""
    if environment.get("OFFSETLOG_REQUIRE_KAFKA") == "1":
        pytest.fail(f"Kafka is required here (OFFSETLOG_REQUIRE_KAFKA=1): {reason}")
    pytest.skip(reason)


@pytest.fixture(scope="session")
def kafka_packages() -> KafkaPackages:
    """Kafka's packages, fetched when they are not there yet."""
    try:
        return find_packages()
    except KafkaMissing as missing:
        skip_or_fail(str(missing), os.environ)


@pytest.fixture(scope="session")
def spark_jars() -> list[Path]:
    """Spark's Kafka source for the PySpark that is here, fetched when it is not there yet."""
    try:
        return find_spark_jars()
    except KafkaMissing as missing:
        skip_or_fail(str(missing), os.environ)


@pytest.fixture(scope="session")
def kafka_template(kafka_packages: KafkaPackages, tmp_path_factory: pytest.TempPathFactory) -> TemplateMaker:
    """``kafka_template(partitions) -> Template``; each number of partitions is made once in a session (about 5 s)."""
    made: dict[int, kafka.Template] = {}

    def template(partitions: int) -> kafka.Template:
        if partitions not in made:
            path = tmp_path_factory.mktemp(f"kafka-template-{partitions}")
            made[partitions] = kafka.make_template(kafka_packages, partitions, path)
        return made[partitions]

    return template


@pytest.fixture
def kafka_install(kafka_template: TemplateMaker, tmp_path: Path) -> Installer:
    """``kafka_install(offsets_dir, partitions, *, marker, checkpoints=True, topic_id=True) -> log_dir``.

    It makes the template for ``partitions`` when there is none yet; see broker.install for the rest.
    """
    count = 0

    def install(offsets_dir: Path, partitions: int, *, marker: kafka.Marker, **options: bool) -> Path:
        nonlocal count
        count += 1
        log_dir = tmp_path / f"kafka-{count}"
        return kafka.install(kafka_template(partitions), offsets_dir, log_dir, marker=marker, **options)

    return install


@pytest.fixture
def kafka_broker(
    kafka_packages: KafkaPackages, tmp_path: Path, request: pytest.FixtureRequest
) -> Iterator[BrokerMaker]:
    """``kafka_broker(log_dir, **settings) -> KafkaBroker``, not started; what still runs after the test is killed.

    Settings are given with underscores for dots: ``offsets_topic_num_partitions=8``.
    """
    brokers = _brokers_of(request.node)

    def make(log_dir: Path, **settings: object) -> kafka.KafkaBroker:
        named = {name.replace("_", "."): str(value) for name, value in settings.items()}
        work_dir = tmp_path / f"broker-{len(brokers) + 1}"
        broker = kafka.KafkaBroker(kafka_packages, log_dir, work_dir, settings=named)
        brokers.append(broker)
        return broker

    yield make
    for broker in brokers:
        broker.kill()


@pytest.fixture
def kafka_answers(kafka_packages: KafkaPackages) -> Callable[[kafka.KafkaBroker], KafkaAnswers]:
    """``kafka_answers(broker) -> KafkaAnswers`` for a broker that runs."""
    return lambda broker: KafkaAnswers(kafka_packages, broker.bootstrap)


@pytest.fixture(scope="session")
def kafka_data() -> Path:
    """The directories that real Kafka 4.3.0 brokers wrote, with their answers; skips where they are not."""
    shared = Path(os.environ.get("OFFSETLOG_SHARED", REPOSITORY.parent / "shared"))
    data = shared / "data" / "kafka-4.3.0"
    if not data.is_dir():
        pytest.skip(f"the shared data of real brokers is not in {data}")
    return data
