"""Reads of a log that decode only the columns that a query uses.

PySpark does not report the needed columns to a Python source (4.0 to 4.3 have no hook for it).  Unless the option
`columns` is given, every query therefore decodes whole rows.  Spark's optimizer knows the needed columns.  This module
makes Spark optimize the query over whole rows, without running it, and takes the columns from the optimized plan.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from pyspark.sql import DataFrame, DataFrameReader
from pyspark.sql import functions as fn

from offsetlog.errors import ConfigError
from offsetlog.spark.scan.views import PROBLEM

Query = Callable[[DataFrame], DataFrame]

#: A column of every view; a query that uses no column at all, such as a count, reads this one.
_LEAST = "log_partition"
#: Nodes that use only the columns in their expressions and pass the others to the node above, which names those that it
#: uses.  For any other node, such as a union or a Python function, all of its input counts as used.
_NAMES_WHAT_IT_USES = frozenset(
    {
        "Aggregate",
        "Expand",
        "Filter",
        "Generate",
        "GlobalLimit",
        "Join",
        "LocalLimit",
        "Project",
        "Repartition",
        "RepartitionByExpression",
        "Sample",
        "Sort",
        "Window",
    }
)
#: Leaves that do not hide rows of the view: the view itself, other tables, and rows of the driver.
_KNOWN_LEAVES = frozenset(
    {
        "DataSourceV2Relation",
        "DataSourceV2ScanRelation",
        "HiveTableRelation",
        "LocalRelation",
        "LogicalRelation",
        "OneRowRelation",
        "Range",
    }
)


def used_columns(rows: DataFrame, query: Query) -> tuple[str, ...]:
    """Returns the columns of a view that a query uses, in the view's order; always at least one column.

    This function calls the query once.  Spark optimizes the resulting DataFrame without running it.  The result
    includes each column that Spark cannot prove to be unused.  If the query caches, takes a checkpoint or goes through
    an RDD, the plan does not show the columns used before that step, and the function returns all columns.

    Args:
        rows: the view, from `spark.read.format("offsetlog").load(path)`.
        query: a function that makes the wanted DataFrame from the view; it must not run a job itself.

    Raises:
        ConfigError: the query does not return a DataFrame, or the session is one of Spark Connect, which shows no
            plans.

    Can be called from any thread that may use the session.
    """
    used, _ = _columns_of(rows, query)
    return used


def _columns_of(rows: DataFrame, query: Query) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Returns the result of `used_columns`, and the columns that Spark's analyzed plan of the query names."""
    wanted = query(rows)
    # A DataFrame of Spark Connect may be of another class.
    if not isinstance(wanted, (DataFrame, type(rows))):
        raise ConfigError(
            f"query must return a DataFrame, such as rows.where(...), not {type(wanted).__name__}; call count() or "
            "collect() on the DataFrame that read_pruned returns"
        )
    plan = getattr(wanted, "_jdf", None)
    if plan is None:
        raise ConfigError("Spark Connect does not show the plan of a query; list the columns in the option 'columns'")
    execution = plan.queryExecution()
    used = set(_used(execution.optimizedPlan(), rows.columns))
    named = set(_used(execution.analyzed(), rows.columns))
    found = tuple(name for name in rows.columns if name in used and name != PROBLEM)
    return found or (_LEAST,), tuple(name for name in rows.columns if name in named)


def read_pruned(reader: DataFrameReader, path: str | os.PathLike[str], query: Query) -> DataFrame:
    """Returns a query over a log that decodes only the columns which the query uses.

    The query is called twice.  In the first call the view has all columns.  In the second call it has only the columns
    that the query used or named in the first call.

    >>> totals = read_pruned(
    ...     spark.read.format("offsetlog"), "/var/kafka-logs", lambda commits: commits.groupBy("topic").count()
    ... )  # doctest: +SKIP

    Args:
        reader: `spark.read.format("offsetlog")` with its options; this function sets its option `columns`, which stays
            set.
        path: the path of the log.
        query: as for `used_columns`; it is called twice.

    Raises:
        Everything that `used_columns` and the source raise.
    """
    whole = reader.load(os.fspath(path))
    columns, named = _columns_of(whole, query)
    narrow = reader.option("columns", ",".join(columns)).load(os.fspath(path))
    # A column that the query names and Spark finds unused is present and null.  A column that no plan names is missing:
    # a query that takes rows in a way that no plan shows must fail instead of reading nulls.
    filled = [
        fn.col(field.name) if field.name in narrow.columns else fn.lit(None).cast(field.dataType).alias(field.name)
        for field in whole.schema
        if field.name in narrow.columns or field.name in named
    ]
    return query(narrow.select(*filled))


def _used(plan: Any, everything: Sequence[str]) -> Iterator[str]:
    """Yields the names of the columns that a plan and its subqueries use from the plan's leaves.

    A leaf such as a cache may hide a part of the query.  If the plan has such a leaf, yields all names in `everything`.
    """
    wanted = _ids(plan.outputSet())
    leaves = []
    waiting = [plan]
    while waiting:
        node = waiting.pop()
        for subquery in _items(node.subqueries()):
            yield from _used(subquery, everything)
        children = list(_items(node.children()))
        if not children:
            leaves.append(node)
            continue
        wanted |= _ids(node.references())
        if node.nodeName() not in _NAMES_WHAT_IT_USES:
            for child in children:
                wanted |= _ids(child.outputSet())
        waiting += children
    for leaf in leaves:
        if _hides_a_query(leaf):
            yield from everything
        for attribute in _items(leaf.output()):
            if attribute.exprId().id() in wanted:
                yield attribute.name()


def _hides_a_query(leaf: Any) -> bool:
    """Returns whether a leaf of a plan may hold rows that the query itself made, such as a cache or an RDD."""
    kind = leaf.getClass().getSimpleName()
    return not _is_of_driver(leaf.rdd()) if kind == "LogicalRDD" else kind not in _KNOWN_LEAVES


def _is_of_driver(rdd: Any) -> bool:
    """Returns whether an RDD contains only rows that the driver sends, as after `createDataFrame` with a list."""
    waiting = [rdd]
    while waiting:
        rdd = waiting.pop()
        before = [each.rdd() for each in _items(rdd.dependencies())]
        if not before and rdd.getClass().getSimpleName() != "ParallelCollectionRDD":
            return False
        waiting += before
    return True


def _items(sequence: Any) -> Iterator[Any]:
    """Yields the elements of a Scala Seq."""
    for index in range(sequence.size()):
        yield sequence.apply(index)


def _ids(attributes: Any) -> set[int]:
    return {attribute.exprId().id() for attribute in _items(attributes.toSeq())}
