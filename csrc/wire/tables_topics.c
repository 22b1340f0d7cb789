/* wire/tables_topics.c: the messages that make and change topics and their configuration. */
#include "wire/tables.h"

/* ------------------------------------------------------------------------------- CreateTopics */

static const ol_field creatable_replica_assignment[] = {
    {FIELD("partitionIndex", I32)},
    {ARRAY_OF("brokerIds", I32)},
    END};
static const ol_field creatable_topic_config[] = {
    {FIELD("name", STRING)},
    {FIELD("value", STRING), NULLABLE},
    END};
static const ol_field creatable_topic[] = {
    {FIELD("name", STRING)},
    {FIELD("numPartitions", I32)},
    {FIELD("replicationFactor", I16)},
    {ARRAY_OF_STRUCTS("assignments", creatable_replica_assignment)},
    {ARRAY_OF_STRUCTS("configs", creatable_topic_config)},
    END};
static const ol_field create_topics_request[] = {
    {ARRAY_OF_STRUCTS("topics", creatable_topic)},
    {FIELD("timeoutMs", I32), DEFAULT(60000)},
    {FIELD("validateOnly", BOOLEAN)},
    END};
SCHEMA(CreateTopicsRequest, create_topics_request, VERSIONS(2, 7), FLEXIBLE_FROM(5))

static const ol_field creatable_topic_configs[] = {
    {FIELD("name", STRING)},
    {FIELD("value", STRING), NULLABLE},
    {FIELD("readOnly", BOOLEAN)},
    {FIELD("configSource", I8), DEFAULT(-1)},
    {FIELD("isSensitive", BOOLEAN)},
    END};
static const ol_field creatable_topic_result[] = {
    {FIELD("name", STRING)},
    {FIELD("topicId", UUID), SINCE(7)},
    {FIELD("errorCode", I16)},
    {FIELD("errorMessage", STRING), NULLABLE},
    {FIELD("topicConfigErrorCode", I16), SINCE(5), TAG(0)},
    {FIELD("numPartitions", I32), SINCE(5), DEFAULT(-1)},
    {FIELD("replicationFactor", I16), SINCE(5), DEFAULT(-1)},
    {ARRAY_OF_STRUCTS("configs", creatable_topic_configs), SINCE(5), NULLABLE},
    END};
static const ol_field create_topics_response[] = {
    {FIELD("throttleTimeMs", I32)},
    {ARRAY_OF_STRUCTS("topics", creatable_topic_result)},
    END};
SCHEMA(CreateTopicsResponse, create_topics_response, VERSIONS(2, 7), FLEXIBLE_FROM(5))

/* ------------------------------------------------------------------------------- DeleteTopics */

static const ol_field delete_topic_state[] = {
    {FIELD("name", STRING), NULLABLE, DEFAULT_NULL},
    {FIELD("topicId", UUID)},
    END};
static const ol_field delete_topics_request[] = {
    {ARRAY_OF_STRUCTS("topics", delete_topic_state), SINCE(6)},
    {ARRAY_OF("topicNames", STRING), REMOVED_IN(6)},
    {FIELD("timeoutMs", I32)},
    END};
SCHEMA(DeleteTopicsRequest, delete_topics_request, VERSIONS(1, 6), FLEXIBLE_FROM(4))

static const ol_field deletable_topic_result[] = {
    {FIELD("name", STRING), NULLABLE_FROM(6)},
    {FIELD("topicId", UUID), SINCE(6)},
    {FIELD("errorCode", I16)},
    {FIELD("errorMessage", STRING), SINCE(5), NULLABLE, DEFAULT_NULL},
    END};
static const ol_field delete_topics_response[] = {
    {FIELD("throttleTimeMs", I32)},
    {ARRAY_OF_STRUCTS("responses", deletable_topic_result)},
    END};
SCHEMA(DeleteTopicsResponse, delete_topics_response, VERSIONS(1, 6), FLEXIBLE_FROM(4))

/* --------------------------------------------------------------------------- CreatePartitions */

static const ol_field create_partitions_assignment[] = {{ARRAY_OF("brokerIds", I32)}, END};
static const ol_field create_partitions_topic[] = {
    {FIELD("name", STRING)},
    {FIELD("count", I32)},
    {ARRAY_OF_STRUCTS("assignments", create_partitions_assignment), NULLABLE},
    END};
