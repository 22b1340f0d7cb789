/* wire/tables_records.c: the messages that write and read records, and find offsets in a log. */
#include "wire/tables.h"

/* ------------------------------------------------------------------------------------ Produce */

static const ol_field partition_produce_data[] = {
    {FIELD("index", I32)},
    {FIELD("records", BYTES), NULLABLE},
    END};
static const ol_field topic_produce_data[] = {
    {FIELD("name", STRING), REMOVED_IN(13)},
    {FIELD("topicId", UUID), SINCE(13)},
    {ARRAY_OF_STRUCTS("partitionData", partition_produce_data)},
    END};
static const ol_field produce_request[] = {
    {FIELD("transactionalId", STRING), NULLABLE, DEFAULT_NULL},
    {FIELD("acks", I16)},
    {FIELD("timeoutMs", I32)},
    {ARRAY_OF_STRUCTS("topicData", topic_produce_data)},
    END};
SCHEMA(ProduceRequest, produce_request, VERSIONS(3, 13), FLEXIBLE_FROM(9))

static const ol_field batch_index_and_error_message[] = {
    {FIELD("batchIndex", I32)},
    {FIELD("batchIndexErrorMessage", STRING), NULLABLE, DEFAULT_NULL},
    END};
static const ol_field leader_id_and_epoch[] = {
    {FIELD("leaderId", I32), DEFAULT(-1)},
    {FIELD("leaderEpoch", I32), DEFAULT(-1)},
    END};
static const ol_field partition_produce_response[] = {
    {FIELD("index", I32)},
    {FIELD("errorCode", I16)},
    {FIELD("baseOffset", I64)},
    {FIELD("logAppendTimeMs", I64), DEFAULT(-1)},
    {FIELD("logStartOffset", I64), SINCE(5), DEFAULT(-1)},
    {ARRAY_OF_STRUCTS("recordErrors", batch_index_and_error_message), SINCE(8)},
    {FIELD("errorMessage", STRING), SINCE(8), NULLABLE, DEFAULT_NULL},
    {STRUCT_OF("currentLeader", leader_id_and_epoch), SINCE(10), TAG(0)},
    END};
static const ol_field topic_produce_response[] = {
    {FIELD("name", STRING), REMOVED_IN(13)},
    {FIELD("topicId", UUID), SINCE(13)},
    {ARRAY_OF_STRUCTS("partitionResponses", partition_produce_response)},
    END};
static const ol_field node_endpoint[] = {
    {FIELD("nodeId", I32)},
    {FIELD("host", STRING)},
    {FIELD("port", I32)},
    {FIELD("rack", STRING), NULLABLE, DEFAULT_NULL},
    END};
static const ol_field produce_response[] = {
    {ARRAY_OF_STRUCTS("responses", topic_produce_response)},
    {FIELD("throttleTimeMs", I32)},
    {ARRAY_OF_STRUCTS("nodeEndpoints", node_endpoint), SINCE(10), TAG(0)},
    END};
SCHEMA(ProduceResponse, produce_response, VERSIONS(3, 13), FLEXIBLE_FROM(9))

/* -------------------------------------------------------------------------------------- Fetch */

static const ol_field replica_state[] = {
    {FIELD("replicaId", I32), DEFAULT(-1)},
    {FIELD("replicaEpoch", I64), DEFAULT(-1)},
    END};
static const ol_field fetch_partition[] = {
    {FIELD("partition", I32)},
    {FIELD("currentLeaderEpoch", I32), SINCE(9), DEFAULT(-1)},
    {FIELD("fetchOffset", I64)},
    {FIELD("lastFetchedEpoch", I32), SINCE(12), DEFAULT(-1)},
    {FIELD("logStartOffset", I64), SINCE(5), DEFAULT(-1)},
    {FIELD("partitionMaxBytes", I32)},
    {FIELD("replicaDirectoryId", UUID), SINCE(17), TAG(0)},
    {FIELD("highWatermark", I64), SINCE(18), TAG(1), DEFAULT(INT64_MAX)},
    END};
static const ol_field fetch_topic[] = {
    {FIELD("topic", STRING), REMOVED_IN(13)},
    {FIELD("topicId", UUID), SINCE(13)},
    {ARRAY_OF_STRUCTS("partitions", fetch_partition)},
    END};
