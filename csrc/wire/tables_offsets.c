/* wire/tables_offsets.c: the messages that read and write committed offsets. */
#include "wire/tables.h"

/* ------------------------------------------------------------------------------- OffsetCommit */

static const ol_field offset_commit_request_partition[] = {
    {FIELD("partitionIndex", I32)},
    {FIELD("committedOffset", I64)},
    {FIELD("committedLeaderEpoch", I32), SINCE(6), DEFAULT(-1)},
    {FIELD("commitTimestamp", I64), SINCE(1), REMOVED_IN(2), DEFAULT(-1)},
    {FIELD("committedMetadata", STRING), NULLABLE},
    END};
static const ol_field offset_commit_request_topic[] = {
    {FIELD("name", STRING), REMOVED_IN(10)},
    {FIELD("topicId", UUID), SINCE(10)},
    {ARRAY_OF_STRUCTS("partitions", offset_commit_request_partition)},
    END};
static const ol_field offset_commit_request[] = {
    {FIELD("groupId", STRING)},
    {FIELD("generationIdOrMemberEpoch", I32), SINCE(1), DEFAULT(-1)},
    {FIELD("memberId", STRING), SINCE(1)},
    {FIELD("groupInstanceId", STRING), SINCE(7), NULLABLE, DEFAULT_NULL},
    {FIELD("retentionTimeMs", I64), SINCE(2), REMOVED_IN(5), DEFAULT(-1)},
    {ARRAY_OF_STRUCTS("topics", offset_commit_request_topic)},
    END};
SCHEMA(OffsetCommitRequest, offset_commit_request, VERSIONS(0, 10), FLEXIBLE_FROM(8))

static const ol_field offset_commit_response_partition[] = {
    {FIELD("partitionIndex", I32)},
    {FIELD("errorCode", I16)},
    END};
static const ol_field offset_commit_response_topic[] = {
    {FIELD("name", STRING), REMOVED_IN(10)},
    {FIELD("topicId", UUID), SINCE(10)},
    {ARRAY_OF_STRUCTS("partitions", offset_commit_response_partition)},
    END};
static const ol_field offset_commit_response[] = {
    {FIELD("throttleTimeMs", I32), SINCE(3)},
    {ARRAY_OF_STRUCTS("topics", offset_commit_response_topic)},
    END};
SCHEMA(OffsetCommitResponse, offset_commit_response, VERSIONS(0, 10), FLEXIBLE_FROM(8))

/* -------------------------------------------------------------------------------- OffsetFetch */

static const ol_field offset_fetch_request_topic[] = {
    {FIELD("name", STRING)},
    {ARRAY_OF("partitionIndexes", I32)},
    END};
static const ol_field offset_fetch_request_topics[] = {
    {FIELD("name", STRING), REMOVED_IN(10)},
    {FIELD("topicId", UUID), SINCE(10)},
    {ARRAY_OF("partitionIndexes", I32)},
    END};
static const ol_field offset_fetch_request_group[] = {
    {FIELD("groupId", STRING)},
    {FIELD("memberId", STRING), SINCE(9), NULLABLE, DEFAULT_NULL},
    {FIELD("memberEpoch", I32), SINCE(9), DEFAULT(-1)},
    {ARRAY_OF_STRUCTS("topics", offset_fetch_request_topics), NULLABLE},
    END};
static const ol_field offset_fetch_request[] = {
    {FIELD("groupId", STRING), REMOVED_IN(8)},
    {ARRAY_OF_STRUCTS("topics", offset_fetch_request_topic), REMOVED_IN(8), NULLABLE_FROM(2)},
    {ARRAY_OF_STRUCTS("groups", offset_fetch_request_group), SINCE(8)},
    {FIELD("requireStable", BOOLEAN), SINCE(7)},
    END};
SCHEMA(OffsetFetchRequest, offset_fetch_request, VERSIONS(0, 10), FLEXIBLE_FROM(6))

static const ol_field offset_fetch_response_partition[] = {
    {FIELD("partitionIndex", I32)},
    {FIELD("committedOffset", I64)},
    {FIELD("committedLeaderEpoch", I32), SINCE(5), DEFAULT(-1)},
    {FIELD("metadata", STRING), NULLABLE},
    {FIELD("errorCode", I16)},
    END};
static const ol_field offset_fetch_response_topic[] = {
    {FIELD("name", STRING)},
    {ARRAY_OF_STRUCTS("partitions", offset_fetch_response_partition)},
    END};
static const ol_field offset_fetch_response_partitions[] = {
    {FIELD("partitionIndex", I32)},
    {FIELD("committedOffset", I64)},
    {FIELD("committedLeaderEpoch", I32), DEFAULT(-1)},
    {FIELD("metadata", STRING), NULLABLE},
    {FIELD("errorCode", I16)},
    END};
static const ol_field offset_fetch_response_topics[] = {
    {FIELD("name", STRING), REMOVED_IN(10)},
    {FIELD("topicId", UUID), SINCE(10)},
    {ARRAY_OF_STRUCTS("partitions", offset_fetch_response_partitions)},
    END};
static const ol_field offset_fetch_response_group[] = {
    {FIELD("groupId", STRING)},
    {ARRAY_OF_STRUCTS("topics", offset_fetch_response_topics)},
    {FIELD("errorCode", I16)},
    END};
static const ol_field offset_fetch_response[] = {
    {FIELD("throttleTimeMs", I32), SINCE(3)},
    {ARRAY_OF_STRUCTS("topics", offset_fetch_response_topic), REMOVED_IN(8)},
    {FIELD("errorCode", I16), SINCE(2), REMOVED_IN(8)},
    {ARRAY_OF_STRUCTS("groups", offset_fetch_response_group), SINCE(8)},
    END};
SCHEMA(OffsetFetchResponse, offset_fetch_response, VERSIONS(0, 10), FLEXIBLE_FROM(6))

/* ------------------------------------------------------------------------------- OffsetDelete */

static const ol_field offset_delete_request_partition[] = {{FIELD("partitionIndex", I32)}, END};
static const ol_field offset_delete_request_topic[] = {
    {FIELD("name", STRING)},
    {ARRAY_OF_STRUCTS("partitions", offset_delete_request_partition)},
    END};
static const ol_field offset_delete_request[] = {
    {FIELD("groupId", STRING)},
    {ARRAY_OF_STRUCTS("topics", offset_delete_request_topic)},
    END};
SCHEMA(OffsetDeleteRequest, offset_delete_request, VERSIONS(0, 0), FLEXIBLE_NEVER)

static const ol_field offset_delete_response_topic[] = {
    {FIELD("name", STRING)},
    {ARRAY_OF_STRUCTS("partitions", offset_commit_response_partition)},
    END};
static const ol_field offset_delete_response[] = {
    {FIELD("errorCode", I16)},
    {FIELD("throttleTimeMs", I32)},
    {ARRAY_OF_STRUCTS("topics", offset_delete_response_topic)},
    END};
SCHEMA(OffsetDeleteResponse, offset_delete_response, VERSIONS(0, 0), FLEXIBLE_NEVER)
