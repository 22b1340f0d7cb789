/* format/group_schema_tables.c: a list of fields per struct, in wire order, shared ones first. */
#include "format/group_schema.h"
#include "format/schema_table_internal.h"


/* ----------------------------------------------------------------------------------------- keys */

static const ol_field offset_key[] = {{FIELD("group", STRING)},
                                      {FIELD("topic", STRING)},
                                      {FIELD("partition", I32)},
                                      END};
static const ol_field classic_group_key[] = {{FIELD("group", STRING)}, END};
static const ol_field group_key[] = {{FIELD("groupId", STRING)}, END};
static const ol_field member_key[] = {{FIELD("groupId", STRING)}, {FIELD("memberId", STRING)}, END};
static const ol_field expression_key[] = {{FIELD("groupId", STRING)},
                                          {FIELD("regularExpression", STRING)},
                                          END};

/* ---------------------------------------------------------------------- offsets, classic groups */

static const ol_field legacy_offset_value[] = {
    {FIELD("offset", I64)}, {FIELD("metadata", STRING)}, {FIELD("commitTimestamp", I64)}, END};
static const ol_field offset_value[] = {
    {FIELD("offset", I64)},
    {FIELD("leaderEpoch", I32), SINCE(3)},
    {FIELD("metadata", STRING)},
    {FIELD("commitTimestamp", I64)},
    {FIELD("expireTimestamp", I64), SINCE(1), REMOVED_IN(2)},
    {FIELD("topicId", UUID), SINCE(4), TAG(0)},
    END};

static const ol_field classic_member[] = {
    {FIELD("memberId", STRING)},
    {FIELD("groupInstanceId", STRING), NULLABLE, SINCE(3)},
    {FIELD("clientId", STRING)},
    {FIELD("clientHost", STRING)},
    {FIELD("rebalanceTimeout", I32), SINCE(1)},
    {FIELD("sessionTimeout", I32)},
    {FIELD("subscription", BYTES)},
    {FIELD("assignment", BYTES)},
    END};
static const ol_field classic_group_value[] = {
    {FIELD("protocolType", STRING)},
    {FIELD("generation", I32)},
    {FIELD("protocol", STRING), NULLABLE},
    {FIELD("leader", STRING), NULLABLE},
    {FIELD("currentStateTimestamp", I64), SINCE(2)},
    {ARRAY_OF_STRUCTS("members", classic_member)},
    END};

static const ol_field topic_by_name[] = {{FIELD("topic", STRING)},
                                         {ARRAY_OF("partitions", I32)},
                                         END};
static const ol_field subscription[] = {
    {ARRAY_OF("topics", STRING)},
    {FIELD("userData", BYTES), NULLABLE},
    {ARRAY_OF_STRUCTS("ownedPartitions", topic_by_name), SINCE(1)},
    {FIELD("generationId", I32), SINCE(2)},
    {FIELD("rackId", STRING), NULLABLE, SINCE(3)},
    END};
static const ol_field assignment[] = {{ARRAY_OF_STRUCTS("assignedPartitions", topic_by_name)},
                                      {FIELD("userData", BYTES), NULLABLE},
                                      END};

/* ------------------------------------------------------------------------------ consumer groups */

static const ol_field topic_partitions[] = {{FIELD("topicId", UUID)},
                                            {ARRAY_OF("partitions", I32)},
                                            END};
static const ol_field topic_partitions_with_epochs[] = {
    {FIELD("topicId", UUID)},
    {ARRAY_OF("partitions", I32)},
    {ARRAY_OF("assignmentEpochs", I32), NULLABLE, TAG(0)},
    END};
static const ol_field key_value[] = {{FIELD("key", STRING)}, {FIELD("value", STRING)}, END};

static const ol_field consumer_group_value[] = {{FIELD("epoch", I32)},
                                                {FIELD("metadataHash", I64), TAG(0)},
                                                END};

static const ol_field partition_racks[] = {{FIELD("partition", I32)},
                                           {ARRAY_OF("racks", STRING)},
                                           END};
static const ol_field topic_metadata[] = {
    {FIELD("topicId", UUID)},
    {FIELD("topicName", STRING)},
    {FIELD("numPartitions", I32)},
    {ARRAY_OF_STRUCTS("partitionMetadata", partition_racks)},
    END};
