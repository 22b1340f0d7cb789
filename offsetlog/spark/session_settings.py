"""Settings of a session that the data source carries to the processes that plan and read and have no session."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from offsetlog.spark.scan.hadoop_settings import PREFIXES, HadoopSettings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def default_parallelism_of(spark: SparkSession) -> int:
    """Returns how many tasks the cluster runs at once; 0 for a session of Spark Connect, which does not report it."""
    context = getattr(spark, "sparkContext", None)
    return 0 if context is None else max(context.defaultParallelism, 1)


def hadoop_settings_of(spark: SparkSession) -> HadoopSettings:
    """Returns a session's Hadoop settings for file systems: `spark.hadoop.fs.s3a.*`, its core-site.xml and the like.

    Later changes of the session's settings are not seen; the result is empty for a session of Spark Connect.  The
    values may hold secrets.
    """
    if getattr(spark, "sparkContext", None) is None:
        return HadoopSettings()
    jvm: Any = spark.sparkContext._jvm
    # Includes the settings made in the session itself, as seen by Spark's own sources.
    configuration = spark._jsparkSession.sessionState().newHadoopConf()
    found: dict[str, str] = {}
    # The map is passed in one call; reading each entry would take several calls.
    mapper = jvm.com.fasterxml.jackson.databind.ObjectMapper()
    for prefix in PREFIXES:
        given = json.loads(mapper.writeValueAsString(configuration.getPropsWithPrefix(prefix)))
        found |= {prefix + name: value for name, value in given.items() if value is not None}
    return HadoopSettings.of(found)
