"""offsetlog keeps the committed positions of consumer groups, in Kafka's own files."""

from offsetlog import errors
from offsetlog._native.tickets import Ticket
from offsetlog.config import MaintenanceConfig, StoreConfig
from offsetlog.store import OffsetStore, open  # noqa: A004  (offsetlog.open, like gzip.open)
from offsetlog.transaction import Transaction
from offsetlog.types import (
    Change,
    CleaningReport,
    Deletion,
    Digest,
    Expiring,
    ExpiryReport,
    History,
    HistoryEntry,
    OffsetAndMetadata,
    OpenTransaction,
    Position,
    TopicPartition,
    Undeletion,
)

__version__ = "0.1.0"

__all__ = [
    "Change",
    "CleaningReport",
    "Deletion",
    "Digest",
    "Expiring",
    "ExpiryReport",
    "History",
    "HistoryEntry",
    "MaintenanceConfig",
    "OffsetAndMetadata",
    "OffsetStore",
    "OpenTransaction",
    "Position",
    "StoreConfig",
    "Ticket",
    "TopicPartition",
    "Transaction",
    "Undeletion",
    "__version__",
    "errors",
    "open",
]
