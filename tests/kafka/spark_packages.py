"""Spark's Kafka source, which PySpark does not bring: fetched once with Maven, as Kafka's own packages are.

The packages live in ``.cache/spark-kafka-4.2.0/`` of the repository, or in the directory that
``OFFSETLOG_SPARK_KAFKA_HOME`` names, which is used as it is and never written to.
"""

from __future__ import annotations

import fcntl
import hashlib
import importlib.metadata
import importlib.util
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

from kafka_packages import FETCH_SECONDS, HERE, REPOSITORY, KafkaMissing

SPARK_VERSION = "4.2.0"
POM = HERE / "spark-pom.xml"


def find_spark_jars() -> list[Path]:
    """Returns the jars for ``spark.jars``, fetching them where they are not there yet. Quick when they are.

    Safe against other processes doing the same at the same time. Raises KafkaMissing, also where PySpark is not the
    one that they are for.
    """
    found = importlib.metadata.version("pyspark") if importlib.util.find_spec("pyspark") else "none"
    if found != SPARK_VERSION:
        raise KafkaMissing(f"PySpark {SPARK_VERSION} is needed, here is {found}")
    named = os.environ.get("OFFSETLOG_SPARK_KAFKA_HOME")
    home = Path(named).resolve() if named else REPOSITORY / ".cache" / f"spark-kafka-{SPARK_VERSION}"
    if not named:
        try:
            home.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise KafkaMissing(f"no place for Spark's packages: {error}") from error
        with (home.parent / "spark-kafka.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not _is_complete(home):
                _fetch(home)
    jars = sorted(home.glob("*.jar"))
    if not any(jar.name.startswith("spark-sql-kafka-") for jar in jars):
        raise KafkaMissing(f"{home} does not hold the package spark-sql-kafka")
    return jars


def _digest() -> str:
    return hashlib.sha256(POM.read_bytes()).hexdigest()


def _is_complete(home: Path) -> bool:
    stamp = home / "fetched"
    return stamp.is_file() and stamp.read_text() == _digest()


def _fetch(home: Path) -> None:
    """Lets Maven copy the packages beside ``home`` and moves them there whole: an interrupted fetch leaves nothing."""
    maven = shutil.which("mvn")
    if maven is None:
        raise KafkaMissing(f"Spark's Kafka source is not in {home}, and there is no Maven (mvn) to fetch it")
    partial = Path(tempfile.mkdtemp(prefix=f"{home.name}.", dir=home.parent))
    goal = ["dependency:copy-dependencies", f"-DoutputDirectory={partial}", "-DincludeScope=runtime"]
    command = [maven, "-B", "-q", "-Dstyle.color=never", "-f", str(POM), *goal]
    environment = {name: value for name, value in os.environ.items() if name != "LD_PRELOAD"}
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, env=environment, timeout=FETCH_SECONDS, check=False
        )
        if done.returncode != 0:
            told = (done.stdout + done.stderr).strip()[-600:]
            raise KafkaMissing(f"Maven could not fetch Spark's Kafka source: {told}")
        (partial / "fetched").write_text(_digest())
        shutil.rmtree(home, ignore_errors=True)
        partial.rename(home)
    except subprocess.TimeoutExpired as late:
        raise KafkaMissing(f"Maven had not fetched Spark's Kafka source after {FETCH_SECONDS:.0f} s") from late
    finally:
        shutil.rmtree(partial, ignore_errors=True)