static const ol_field forgotten_topic[] = {
    {FIELD("topic", STRING), REMOVED_IN(13)},
    {FIELD("topicId", UUID), SINCE(13)},
    {ARRAY_OF("partitions", I32)},
    END};
static const ol_field fetch_request[] = {
    {FIELD("clusterId", STRING), SINCE(12), NULLABLE, TAG(0), DEFAULT_NULL},
    {FIELD("replicaId", I32), REMOVED_IN(15), DEFAULT(-1)},
    {STRUCT_OF("replicaState", replica_state), SINCE(15), TAG(1)},
    {FIELD("maxWaitMs", I32)},
    {FIELD("minBytes", I32)},
    {FIELD("maxBytes", I32), DEFAULT(INT32_MAX)},
    {FIELD("isolationLevel", I8)},
    {FIELD("sessionId", I32), SINCE(7)},
    {FIELD("sessionEpoch", I32), SINCE(7), DEFAULT(-1)},
    {ARRAY_OF_STRUCTS("topics", fetch_topic)},
    {ARRAY_OF_STRUCTS("forgottenTopicsData", forgotten_topic), SINCE(7)},
    {FIELD("rackId", STRING), SINCE(11)},
    END};
SCHEMA(FetchRequest, fetch_request, VERSIONS(4, 18), FLEXIBLE_FROM(12))

static const ol_field epoch_end_offset[] = {
    {FIELD("epoch", I32), DEFAULT(-1)},
    {FIELD("endOffset", I64), DEFAULT(-1)},
    END};
static const ol_field snapshot_id[] = {
    {FIELD("endOffset", I64), DEFAULT(-1)},
    {FIELD("epoch", I32), DEFAULT(-1)},
    END};
static const ol_field aborted_transaction[] = {
    {FIELD("producerId", I64)},
    {FIELD("firstOffset", I64)},
    END};
static const ol_field partition_data[] = {
    {FIELD("partitionIndex", I32)},
    {FIELD("errorCode", I16)},
    {FIELD("highWatermark", I64)},
    {FIELD("lastStableOffset", I64), DEFAULT(-1)},
    {FIELD("logStartOffset", I64), SINCE(5), DEFAULT(-1)},
    {STRUCT_OF("divergingEpoch", epoch_end_offset), SINCE(12), TAG(0)},
    {STRUCT_OF("currentLeader", leader_id_and_epoch), SINCE(12), TAG(1)},
    {STRUCT_OF("snapshotId", snapshot_id), SINCE(12), TAG(2)},
    {ARRAY_OF_STRUCTS("abortedTransactions", aborted_transaction), NULLABLE},
    {FIELD("preferredReadReplica", I32), SINCE(11), DEFAULT(-1)},
    {FIELD("records", BYTES), NULLABLE},
    END};
static const ol_field fetchable_topic_response[] = {
    {FIELD("topic", STRING), REMOVED_IN(13)},
    {FIELD("topicId", UUID), SINCE(13)},
    {ARRAY_OF_STRUCTS("partitions", partition_data)},
    END};
static const ol_field fetch_response[] = {
    {FIELD("throttleTimeMs", I32)},
    {FIELD("errorCode", I16), SINCE(7)},
    {FIELD("sessionId", I32), SINCE(7)},
    {ARRAY_OF_STRUCTS("responses", fetchable_topic_response)},
    {ARRAY_OF_STRUCTS("nodeEndpoints", node_endpoint), SINCE(16), TAG(0)},
    END};
SCHEMA(FetchResponse, fetch_response, VERSIONS(4, 18), FLEXIBLE_FROM(12))

/* -------------------------------------------------------------------------------- ListOffsets */

static const ol_field list_offsets_partition[] = {
    {FIELD("partitionIndex", I32)},
    {FIELD("currentLeaderEpoch", I32), SINCE(4), DEFAULT(-1)},
    {FIELD("timestamp", I64)},
    END};
static const ol_field list_offsets_topic[] = {
    {FIELD("name", STRING)},
    {ARRAY_OF_STRUCTS("partitions", list_offsets_partition)},
    END};
static const ol_field list_offsets_request[] = {
    {FIELD("replicaId", I32)},
    {FIELD("isolationLevel", I8), SINCE(2)},
    {ARRAY_OF_STRUCTS("topics", list_offsets_topic)},
    {FIELD("timeoutMs", I32), SINCE(10)},
    END};
