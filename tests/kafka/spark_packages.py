"""Spark's Kafka source, which PySpark does not bring: fetched once with Maven (``tests/packages/spark-kafka.xml``).

In the place of that, the directory that ``OFFSETLOG_SPARK_KAFKA_HOME`` names is used as it is and never written to.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
from pathlib import Path

from kafka_packages import KafkaMissing
from maven_packages import POMS, PackagesMissing, find_jars

SPARK_VERSION = "4.2.0"


def find_spark_jars() -> list[Path]:
    """Returns the jars for ``spark.jars``, fetching them where they are not there yet. Quick when they are.

    Raises KafkaMissing, also where PySpark is not the one that they are for.
    """
    found = importlib.metadata.version("pyspark") if importlib.util.find_spec("pyspark") else "none"
    if found != SPARK_VERSION:
        raise KafkaMissing(f"PySpark {SPARK_VERSION} is needed, here is {found}")
    named = os.environ.get("OFFSETLOG_SPARK_KAFKA_HOME")
    try:
        jars = sorted(Path(named).resolve().glob("*.jar")) if named else find_jars(POMS / "spark-kafka.xml")
    except PackagesMissing as missing:
        raise KafkaMissing(str(missing)) from missing
    if not any(jar.name.startswith("spark-sql-kafka-") for jar in jars):
        raise KafkaMissing(f"{named or POMS} does not hold the package spark-sql-kafka")
    return jars