static const ol_field partition_metadata_value[] = {{ARRAY_OF_STRUCTS("topics", topic_metadata)},
                                                    END};

static const ol_field classic_protocol[] = {{FIELD("name", STRING)},
                                            {FIELD("metadata", BYTES)},
                                            END};
static const ol_field classic_member_metadata[] = {
    {FIELD("sessionTimeoutMs", I32)},
    {ARRAY_OF_STRUCTS("supportedProtocols", classic_protocol)},
    END};
static const ol_field consumer_member_value[] = {
    {FIELD("instanceId", STRING), NULLABLE},
    {FIELD("rackId", STRING), NULLABLE},
    {FIELD("clientId", STRING)},
    {FIELD("clientHost", STRING)},
    {ARRAY_OF("subscribedTopicNames", STRING)},
    {FIELD("subscribedTopicRegex", STRING), NULLABLE},
    {FIELD("rebalanceTimeoutMs", I32)},
    {FIELD("serverAssignor", STRING), NULLABLE},
    {STRUCT_OF("classicMemberMetadata", classic_member_metadata), NULLABLE, TAG(0)},
    END};

static const ol_field target_metadata_value[] = {
    {FIELD("assignmentEpoch", I32)}, {FIELD("assignmentTimestamp", I64), TAG(0)}, END};
static const ol_field target_member_value[] = {
    {ARRAY_OF_STRUCTS("topicPartitions", topic_partitions)},
    END};
static const ol_field consumer_current_value[] = {
    {FIELD("memberEpoch", I32)},
    {FIELD("previousMemberEpoch", I32)},
    {FIELD("state", I8)},
    {ARRAY_OF_STRUCTS("assignedPartitions", topic_partitions_with_epochs)},
    {ARRAY_OF_STRUCTS("partitionsPendingRevocation", topic_partitions_with_epochs)},
    END};
static const ol_field expression_value[] = {
    {ARRAY_OF("topics", STRING)}, {FIELD("version", I64)}, {FIELD("timestamp", I64)}, END};

/* --------------------------------------------------------------------------------- share groups */

static const ol_field share_member_value[] = {
    {FIELD("rackId", STRING), NULLABLE},
    {FIELD("clientId", STRING)},
    {FIELD("clientHost", STRING)},
    {ARRAY_OF("subscribedTopicNames", STRING)},
    END};
static const ol_field share_group_value[] = {{FIELD("epoch", I32)},
                                             {FIELD("metadataHash", I64)},
                                             END};
static const ol_field share_current_value[] = {
    {FIELD("memberEpoch", I32)},
    {FIELD("previousMemberEpoch", I32)},
    {FIELD("state", I8)},
    {ARRAY_OF_STRUCTS("assignedPartitions", topic_partitions)},
    END};
static const ol_field share_topic[] = {
    {FIELD("topicId", UUID)}, {FIELD("topicName", STRING)}, {ARRAY_OF("partitions", I32)}, END};
static const ol_field deleting_topic[] = {{FIELD("topicId", UUID)},
                                          {FIELD("topicName", STRING)},
                                          END};
static const ol_field share_state_value[] = {
    {ARRAY_OF_STRUCTS("initializingTopics", share_topic)},
    {ARRAY_OF_STRUCTS("initializedTopics", share_topic)},
    {ARRAY_OF_STRUCTS("deletingTopics", deleting_topic)},
    END};

/* ------------------------------------------------------------------------------- streams groups */

static const ol_field streams_group_value[] = {
    {FIELD("epoch", I32)},
    {FIELD("metadataHash", I64)},
    {FIELD("validatedTopologyEpoch", I32), TAG(0)},
    {ARRAY_OF_STRUCTS("lastAssignmentConfigs", key_value), NULLABLE, TAG(1)},
    END};
