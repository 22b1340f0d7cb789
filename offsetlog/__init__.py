"""offsetlog keeps the committed positions of consumer groups, in Kafka's own files."""

from offsetlog import errors
from offsetlog.config import StoreConfig
from offsetlog.types import OffsetAndMetadata, Position, TopicPartition

__version__ = "0.1.0"

__all__ = ["OffsetAndMetadata", "Position", "StoreConfig", "TopicPartition", "__version__", "errors"]
