"""Maps each error to its meaning for a client of Kafka's protocol: the numeric code, and whether a retry can help.

The codes are those that a group coordinator sends (docs/format/vectors.md, docs/format/coordinator.md §5.0).  For
example, a commit that timed out gives COORDINATOR_NOT_AVAILABLE, not REQUEST_TIMED_OUT.  If an exception class is not
listed, the entry of its nearest listed base class applies.
"""

from __future__ import annotations

from typing import NamedTuple


class ErrorCode(NamedTuple):
    """The meaning of an error to a client.

    Attributes:
        code: the number in Kafka's protocol.
        retriable: whether the same call may succeed later, here or at another broker.
    """

    code: int
    retriable: bool = False


UNKNOWN_SERVER_ERROR = ErrorCode(-1)
NONE = ErrorCode(0)
OFFSET_OUT_OF_RANGE = ErrorCode(1)
CORRUPT_MESSAGE = ErrorCode(2)
UNKNOWN_TOPIC_OR_PARTITION = ErrorCode(3)
NOT_LEADER_OR_FOLLOWER = ErrorCode(6, retriable=True)
REQUEST_TIMED_OUT = ErrorCode(7, retriable=True)
MESSAGE_TOO_LARGE = ErrorCode(10)
STALE_CONTROLLER_EPOCH = ErrorCode(11)
OFFSET_METADATA_TOO_LARGE = ErrorCode(12)
COORDINATOR_LOAD_IN_PROGRESS = ErrorCode(14, retriable=True)
COORDINATOR_NOT_AVAILABLE = ErrorCode(15)
NOT_COORDINATOR = ErrorCode(16)
INVALID_TOPIC_EXCEPTION = ErrorCode(17)
RECORD_LIST_TOO_LARGE = ErrorCode(18)
NOT_ENOUGH_REPLICAS = ErrorCode(19, retriable=True)
INVALID_REQUIRED_ACKS = ErrorCode(21)
ILLEGAL_GENERATION = ErrorCode(22)
INCONSISTENT_GROUP_PROTOCOL = ErrorCode(23)
INVALID_GROUP_ID = ErrorCode(24)
UNKNOWN_MEMBER_ID = ErrorCode(25)
INVALID_SESSION_TIMEOUT = ErrorCode(26)
REBALANCE_IN_PROGRESS = ErrorCode(27)
INVALID_COMMIT_OFFSET_SIZE = ErrorCode(28)
INVALID_TIMESTAMP = ErrorCode(32)
UNSUPPORTED_VERSION = ErrorCode(35)
TOPIC_ALREADY_EXISTS = ErrorCode(36)
INVALID_PARTITIONS = ErrorCode(37)
INVALID_REPLICATION_FACTOR = ErrorCode(38)
INVALID_REPLICA_ASSIGNMENT = ErrorCode(39)
INVALID_CONFIG = ErrorCode(40)
INVALID_REQUEST = ErrorCode(42)
POLICY_VIOLATION = ErrorCode(44)
OUT_OF_ORDER_SEQUENCE_NUMBER = ErrorCode(45)
INVALID_PRODUCER_EPOCH = ErrorCode(47)
INVALID_TXN_STATE = ErrorCode(48)
KAFKA_STORAGE_ERROR = ErrorCode(56)
NON_EMPTY_GROUP = ErrorCode(68)
GROUP_ID_NOT_FOUND = ErrorCode(69)
FETCH_SESSION_ID_NOT_FOUND = ErrorCode(70, retriable=True)
INVALID_FETCH_SESSION_EPOCH = ErrorCode(71, retriable=True)
FENCED_LEADER_EPOCH = ErrorCode(74)
UNKNOWN_LEADER_EPOCH = ErrorCode(75, retriable=True)
UNSUPPORTED_COMPRESSION_TYPE = ErrorCode(76)
MEMBER_ID_REQUIRED = ErrorCode(79)
GROUP_MAX_SIZE_REACHED = ErrorCode(81)
FENCED_INSTANCE_ID = ErrorCode(82)
GROUP_SUBSCRIBED_TO_TOPIC = ErrorCode(86)
INVALID_RECORD = ErrorCode(87)
UNSTABLE_OFFSET_COMMIT = ErrorCode(88, retriable=True)
THROTTLING_QUOTA_EXCEEDED = ErrorCode(89, retriable=True)
UNKNOWN_TOPIC_ID = ErrorCode(100, retriable=True)
MISMATCHED_ENDPOINT_TYPE = ErrorCode(114)
UNSUPPORTED_ENDPOINT_TYPE = ErrorCode(115)


def _retriable(entry: ErrorCode) -> ErrorCode:
    return entry._replace(retriable=True)


#: The codes by the name of the class in `offsetlog.errors`.
ERROR_CODES: dict[str, ErrorCode] = {
    "OffsetLogError": UNKNOWN_SERVER_ERROR,
    "InvalidArgumentError": INVALID_REQUEST,
    "GroupError": INVALID_GROUP_ID,
    "TopicError": INVALID_TOPIC_EXCEPTION,
    "PartitionError": UNKNOWN_TOPIC_OR_PARTITION,
    "MetadataTooLargeError": OFFSET_METADATA_TOO_LARGE,
    "StorageError": KAFKA_STORAGE_ERROR,
    "CorruptionError": CORRUPT_MESSAGE,
    "TooLargeError": INVALID_COMMIT_OFFSET_SIZE,
    "OffsetOutOfRangeError": OFFSET_OUT_OF_RANGE,
    "UnsupportedVersionError": UNSUPPORTED_VERSION,
    # The present state of the store or the partition.
    "ClosedError": COORDINATOR_NOT_AVAILABLE,
    "ReadOnlyError": KAFKA_STORAGE_ERROR,
    "PartitionFailedError": NOT_COORDINATOR,
    "CoordinatorLoadingError": COORDINATOR_LOAD_IN_PROGRESS,
    "NotCoordinatorError": _retriable(NOT_COORDINATOR),
    "NotEnoughReplicasError": _retriable(COORDINATOR_NOT_AVAILABLE),
    "CommitTimeoutError": _retriable(COORDINATOR_NOT_AVAILABLE),
    "DifferenceError": _retriable(COORDINATOR_NOT_AVAILABLE),
    "GenerationError": ILLEGAL_GENERATION,
    "GroupNotEmptyError": NON_EMPTY_GROUP,
    "FencedError": INVALID_PRODUCER_EPOCH,
    "FencedLeaderEpochError": FENCED_LEADER_EPOCH,
    "UnknownLeaderEpochError": UNKNOWN_LEADER_EPOCH,
    "TransactionError": INVALID_TXN_STATE,
    "ThrottledError": THROTTLING_QUOTA_EXCEEDED,
    "ClusterUnavailableError": _retriable(COORDINATOR_NOT_AVAILABLE),
    "ControllerMovedError": STALE_CONTROLLER_EPOCH,
    "ZooKeeperUnavailableError": _retriable(COORDINATOR_NOT_AVAILABLE),
}
