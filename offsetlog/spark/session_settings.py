"""Settings of a session that the processes which plan and read for it lack: they travel with the data source."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from offsetlog.spark.scan.hadoop_settings import PREFIXES, HadoopSettings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def default_parallelism_of(spark: SparkSession) -> int:
    """Returns how many tasks the cluster runs at a time; 0 for a session of Spark Connect, which does not say."""
    context = getattr(spark, "sparkContext", None)
    return 0 if context is None else max(context.defaultParallelism, 1)


def hadoop_settings_of(spark: SparkSession) -> HadoopSettings:
    """Returns Hadoop's settings of a session for file systems: `spark.hadoop.fs.s3a.*`, its core-site.xml and the like.

    As they are now: later settings are not among them.  None for a session of Spark Connect.  Secrets are among them.
    """
    if getattr(spark, "sparkContext", None) is None:
        return HadoopSettings()
    jvm: Any = spark.sparkContext._jvm
    # With what was set in the session itself, as Spark's own sources see it.
    configuration = spark._jsparkSession.sessionState().newHadoopConf()
    found: dict[str, str] = {}
    # A map is passed whole: each of its entries would be several calls.
    mapper = jvm.com.fasterxml.jackson.databind.ObjectMapper()
    for prefix in PREFIXES:
        given = json.loads(mapper.writeValueAsString(configuration.getPropsWithPrefix(prefix)))
        found |= {prefix + name: value for name, value in given.items() if value is not None}
    return HadoopSettings.of(found)
