"""Checks that Spark can write a job's output.  Spark needs a package for all file systems but local ones and HDFS."""

from __future__ import annotations

import re
from typing import Any

from pyspark.sql import SparkSession

from offsetlog.errors import ConfigError

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):/")
#: The packages of Hadoop's file systems, by scheme; their version must be that of Spark's Hadoop.
_PACKAGES = {
    "s3a": "org.apache.hadoop:hadoop-aws",
    "abfs": "org.apache.hadoop:hadoop-azure",
    "abfss": "org.apache.hadoop:hadoop-azure",
    "gs": "com.google.cloud.bigdataoss:gcs-connector",
}


def check_writable(spark: SparkSession, target: str) -> None:
    """Refuses a URI for which Spark has no file system.  Contacts no server.

    Raises:
        ConfigError: the file system is missing; the message names its package, if that is known.
    """
    found = _SCHEME.match(target)
    if found is None:
        return
    scheme = found[1].lower()
    jvm: Any = spark.sparkContext._jvm
    configuration = spark._jsparkSession.sessionState().newHadoopConf()
    try:
        jvm.org.apache.hadoop.fs.FileSystem.getFileSystemClass(scheme, configuration)
    except Exception as failure:
        if not any(each in str(failure) for each in ("No FileSystem for scheme", "ClassNotFoundException")):
            raise
        raise ConfigError(f"Spark has no file system for {scheme}://{_way(scheme, jvm)}") from None


def _way(scheme: str, jvm: Any) -> str:
    if scheme == "s3":
        return "; write to s3a://"
    package = _PACKAGES.get(scheme)
    if package is None:
        return ""
    version = "VERSION" if scheme == "gs" else jvm.org.apache.hadoop.util.VersionInfo.getVersion()
    return f"; add it with --conf spark.jars.packages={package}:{version}"
