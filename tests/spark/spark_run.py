"""A program with a Spark of its own: PySpark has one JVM a process, whose class path is decided at its start.

    python spark_run.py FUNCTION < JSON       prints the answer, a line of JSON that begins with "answer "

The functions are here; the JSON holds their arguments, and "settings" of Spark.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
DEADLINE_SECONDS = 600.0
"""How long a run is waited for; far more than it takes."""


def run(
    function: str,
    arguments: dict[str, Any],
    *,
    pyspark: Path | None = None,
    directory: Path | None = None,
    **environment: str,
) -> Any:
    """Runs a function in a process of its own, with another PySpark, and in a directory, where these are given."""
    given = {**os.environ, "AWS_EC2_METADATA_DISABLED": "true", **environment}
    paths = [str(HERE.parent.parent), *([str(pyspark)] if pyspark is not None else []), given.get("PYTHONPATH", "")]
    given["PYTHONPATH"] = os.pathsep.join(each for each in paths if each)
    done = subprocess.run(
        [sys.executable, str(HERE / "spark_run.py"), function],
        input=json.dumps(arguments),
        capture_output=True,
        text=True,
        env=given,
        cwd=directory,
        timeout=DEADLINE_SECONDS,
        check=False,
    )
    answers = [line for line in done.stdout.splitlines() if line.startswith("answer ")]
    assert done.returncode == 0, f"{done.stdout[-2000:]}{done.stderr[-6000:]}"
    assert answers, f"{done.stdout[-2000:]}{done.stderr[-6000:]}"
    return json.loads(answers[-1].removeprefix("answer "))


def tables(settings: dict[str, str], log: str, form: str, names: dict[str, str], moments: dict[str, str]) -> Any:
    """Writes snapshots, a difference and a history to tables, and says what can be read there."""
    from pyspark.sql import functions as fn

    from offsetlog.spark.jobs import diff, snapshot
    from offsetlog.spark.jobs.session import read_view, session_for

    spark = session_for("tables", master="local[1]", settings=settings)

    def table(name: str) -> Any:
        return spark.table(names[name]) if form == "iceberg" else spark.read.format(form).load(names[name])

    def write(name: str, rows: Any) -> None:
        if form == "iceberg":
            rows.writeTo(names[name]).using("iceberg").create()
        else:
            rows.write.format(form).save(names[name])

    snapshots = [snapshot.run(spark, log, names["offsets"], at=moments["before"], table_format=form)]  # type: ignore[arg-type]
    try:
        snapshot.run(spark, log, names["offsets"], table_format=form)  # type: ignore[arg-type]
        refused = ""
    except Exception as failure:
        refused = str(failure)
    snapshots.append(snapshot.run(spark, log, names["offsets"], table_format=form, overwrite=True))  # type: ignore[arg-type]
    write("changes", diff.run(spark, log, before_at=moments["before"], after_at=None))
    write("history", read_view(spark, log, "history"))
    name = names["offsets"] if form == "iceberg" else f"delta.`{Path(names['offsets']).absolute()}`"
    properties = spark.sql(f"SHOW TBLPROPERTIES {name}")
    note = properties.where("key = 'offsetlog.snapshot'").select("value").collect()
    answer = {
        "snapshots": [[each.rows, each.positions] for each in snapshots],
        "refused": refused,
        "read back": snapshot.noted(table("offsets"))[:2],
        "note": json.loads(note[0]["value"]),
        "changes": sorted(
            [row["group"], row["topic"], row["partition"], row["change"]]
            for row in table("changes").select("group", "topic", "partition", "change").collect()
        ),
        "history": table("history").agg(fn.count("*"), fn.sum("offset")).first()[0:2],
    }
    spark.stop()
    return answer


def s3(settings: dict[str, str], log: str, uri: str, secrets: list[str]) -> Any:
    """Reads a log through Spark's settings and through options, and looks for secrets in what Spark shows."""
    from offsetlog.spark.jobs.session import session_for
    from offsetlog.spark.source import OffsetlogDataSource, register

    options = {name.removeprefix("spark.hadoop."): value for name, value in settings.items() if ".fs.s3a." in name}
    spark = session_for("s3", master="local[1]", settings=settings)

    def load(path: str, **more: str) -> Any:
        return spark.read.format("offsetlog").options(**more).load(path)

    def rows(frame: Any) -> list[str]:
        return sorted(map(repr, frame.toArrow().to_pylist()))

    def failure(call: Any) -> str:
        try:
            call()
        except Exception as caught:
            return str(caught)
        return ""

    def shown(frame: Any) -> str:
        execution = frame._jdf.queryExecution()
        return str(execution.toString()) + str(execution.explainString(_mode(spark)))

    answer: dict[str, Any] = {}
    local = {view: rows(load(log, view=view)) for view in ("commits", "offsets", "groups")}
    answer["registered"] = all(rows(load(uri, view=view)) == local[view] for view in local)
    texts = [shown(load(uri)), repr(vars(OffsetlogDataSource)), failure(lambda: load(uri + "-none").count())]
    wrong = {"fs.s3a.secret.key": "wrong-secret"}
    answer["wrong"] = failure(lambda: load(uri, **wrong).count())
    spark.dataSource.register(OffsetlogDataSource)
    answer["unregistered"] = failure(lambda: load(uri).count())
    answer["options"] = rows(load(uri, **options)) == local["commits"]
    texts += [shown(load(uri, **options)), answer["wrong"], answer["unregistered"]]
    # Settings of the session itself count as well, as for Spark's own sources.
    spark.conf.set("fs.s3a.secret.key", "wrong-secret")
    register(spark)
    answer["session"] = failure(lambda: load(uri).count())
    spark.conf.unset("fs.s3a.secret.key")
    register(spark)
    answer["again"] = rows(load(uri)) == local["commits"]
    answer["shown"] = [secret for secret in [*secrets, "wrong-secret"] if any(secret in text for text in texts)]
    spark.stop()
    return answer


def _mode(spark: Any) -> Any:
    return spark._jvm.org.apache.spark.sql.execution.ExplainMode.fromString("extended")


if __name__ == "__main__":
    print("answer " + json.dumps({"tables": tables, "s3": s3}[sys.argv[1]](**json.loads(sys.stdin.read()))))
