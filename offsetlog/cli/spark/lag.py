"""`offsetlog spark lag`: the lag of groups."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from offsetlog.cli.arguments import LogPartitions, OutputFormat, Wide
from offsetlog.cli.columns import columns
from offsetlog.cli.output import Format, Output, complain
from offsetlog.cli.spark.options import (
    DirectoryPath,
    DriverMemory,
    Master,
    OutputDirectory,
    Overwrite,
    Permissive,
    Settings,
)
from offsetlog.cli.spark.session import checked_on_driver, report_incomplete, spark_for
from offsetlog.errors import ConfigError, InvalidArgumentError
from offsetlog.moments import parse_duration, parse_time
from offsetlog.spark.jobs.places import check_paths

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

HELP = """Print how far every group lags behind the ends of the logs that it reads.

One of three options gives the log ends. --ends names samples in Parquet, .csv or .json, with the columns topic,
partition, log_end_offset and, if known, log_start_offset and timestamp (ms, or a time). --bootstrap names a cluster;
the command asks the brokers for the present log ends. --logs names log directories of brokers, whose newest segments
show the ends. With --at or --every, the command prints the lag over time; the samples must then have timestamps.

The rows are sums by group and topic. --output writes a row for each partition, as Parquet. A position beyond the end of
its log is reported, and counts as lag 0. Positions before the start of their log and positions whose log end is unknown
are also reported. A log with missing parts is refused without --permissive.

Exit codes: 0 done; 1 done with --permissive, but data is missing; 2 refused, or data could not be read or written.

\b
Examples:
  offsetlog spark lag data --bootstrap localhost:9092
  offsetlog spark lag /var/kafka-logs --logs /var/kafka-logs --output lag
  offsetlog spark lag data --ends samples.parquet --every 1h --output lag
"""


def _row(row: dict[str, Any]) -> dict[str, Any]:
    # Renames the fields of the job's table to the names that all commands share.
    return {**row, "timestamp": row.get("time"), "lost_partitions": row["lost"]}


def _client_config(bootstrap: str, settings: list[str] | None) -> dict[str, str]:
    config = {"bootstrap.servers": bootstrap}
    for setting in settings or []:
        name, equals, value = setting.partition("=")
        if not equals:
            raise InvalidArgumentError(f"{setting!r} is not a setting; write it as NAME=VALUE")
        config[name] = value
    return config


def _ends(
    spark: SparkSession,
    path: str,
    log_partitions: str | None,
    samples: str | None,
    bootstrap: str | None,
    kafka: list[str] | None,
    logs: list[str] | None,
    *,
    permissive: bool,
    problems: list[str],
) -> DataFrame:
    from offsetlog.spark.jobs import lag, lag_ends

    if samples is not None:
        return lag_ends.of_samples(spark, samples)
    if bootstrap is not None:
        keys = lag.keys(spark, path, partitions=log_partitions, permissive=permissive)
        return lag_ends.of_broker(spark, keys, _client_config(bootstrap, kafka))
    return lag_ends.of_directories(spark, logs or [], permissive=permissive, problems=problems)


def command(
    path: DirectoryPath,
    ends: Annotated[
        str | None,
        typer.Option("--ends", metavar="PATH", help="Read the log end offsets from these samples.", show_default=False),
    ] = None,
    bootstrap: Annotated[
        str | None,
        typer.Option(
            "--bootstrap", metavar="HOST:PORT,...", help="Ask this cluster for the log end offsets.", show_default=False
        ),
    ] = None,
    kafka: Annotated[
        list[str] | None,
        typer.Option(
            "--kafka",
            metavar="NAME=VALUE",
            help="A setting of confluent-kafka's client. Can be given several times.",
            show_default=False,
        ),
    ] = None,
    logs: Annotated[
        list[str] | None,
        typer.Option(
            "--logs",
            metavar="DIR",
            help="Read the log end offsets from this log directory of a broker. Can be given several times.",
            show_default=False,
        ),
    ] = None,
    at: Annotated[
        list[str] | None,
        typer.Option(
            "--at", metavar="TIME", help="Print the lag at this time. Can be given several times.", show_default=False
        ),
    ] = None,
    every: Annotated[
        str | None,
        typer.Option(
            "--every",
            metavar="TIME",
            help="Print the lag at this interval, e.g. 1h, from the first sample to the last.",
            show_default=False,
        ),
    ] = None,
    log_partitions: LogPartitions = None,
    output_directory: OutputDirectory = None,
    overwrite: Overwrite = False,
    permissive: Permissive = False,
    master: Master = None,
    driver_memory: DriverMemory = None,
    settings: Settings = None,
    wide: Wide = False,
    form: OutputFormat = Format.TEXT,
) -> int:
    """Prints the lag; returns the exit code."""
    if sum(given is not None for given in (ends, bootstrap, logs)) != 1:
        raise ConfigError("give the source of the log end offsets: exactly one of --ends, --bootstrap and --logs")
    times = None if at is None else [round(parse_time(each).timestamp() * 1000) for each in at]
    step_ms = None if every is None else parse_duration(every)
    if (times is not None or step_ms is not None) and ends is None:
        raise ConfigError(
            "--at and --every need --ends; --bootstrap and --logs give only the present log ends"
        )
    with checked_on_driver(master):
        check_paths(path, output_directory, overwrite, *(logs or []))
    with spark_for("lag", master, driver_memory, settings, output_directory) as spark:
        from offsetlog.spark.jobs import lag as job
        from offsetlog.spark.jobs.completeness import write_marked

        is_over_time = times is not None or step_ms is not None
        problems = [
            *job.problems(spark, path, partitions=log_partitions, is_over_time=is_over_time, permissive=permissive)
        ]
        known = _ends(
            spark, path, log_partitions, ends, bootstrap, kafka, logs, permissive=permissive, problems=problems
        )
        table = job.run(
            spark,
            path,
            known,
            partitions=log_partitions,
            times=times,
            step_ms=step_ms,
            permissive=permissive,
            reported=problems,
        )
        if output_directory is not None:
            tables = {"lag": table}
            write_marked(spark, tables, output_directory, path=path, problems=problems, overwrite=overwrite)
            # Reads the written rows back instead of computing them again.
            table = spark.read.parquet(f"{output_directory.rstrip('/')}/lag")
        order = ["time", "group", "topic"] if is_over_time else ["group", "topic"]
        rows = (_row(row.asDict()) for row in job.by_topic(table).orderBy(*order).toLocalIterator())
        name = "spark lag --every" if is_over_time else "spark lag"
        if Output(form).rows(columns(name), rows, "nothing is committed", wide=wide) == 0 and is_over_time:
            complain("nothing was committed at any of these times")
    return report_incomplete(problems)
