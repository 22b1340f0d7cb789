"""Columns that a query uses: as few as can be, never one too few, and the same answer."""

from __future__ import annotations

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import functions as fn

import offsetlog
from offsetlog import TopicPartition
from offsetlog.errors import ConfigError
from offsetlog.spark import read_pruned, used_columns
from offsetlog.spark.jobs.session import register
from offsetlog.spark.pruning import _LEAST
from offsetlog.spark.scan.options import VIEWS
from offsetlog.spark.scan.views import columns_of


def _twice(rows):
    later = rows.select(fn.col("group").alias("other"), "timestamp")
    return rows.join(later, rows["group"] == later["other"]).select("log_offset")


def _in_others(rows):
    return rows.where(fn.col("group").isNotNull()).select("topic", fn.col("offset") > fn.lit(3))


def _with_list(rows):
    ranks = rows.sparkSession.createDataFrame([("group-1", 1)], "group string, rank int")
    return rows.join(ranks, "group").select("rank")


QUERIES = {
    "sum": (lambda rows: rows.agg(fn.sum("offset")), ["offset"]),
    "count": (lambda rows: rows.groupBy().count(), [_LEAST]),
    "filter": (lambda rows: rows.where("kind = 'commit'").groupBy("topic").count(), ["topic", "kind"]),
    "sort": (lambda rows: rows.orderBy("log_offset").select("group").limit(3), ["group", "log_offset"]),
    "join": (_twice, ["group", "log_offset"]),
    "expression": (_in_others, ["group", "topic", "offset"]),
    "union": (lambda rows: rows.select("group").union(rows.select("topic")), ["group", "topic"]),
    "window": (
        lambda rows: rows.selectExpr("max(offset) over (partition by group order by log_offset) as most"),
        ["group", "offset", "log_offset"],
    ),
    "distinct": (lambda rows: rows.select("metadata").distinct(), ["metadata"]),
    "list of the driver": (_with_list, ["group"]),
    "all": (lambda rows: rows, None),
    "where": (lambda rows: rows.where("offset > 3"), None),
    "python": (lambda rows: rows.select(fn.udf(len, "int", useArrow=False)("metadata").alias("length")), ["metadata"]),
    "all rows of a union": (lambda rows: rows.union(rows), None),
}


@pytest.fixture(scope="module")
def log(tmp_path_factory):
    path = tmp_path_factory.mktemp("pruning") / "log"
    with offsetlog.open(path, 2, durability="process") as store:
        for number in range(40):
            store.commit(f"group-{number % 7}", {TopicPartition(f"topic-{number % 3}", 0): number})
    return path


def test_a_query_reads_the_columns_that_it_uses(spark, log):
    register(spark)
    rows = spark.read.format("offsetlog").load(str(log))
    found = {name: list(used_columns(rows, query)) for name, (query, _) in QUERIES.items()}
    assert found == {name: rows.columns if wanted is None else wanted for name, (_, wanted) in QUERIES.items()}


def test_the_answer_is_the_same(spark, log):
    register(spark)
    for name in ("sum", "count", "filter", "join", "expression"):
        query = QUERIES[name][0]
        whole = query(spark.read.format("offsetlog").load(str(log)))
        narrow = read_pruned(spark.read.format("offsetlog"), log, query)
        assert sorted(narrow.collect()) == sorted(whole.collect()), name


def _by_rdd(rows):
    pairs = rows.where("kind = 'commit'").rdd.map(lambda row: (row["group"], row["offset"]))
    return rows.sparkSession.createDataFrame(pairs, "name string, position bigint")


#: After these a plan begins again, and does not say what it is made of.
HIDDEN = {
    "cached": lambda rows: rows.where("kind = 'commit'").select("group").cache(),
    "cached below": lambda rows: rows.where("offset > 3").select("group", "offset").persist().agg(fn.sum("offset")),
    "rdd": _by_rdd,
    "lazy checkpoint": lambda rows: rows.where("kind = 'commit'").select("group").localCheckpoint(eager=False),
    "rdd beside the view": lambda rows: rows.select("group").join(_by_rdd(rows), fn.col("group") == fn.col("name")),
}


@pytest.mark.parametrize("name", HIDDEN)
def test_a_query_that_a_plan_does_not_show_uses_all_columns(spark, log, name):
    register(spark)
    query = HIDDEN[name]
    rows = spark.read.format("offsetlog").load(str(log))
    assert list(used_columns(rows, query)) == rows.columns
    narrow = read_pruned(spark.read.format("offsetlog"), log, query)
    assert sorted(narrow.collect()) == sorted(query(rows).collect()) != []
    spark.catalog.clearCache()


def test_a_column_that_no_plan_names_is_missing_and_not_null(spark, log):
    register(spark)

    def query(rows):
        # It runs a job, which it must not, so that no plan names these columns.
        found = rows.where("kind = 'commit'").select("group").collect()
        return rows.sparkSession.createDataFrame(found, "name string")

    with pytest.raises(AnalysisException, match="kind"):
        read_pruned(spark.read.format("offsetlog"), log, query)


def test_the_least_column_is_one_of_every_view():
    assert [view for view in VIEWS if _LEAST not in columns_of(view).names] == []


def test_problems_come_without_being_named(spark, log):
    register(spark)
    reader = spark.read.format("offsetlog").option("mode", "permissive")
    narrow = read_pruned(reader, log, lambda rows: rows.where("problem is null").agg(fn.count("group")))
    assert narrow.collect()[0][0] == 40


def test_a_session_that_shows_no_plans_is_refused():
    with pytest.raises(ConfigError, match="list the columns in the option 'columns'"):
        used_columns(object(), lambda rows: rows)  # type: ignore[arg-type]


@pytest.mark.parametrize("query", [lambda rows: rows.count(), lambda rows: rows.collect(), lambda rows: None])
def test_a_query_that_is_no_dataframe_is_refused_for_that(spark, log, query):
    register(spark)
    reader = spark.read.format("offsetlog")
    with pytest.raises(ConfigError, match=r"query must return a DataFrame, .* not (int|list|NoneType)"):
        read_pruned(reader, log, query)
