"""Settings of a session.  The data source passes them to the processes that plan and read, which have no session."""

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

    Changes that are made to the session's settings later are not in the result.  For a session of Spark Connect, the
    result is empty.  The values may be secrets.
    """
    if getattr(spark, "sparkContext", None) is None:
        return HadoopSettings()
    jvm: Any = spark.sparkContext._jvm
    # This includes the settings that were made in the session itself, as Spark's own sources get them.
    configuration = spark._jsparkSession.sessionState().newHadoopConf()
    found: dict[str, str] = {}
    # The map is passed in one call; reading each entry would take several calls.
    mapper = jvm.com.fasterxml.jackson.databind.ObjectMapper()
    for prefix in PREFIXES:
        given = json.loads(mapper.writeValueAsString(configuration.getPropsWithPrefix(prefix)))
        found |= {prefix + name: value for name, value in given.items() if value is not None}
    return HadoopSettings.of(found)