SCHEMA(ListOffsetsRequest, list_offsets_request, VERSIONS(1, 11), FLEXIBLE_FROM(6))

static const ol_field list_offsets_partition_response[] = {
    {FIELD("partitionIndex", I32)},
    {FIELD("errorCode", I16)},
    {FIELD("timestamp", I64), DEFAULT(-1)},
    {FIELD("offset", I64), DEFAULT(-1)},
    {FIELD("leaderEpoch", I32), SINCE(4), DEFAULT(-1)},
    END};
static const ol_field list_offsets_topic_response[] = {
    {FIELD("name", STRING)},
    {ARRAY_OF_STRUCTS("partitions", list_offsets_partition_response)},
    END};
static const ol_field list_offsets_response[] = {
    {FIELD("throttleTimeMs", I32), SINCE(2)},
    {ARRAY_OF_STRUCTS("topics", list_offsets_topic_response)},
    END};
SCHEMA(ListOffsetsResponse, list_offsets_response, VERSIONS(1, 11), FLEXIBLE_FROM(6))

/* ----------------------------------------------------------------------- OffsetForLeaderEpoch */

static const ol_field offset_for_leader_partition[] = {
    {FIELD("partition", I32)},
    {FIELD("currentLeaderEpoch", I32), DEFAULT(-1)},
    {FIELD("leaderEpoch", I32)},
    END};
static const ol_field offset_for_leader_topic[] = {
    {FIELD("topic", STRING)},
    {ARRAY_OF_STRUCTS("partitions", offset_for_leader_partition)},
    END};
static const ol_field offset_for_leader_epoch_request[] = {
    {FIELD("replicaId", I32), SINCE(3), DEFAULT(-2)},
    {ARRAY_OF_STRUCTS("topics", offset_for_leader_topic)},
    END};
SCHEMA(OffsetForLeaderEpochRequest, offset_for_leader_epoch_request,
       VERSIONS(2, 4), FLEXIBLE_FROM(4))

static const ol_field offset_for_leader_epoch_epoch_end_offset[] = {
    {FIELD("errorCode", I16)},
    {FIELD("partition", I32)},
    {FIELD("leaderEpoch", I32), DEFAULT(-1)},
    {FIELD("endOffset", I64), DEFAULT(-1)},
    END};
static const ol_field offset_for_leader_topic_result[] = {
    {FIELD("topic", STRING)},
    {ARRAY_OF_STRUCTS("partitions", offset_for_leader_epoch_epoch_end_offset)},
    END};
static const ol_field offset_for_leader_epoch_response[] = {
    {FIELD("throttleTimeMs", I32)},
    {ARRAY_OF_STRUCTS("topics", offset_for_leader_topic_result)},
    END};
SCHEMA(OffsetForLeaderEpochResponse, offset_for_leader_epoch_response,
       VERSIONS(2, 4), FLEXIBLE_FROM(4))

/* ----------------------------------------------------------------------------- InitProducerId */

static const ol_field init_producer_id_request[] = {
    {FIELD("transactionalId", STRING), NULLABLE},
    {FIELD("transactionTimeoutMs", I32)},
    {FIELD("producerId", I64), SINCE(3), DEFAULT(-1)},
    {FIELD("producerEpoch", I16), SINCE(3), DEFAULT(-1)},
    {FIELD("enable2Pc", BOOLEAN), SINCE(6)},
    {FIELD("keepPreparedTxn", BOOLEAN), SINCE(6)},
    END};
SCHEMA(InitProducerIdRequest, init_producer_id_request, VERSIONS(0, 5), FLEXIBLE_FROM(2))

static const ol_field init_producer_id_response[] = {
    {FIELD("throttleTimeMs", I32)},
    {FIELD("errorCode", I16)},
    {FIELD("producerId", I64), DEFAULT(-1)},
    {FIELD("producerEpoch", I16)},
    {FIELD("ongoingTxnProducerId", I64), SINCE(6), DEFAULT(-1)},
    {FIELD("ongoingTxnProducerEpoch", I16), SINCE(6), DEFAULT(-1)},
    END};
SCHEMA(InitProducerIdResponse, init_producer_id_response, VERSIONS(0, 5), FLEXIBLE_FROM(2))
