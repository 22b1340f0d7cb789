"""offsetlog keeps the committed positions of consumer groups, in Kafka's own files.

The names are imported only when they are first used, because the readers on Spark's executors need no store and do not
load one.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from offsetlog import errors, types
    from offsetlog._native.tickets import Ticket
    from offsetlog.config import MaintenanceConfig, StoreConfig
    from offsetlog.history.restore import Restoration, Undeletion
    from offsetlog.history.rewinds import Rewind, Rewinds
    from offsetlog.lifecycle.accept_loss import accept_loss
    from offsetlog.opening import open, open_async  # noqa: A004  (offsetlog.open, like gzip.open)
    from offsetlog.store import OffsetStore
    from offsetlog.transaction import Transaction
    from offsetlog.types import (
        Change,
        CleaningReport,
        Committed,
        Create,
        Deletion,
        Digest,
        Durability,
        Expiring,
        ExpiryReport,
        History,
        HistoryEntry,
        OffsetAndMetadata,
        OpenTransaction,
        PartitionHealth,
        PartitionKey,
        Position,
        StoreHealth,
        TopicPartition,
    )

__version__ = "0.1.0"

__all__ = [
    "Change",
    "CleaningReport",
    "Committed",
    "Create",
    "Deletion",
    "Digest",
    "Durability",
    "Expiring",
    "ExpiryReport",
    "History",
    "HistoryEntry",
    "MaintenanceConfig",
    "OffsetAndMetadata",
    "OffsetStore",
    "OpenTransaction",
    "PartitionHealth",
    "PartitionKey",
    "Position",
    "Restoration",
    "Rewind",
    "Rewinds",
    "StoreConfig",
    "StoreHealth",
    "Ticket",
    "TopicPartition",
    "Transaction",
    "Undeletion",
    "__version__",
    "accept_loss",
    "errors",
    "open",
    "open_async",
    "types",
]

_MODULES = {
    "Ticket": "offsetlog._native.tickets",
    "MaintenanceConfig": "offsetlog.config",
    "Restoration": "offsetlog.history.restore",
    "Rewind": "offsetlog.history.rewinds",
    "Rewinds": "offsetlog.history.rewinds",
    "StoreConfig": "offsetlog.config",
    "OffsetStore": "offsetlog.store",
    "accept_loss": "offsetlog.lifecycle.accept_loss",
    "open": "offsetlog.opening",
    "open_async": "offsetlog.opening",
    "Transaction": "offsetlog.transaction",
    "Undeletion": "offsetlog.history.restore",
}


if not TYPE_CHECKING:  # a type checker that sees it takes every name

    def __getattr__(name: str) -> Any:
        if name in ("errors", "types"):
            return import_module(f"offsetlog.{name}")
        if name.startswith("_") or name not in __all__:
            raise AttributeError(f"module 'offsetlog' has no attribute {name!r}")
        value = getattr(import_module(_MODULES.get(name, "offsetlog.types")), name)
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
