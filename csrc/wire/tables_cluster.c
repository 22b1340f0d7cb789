/* wire/tables_cluster.c: the messages about the cluster and what it serves. */
#include "wire/tables.h"

/* -------------------------------------------------------------------------------- ApiVersions */

static const ol_field api_versions_request[] = {
    {FIELD("clientSoftwareName", STRING), SINCE(3)},
    {FIELD("clientSoftwareVersion", STRING), SINCE(3)},
    END};
SCHEMA(ApiVersionsRequest, api_versions_request, VERSIONS(0, 4), FLEXIBLE_FROM(3))

static const ol_field api_version[] = {
    {FIELD("apiKey", I16)},
    {FIELD("minVersion", I16)},
    {FIELD("maxVersion", I16)},
    END};
static const ol_field supported_feature_key[] = {
    {FIELD("name", STRING)},
    {FIELD("minVersion", I16)},
    {FIELD("maxVersion", I16)},
    END};
static const ol_field finalized_feature_key[] = {
    {FIELD("name", STRING)},
    {FIELD("maxVersionLevel", I16)},
    {FIELD("minVersionLevel", I16)},
    END};
static const ol_field api_versions_response[] = {
    {FIELD("errorCode", I16)},
    {ARRAY_OF_STRUCTS("apiKeys", api_version)},
    {FIELD("throttleTimeMs", I32), SINCE(1)},
    {ARRAY_OF_STRUCTS("supportedFeatures", supported_feature_key), SINCE(3), TAG(0)},
    {FIELD("finalizedFeaturesEpoch", I64), SINCE(3), TAG(1), DEFAULT(-1)},
    {ARRAY_OF_STRUCTS("finalizedFeatures", finalized_feature_key), SINCE(3), TAG(2)},
    {FIELD("zkMigrationReady", BOOLEAN), SINCE(3), TAG(3)},
    END};
SCHEMA(ApiVersionsResponse, api_versions_response, VERSIONS(0, 4), FLEXIBLE_FROM(3))

/* ----------------------------------------------------------------------------------- Metadata */

static const ol_field metadata_request_topic[] = {
    {FIELD("topicId", UUID), SINCE(10)},
    {FIELD("name", STRING), NULLABLE_FROM(10)},
    END};
static const ol_field metadata_request[] = {
    {ARRAY_OF_STRUCTS("topics", metadata_request_topic), NULLABLE_FROM(1)},
    {FIELD("allowAutoTopicCreation", BOOLEAN), SINCE(4), DEFAULT(1)},
    {FIELD("includeClusterAuthorizedOperations", BOOLEAN), SINCE(8), REMOVED_IN(11)},
    {FIELD("includeTopicAuthorizedOperations", BOOLEAN), SINCE(8)},
    END};
SCHEMA(MetadataRequest, metadata_request, VERSIONS(0, 13), FLEXIBLE_FROM(9))

static const ol_field metadata_response_broker[] = {
    {FIELD("nodeId", I32)},
    {FIELD("host", STRING)},
    {FIELD("port", I32)},
    {FIELD("rack", STRING), SINCE(1), NULLABLE, DEFAULT_NULL},
    END};
static const ol_field metadata_response_partition[] = {
    {FIELD("errorCode", I16)},
    {FIELD("partitionIndex", I32)},
    {FIELD("leaderId", I32)},
    {FIELD("leaderEpoch", I32), SINCE(7), DEFAULT(-1)},
    {ARRAY_OF("replicaNodes", I32)},
    {ARRAY_OF("isrNodes", I32)},
    {ARRAY_OF("offlineReplicas", I32), SINCE(5)},
    END};
static const ol_field metadata_response_topic[] = {
    {FIELD("errorCode", I16)},
    {FIELD("name", STRING), NULLABLE_FROM(12)},
    {FIELD("topicId", UUID), SINCE(10)},
    {FIELD("isInternal", BOOLEAN), SINCE(1)},
    {ARRAY_OF_STRUCTS("partitions", metadata_response_partition)},
    {FIELD("topicAuthorizedOperations", I32), SINCE(8), DEFAULT(INT32_MIN)},
    END};
static const ol_field metadata_response[] = {
    {FIELD("throttleTimeMs", I32), SINCE(3)},
    {ARRAY_OF_STRUCTS("brokers", metadata_response_broker)},
    {FIELD("clusterId", STRING), SINCE(2), NULLABLE, DEFAULT_NULL},
    {FIELD("controllerId", I32), SINCE(1), DEFAULT(-1)},
    {ARRAY_OF_STRUCTS("topics", metadata_response_topic)},
    {FIELD("clusterAuthorizedOperations", I32), SINCE(8), REMOVED_IN(11), DEFAULT(INT32_MIN)},
    {FIELD("errorCode", I16), SINCE(13)},
    END};
SCHEMA(MetadataResponse, metadata_response, VERSIONS(0, 13), FLEXIBLE_FROM(9))

/* ---------------------------------------------------------------------------- DescribeCluster */

static const ol_field describe_cluster_request[] = {
    {FIELD("includeClusterAuthorizedOperations", BOOLEAN)},
    {FIELD("endpointType", I8), SINCE(1), DEFAULT(1)},
    {FIELD("includeFencedBrokers", BOOLEAN), SINCE(2)},
    END};
SCHEMA(DescribeClusterRequest, describe_cluster_request, VERSIONS(0, 2), FLEXIBLE_FROM(0))

static const ol_field describe_cluster_broker[] = {
    {FIELD("brokerId", I32)},
    {FIELD("host", STRING)},
    {FIELD("port", I32)},
    {FIELD("rack", STRING), NULLABLE, DEFAULT_NULL},
    {FIELD("isFenced", BOOLEAN), SINCE(2)},
    END};
static const ol_field describe_cluster_response[] = {
    {FIELD("throttleTimeMs", I32)},
    {FIELD("errorCode", I16)},
    {FIELD("errorMessage", STRING), NULLABLE, DEFAULT_NULL},
    {FIELD("endpointType", I8), SINCE(1), DEFAULT(1)},
    {FIELD("clusterId", STRING)},
    {FIELD("controllerId", I32), DEFAULT(-1)},
    {ARRAY_OF_STRUCTS("brokers", describe_cluster_broker)},
    {FIELD("clusterAuthorizedOperations", I32), DEFAULT(INT32_MIN)},
    END};
SCHEMA(DescribeClusterResponse, describe_cluster_response, VERSIONS(0, 2), FLEXIBLE_FROM(0))