static const ol_field create_partitions_request[] = {
    {ARRAY_OF_STRUCTS("topics", create_partitions_topic)},
    {FIELD("timeoutMs", I32)},
    {FIELD("validateOnly", BOOLEAN)},
    END};
SCHEMA(CreatePartitionsRequest, create_partitions_request, VERSIONS(0, 3), FLEXIBLE_FROM(2))

static const ol_field create_partitions_topic_result[] = {
    {FIELD("name", STRING)},
    {FIELD("errorCode", I16)},
    {FIELD("errorMessage", STRING), NULLABLE, DEFAULT_NULL},
    END};
static const ol_field create_partitions_response[] = {
    {FIELD("throttleTimeMs", I32)},
    {ARRAY_OF_STRUCTS("results", create_partitions_topic_result)},
    END};
SCHEMA(CreatePartitionsResponse, create_partitions_response, VERSIONS(0, 3), FLEXIBLE_FROM(2))

/* ---------------------------------------------------------------------------- DescribeConfigs */

static const ol_field describe_configs_resource[] = {
    {FIELD("resourceType", I8)},
    {FIELD("resourceName", STRING)},
    {ARRAY_OF("configurationKeys", STRING), NULLABLE},
    END};
static const ol_field describe_configs_request[] = {
    {ARRAY_OF_STRUCTS("resources", describe_configs_resource)},
    {FIELD("includeSynonyms", BOOLEAN)},
    {FIELD("includeDocumentation", BOOLEAN), SINCE(3)},
    END};
SCHEMA(DescribeConfigsRequest, describe_configs_request, VERSIONS(1, 4), FLEXIBLE_FROM(4))

static const ol_field describe_configs_synonym[] = {
    {FIELD("name", STRING)},
    {FIELD("value", STRING), NULLABLE},
    {FIELD("source", I8)},
    END};
static const ol_field describe_configs_resource_result[] = {
    {FIELD("name", STRING)},
    {FIELD("value", STRING), NULLABLE},
    {FIELD("readOnly", BOOLEAN)},
    {FIELD("configSource", I8), DEFAULT(-1)},
    {FIELD("isSensitive", BOOLEAN)},
    {ARRAY_OF_STRUCTS("synonyms", describe_configs_synonym)},
    {FIELD("configType", I8), SINCE(3)},
    {FIELD("documentation", STRING), SINCE(3), NULLABLE},
    END};
static const ol_field describe_configs_result[] = {
    {FIELD("errorCode", I16)},
    {FIELD("errorMessage", STRING), NULLABLE},
    {FIELD("resourceType", I8)},
    {FIELD("resourceName", STRING)},
    {ARRAY_OF_STRUCTS("configs", describe_configs_resource_result)},
    END};
static const ol_field describe_configs_response[] = {
    {FIELD("throttleTimeMs", I32)},
    {ARRAY_OF_STRUCTS("results", describe_configs_result)},
    END};
SCHEMA(DescribeConfigsResponse, describe_configs_response, VERSIONS(1, 4), FLEXIBLE_FROM(4))

/* -------------------------------------------------------------------- IncrementalAlterConfigs */

static const ol_field alterable_config[] = {
    {FIELD("name", STRING)},
    {FIELD("configOperation", I8)},
    {FIELD("value", STRING), NULLABLE},
    END};
static const ol_field alter_configs_resource[] = {
    {FIELD("resourceType", I8)},
    {FIELD("resourceName", STRING)},
    {ARRAY_OF_STRUCTS("configs", alterable_config)},
    END};
static const ol_field incremental_alter_configs_request[] = {
    {ARRAY_OF_STRUCTS("resources", alter_configs_resource)},
    {FIELD("validateOnly", BOOLEAN)},
    END};
SCHEMA(IncrementalAlterConfigsRequest, incremental_alter_configs_request,
       VERSIONS(0, 1), FLEXIBLE_FROM(1))

static const ol_field alter_configs_resource_response[] = {
    {FIELD("errorCode", I16)},
    {FIELD("errorMessage", STRING), NULLABLE},
    {FIELD("resourceType", I8)},
    {FIELD("resourceName", STRING)},
    END};
static const ol_field incremental_alter_configs_response[] = {
    {FIELD("throttleTimeMs", I32)},
    {ARRAY_OF_STRUCTS("responses", alter_configs_resource_response)},
    END};
SCHEMA(IncrementalAlterConfigsResponse, incremental_alter_configs_response,
       VERSIONS(0, 1), FLEXIBLE_FROM(1))