static const ol_field endpoint[] = {{FIELD("host", STRING)}, {FIELD("port", U16)}, END};
static const ol_field streams_member_value[] = {
    {FIELD("instanceId", STRING), NULLABLE},
    {FIELD("rackId", STRING), NULLABLE},
    {FIELD("clientId", STRING)},
    {FIELD("clientHost", STRING)},
    {FIELD("rebalanceTimeoutMs", I32)},
    {FIELD("topologyEpoch", I32)},
    {FIELD("processId", STRING)},
    {STRUCT_OF("userEndpoint", endpoint), NULLABLE},
    {ARRAY_OF_STRUCTS("clientTags", key_value)},
    END};
static const ol_field tasks[] = {{FIELD("subtopologyId", STRING)},
                                 {ARRAY_OF("partitions", I32)},
                                 END};
static const ol_field tasks_with_epochs[] = {
    {FIELD("subtopologyId", STRING)},
    {ARRAY_OF("partitions", I32)},
    {ARRAY_OF("assignmentEpochs", I32), NULLABLE, TAG(0)},
    END};
static const ol_field streams_target_value[] = {
    {ARRAY_OF_STRUCTS("activeTasks", tasks)},
    {ARRAY_OF_STRUCTS("standbyTasks", tasks)},
    {ARRAY_OF_STRUCTS("warmupTasks", tasks)},
    END};
static const ol_field streams_current_value[] = {
    {FIELD("memberEpoch", I32)},
    {FIELD("previousMemberEpoch", I32)},
    {FIELD("state", I8)},
    {ARRAY_OF_STRUCTS("activeTasks", tasks_with_epochs)},
    {ARRAY_OF_STRUCTS("standbyTasks", tasks_with_epochs)},
    {ARRAY_OF_STRUCTS("warmupTasks", tasks_with_epochs)},
    {ARRAY_OF_STRUCTS("activeTasksPendingRevocation", tasks_with_epochs)},
    {ARRAY_OF_STRUCTS("standbyTasksPendingRevocation", tasks_with_epochs)},
    {ARRAY_OF_STRUCTS("warmupTasksPendingRevocation", tasks_with_epochs)},
    END};
static const ol_field internal_topic[] = {
    {FIELD("name", STRING)},
    {FIELD("partitions", I32)},
    {FIELD("replicationFactor", I16)},
    {ARRAY_OF_STRUCTS("topicConfigs", key_value)},
    END};
static const ol_field copartition_group[] = {{ARRAY_OF("sourceTopics", I16)},
                                             {ARRAY_OF("sourceTopicRegex", I16)},
                                             {ARRAY_OF("repartitionSourceTopics", I16)},
                                             END};
static const ol_field subtopology[] = {
    {FIELD("subtopologyId", STRING)},
    {ARRAY_OF("sourceTopics", STRING)},
    {ARRAY_OF("sourceTopicRegex", STRING)},
    {ARRAY_OF_STRUCTS("stateChangelogTopics", internal_topic)},
    {ARRAY_OF("repartitionSinkTopics", STRING)},
    {ARRAY_OF_STRUCTS("repartitionSourceTopics", internal_topic)},
    {ARRAY_OF_STRUCTS("copartitionGroups", copartition_group)},
    END};
static const ol_field topology_value[] = {{FIELD("epoch", I32)},
                                          {ARRAY_OF_STRUCTS("subtopologies", subtopology)},
                                          END};

/* ---------------------------------------------------------------------------------- by key type */

#define KEY(schema_name, list) {schema_name, list, 0, 0, OL_SCHEMA_NEVER}
#define MODERN(schema_name, list) {schema_name, list, 0, 0, 0}

