"""offsetlog on Spark, through PySpark: `spark.read.format("offsetlog")`, streams, a sink, a listener, and jobs.

This package needs the extra `offsetlog[spark]`.  Its names are imported when they are first used.  Therefore the
modules that run on executors (`offsetlog.spark.scan`, and the staging of the sink) do not import a store.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from offsetlog.spark.checkpoints import import_checkpoint, read_checkpoint
    from offsetlog.spark.executor_planning import read_on_executors
    from offsetlog.spark.listener import OffsetCommitListener
    from offsetlog.spark.positions import source_topic, starting_offsets
    from offsetlog.spark.pruning import read_pruned, used_columns
    from offsetlog.spark.sink.writer import commit_batch
    from offsetlog.spark.source import OffsetlogDataSource, register

__all__ = [
    "OffsetCommitListener",
    "OffsetlogDataSource",
    "commit_batch",
    "import_checkpoint",
    "read_checkpoint",
    "read_on_executors",
    "read_pruned",
    "register",
    "source_topic",
    "starting_offsets",
    "used_columns",
]

_MODULES = {
    "OffsetCommitListener": "offsetlog.spark.listener",
    "OffsetlogDataSource": "offsetlog.spark.source",
    "commit_batch": "offsetlog.spark.sink.writer",
    "import_checkpoint": "offsetlog.spark.checkpoints",
    "read_checkpoint": "offsetlog.spark.checkpoints",
    "read_on_executors": "offsetlog.spark.executor_planning",
    "read_pruned": "offsetlog.spark.pruning",
    "register": "offsetlog.spark.source",
    "source_topic": "offsetlog.spark.positions",
    "starting_offsets": "offsetlog.spark.positions",
    "used_columns": "offsetlog.spark.pruning",
}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module 'offsetlog.spark' has no attribute {name!r}")
    value = getattr(import_module(_MODULES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