static const ol_schema keys[] = {
    [0] = KEY("LegacyOffsetCommitKey", offset_key),
    [1] = KEY("OffsetCommitKey", offset_key),
    [2] = KEY("GroupMetadataKey", classic_group_key),
    [3] = KEY("ConsumerGroupMetadataKey", group_key),
    [4] = KEY("ConsumerGroupPartitionMetadataKey", group_key),
    [5] = KEY("ConsumerGroupMemberMetadataKey", member_key),
    [6] = KEY("ConsumerGroupTargetAssignmentMetadataKey", group_key),
    [7] = KEY("ConsumerGroupTargetAssignmentMemberKey", member_key),
    [8] = KEY("ConsumerGroupCurrentMemberAssignmentKey", member_key),
    [10] = KEY("ShareGroupMemberMetadataKey", member_key),
    [11] = KEY("ShareGroupMetadataKey", group_key),
    [12] = KEY("ShareGroupTargetAssignmentMetadataKey", group_key),
    [13] = KEY("ShareGroupTargetAssignmentMemberKey", member_key),
    [14] = KEY("ShareGroupCurrentMemberAssignmentKey", member_key),
    [15] = KEY("ShareGroupStatePartitionMetadataKey", group_key),
    [16] = KEY("ConsumerGroupRegularExpressionKey", expression_key),
    [17] = KEY("StreamsGroupMetadataKey", group_key),
    [19] = KEY("StreamsGroupMemberMetadataKey", member_key),
    [20] = KEY("StreamsGroupTargetAssignmentMetadataKey", group_key),
    [21] = KEY("StreamsGroupTargetAssignmentMemberKey", member_key),
    [22] = KEY("StreamsGroupCurrentMemberAssignmentKey", member_key),
    [23] = KEY("StreamsGroupTopologyKey", group_key),
};

static const ol_schema values[] = {
    [0] = {"LegacyOffsetCommitValue", legacy_offset_value, 0, 0, OL_SCHEMA_NEVER},
    [1] = {"OffsetCommitValue", offset_value, 0, 4, 4},
    [2] = {"GroupMetadataValue", classic_group_value, 0, 4, 4},
    [3] = MODERN("ConsumerGroupMetadataValue", consumer_group_value),
    [4] = MODERN("ConsumerGroupPartitionMetadataValue", partition_metadata_value),
    [5] = MODERN("ConsumerGroupMemberMetadataValue", consumer_member_value),
    [6] = MODERN("ConsumerGroupTargetAssignmentMetadataValue", target_metadata_value),
    [7] = MODERN("ConsumerGroupTargetAssignmentMemberValue", target_member_value),
    [8] = MODERN("ConsumerGroupCurrentMemberAssignmentValue", consumer_current_value),
    [10] = MODERN("ShareGroupMemberMetadataValue", share_member_value),
    [11] = MODERN("ShareGroupMetadataValue", share_group_value),
    [12] = MODERN("ShareGroupTargetAssignmentMetadataValue", target_metadata_value),
    [13] = MODERN("ShareGroupTargetAssignmentMemberValue", target_member_value),
    [14] = MODERN("ShareGroupCurrentMemberAssignmentValue", share_current_value),
    [15] = MODERN("ShareGroupStatePartitionMetadataValue", share_state_value),
    [16] = MODERN("ConsumerGroupRegularExpressionValue", expression_value),
    [17] = MODERN("StreamsGroupMetadataValue", streams_group_value),
    [19] = MODERN("StreamsGroupMemberMetadataValue", streams_member_value),
    [20] = MODERN("StreamsGroupTargetAssignmentMetadataValue", target_metadata_value),
    [21] = MODERN("StreamsGroupTargetAssignmentMemberValue", streams_target_value),
    [22] = MODERN("StreamsGroupCurrentMemberAssignmentValue", streams_current_value),
    [23] = MODERN("StreamsGroupTopologyValue", topology_value),
};

static const ol_schema subscription_schema = {"ConsumerProtocolSubscription", subscription, 0, 3,
                                              OL_SCHEMA_NEVER};
static const ol_schema assignment_schema = {"ConsumerProtocolAssignment", assignment, 0, 3,
                                            OL_SCHEMA_NEVER};

static const ol_schema *schema_at(const ol_schema *schemas, size_t count, int16_t key_type) {
    if (key_type < 0 || (size_t)key_type >= count) return NULL;
    return schemas[key_type].name != NULL ? &schemas[key_type] : NULL;
}

const ol_schema *ol_schema_of_key(int16_t key_type) {
    return schema_at(keys, sizeof keys / sizeof keys[0], key_type);
}
const ol_schema *ol_schema_of_value(int16_t key_type) {
    return schema_at(values, sizeof values / sizeof values[0], key_type);
}
const ol_schema *ol_schema_of_subscription(void) { return &subscription_schema; }
const ol_schema *ol_schema_of_assignment(void) { return &assignment_schema; }
