/* wire/tables_groups.c: the messages of groups and of their coordinator. */
#include "wire/tables.h"

/* ---------------------------------------------------------------------------- FindCoordinator */

static const ol_field find_coordinator_request[] = {
    {FIELD("key", STRING), REMOVED_IN(4)},
    {FIELD("keyType", I8), SINCE(1)},
    {ARRAY_OF("coordinatorKeys", STRING), SINCE(4)},
    END};
SCHEMA(FindCoordinatorRequest, find_coordinator_request, VERSIONS(0, 6), FLEXIBLE_FROM(3))

static const ol_field coordinator[] = {
    {FIELD("key", STRING)},
    {FIELD("nodeId", I32)},
    {FIELD("host", STRING)},
    {FIELD("port", I32)},
    {FIELD("errorCode", I16)},
    {FIELD("errorMessage", STRING), NULLABLE},
    END};
static const ol_field find_coordinator_response[] = {
    {FIELD("throttleTimeMs", I32), SINCE(1)},
    {FIELD("errorCode", I16), REMOVED_IN(4)},
    {FIELD("errorMessage", STRING), SINCE(1), REMOVED_IN(4), NULLABLE},
    {FIELD("nodeId", I32), REMOVED_IN(4)},
    {FIELD("host", STRING), REMOVED_IN(4)},
    {FIELD("port", I32), REMOVED_IN(4)},
    {ARRAY_OF_STRUCTS("coordinators", coordinator), SINCE(4)},
    END};
SCHEMA(FindCoordinatorResponse, find_coordinator_response, VERSIONS(0, 6), FLEXIBLE_FROM(3))

/* ---------------------------------------------------------------------------------- JoinGroup */

static const ol_field join_group_request_protocol[] = {
    {FIELD("name", STRING)},
    {FIELD("metadata", BYTES)},
    END};
static const ol_field join_group_request[] = {
    {FIELD("groupId", STRING)},
    {FIELD("sessionTimeoutMs", I32)},
    {FIELD("rebalanceTimeoutMs", I32), SINCE(1), DEFAULT(-1)},
    {FIELD("memberId", STRING)},
    {FIELD("groupInstanceId", STRING), SINCE(5), NULLABLE, DEFAULT_NULL},
    {FIELD("protocolType", STRING)},
    {ARRAY_OF_STRUCTS("protocols", join_group_request_protocol)},
    {FIELD("reason", STRING), SINCE(8), NULLABLE, DEFAULT_NULL},
    END};
SCHEMA(JoinGroupRequest, join_group_request, VERSIONS(0, 9), FLEXIBLE_FROM(6))

static const ol_field join_group_response_member[] = {
    {FIELD("memberId", STRING)},
    {FIELD("groupInstanceId", STRING), SINCE(5), NULLABLE, DEFAULT_NULL},
    {FIELD("metadata", BYTES)},
    END};
static const ol_field join_group_response[] = {
    {FIELD("throttleTimeMs", I32), SINCE(2)},
    {FIELD("errorCode", I16)},
    {FIELD("generationId", I32), DEFAULT(-1)},
    {FIELD("protocolType", STRING), SINCE(7), NULLABLE, DEFAULT_NULL},
    {FIELD("protocolName", STRING), NULLABLE_FROM(7)},
    {FIELD("leader", STRING)},
    {FIELD("skipAssignment", BOOLEAN), SINCE(9)},
    {FIELD("memberId", STRING)},
    {ARRAY_OF_STRUCTS("members", join_group_response_member)},
    END};
SCHEMA(JoinGroupResponse, join_group_response, VERSIONS(0, 9), FLEXIBLE_FROM(6))

/* ---------------------------------------------------------------------------------- SyncGroup */

static const ol_field sync_group_request_assignment[] = {
    {FIELD("memberId", STRING)},
    {FIELD("assignment", BYTES)},
    END};
static const ol_field sync_group_request[] = {
    {FIELD("groupId", STRING)},
    {FIELD("generationId", I32)},
    {FIELD("memberId", STRING)},
    {FIELD("groupInstanceId", STRING), SINCE(3), NULLABLE, DEFAULT_NULL},
    {FIELD("protocolType", STRING), SINCE(5), NULLABLE, DEFAULT_NULL},
    {FIELD("protocolName", STRING), SINCE(5), NULLABLE, DEFAULT_NULL},
    {ARRAY_OF_STRUCTS("assignments", sync_group_request_assignment)},
    END};
SCHEMA(SyncGroupRequest, sync_group_request, VERSIONS(0, 5), FLEXIBLE_FROM(4))

static const ol_field sync_group_response[] = {
    {FIELD("throttleTimeMs", I32), SINCE(1)},
    {FIELD("errorCode", I16)},
    {FIELD("protocolType", STRING), SINCE(5), NULLABLE, DEFAULT_NULL},
    {FIELD("protocolName", STRING), SINCE(5), NULLABLE, DEFAULT_NULL},
    {FIELD("assignment", BYTES)},
    END};
SCHEMA(SyncGroupResponse, sync_group_response, VERSIONS(0, 5), FLEXIBLE_FROM(4))

/* ---------------------------------------------------------------------------------- Heartbeat */

static const ol_field heartbeat_request[] = {
    {FIELD("groupId", STRING)},
    {FIELD("generationId", I32)},
    {FIELD("memberId", STRING)},
    {FIELD("groupInstanceId", STRING), SINCE(3), NULLABLE, DEFAULT_NULL},
    END};
SCHEMA(HeartbeatRequest, heartbeat_request, VERSIONS(0, 4), FLEXIBLE_FROM(4))

static const ol_field heartbeat_response[] = {
    {FIELD("throttleTimeMs", I32), SINCE(1)},
    {FIELD("errorCode", I16)},
    END};
SCHEMA(HeartbeatResponse, heartbeat_response, VERSIONS(0, 4), FLEXIBLE_FROM(4))

/* --------------------------------------------------------------------------------- LeaveGroup */

static const ol_field member_identity[] = {
    {FIELD("memberId", STRING)},
    {FIELD("groupInstanceId", STRING), NULLABLE, DEFAULT_NULL},
    {FIELD("reason", STRING), SINCE(5), NULLABLE, DEFAULT_NULL},
    END};
static const ol_field leave_group_request[] = {
    {FIELD("groupId", STRING)},
    {FIELD("memberId", STRING), REMOVED_IN(3)},
    {ARRAY_OF_STRUCTS("members", member_identity), SINCE(3)},
    END};
SCHEMA(LeaveGroupRequest, leave_group_request, VERSIONS(0, 5), FLEXIBLE_FROM(4))

static const ol_field member_response[] = {
    {FIELD("memberId", STRING)},
    {FIELD("groupInstanceId", STRING), NULLABLE},
    {FIELD("errorCode", I16)},
    END};
static const ol_field leave_group_response[] = {
    {FIELD("throttleTimeMs", I32), SINCE(1)},
    {FIELD("errorCode", I16)},
    {ARRAY_OF_STRUCTS("members", member_response), SINCE(3)},
    END};
SCHEMA(LeaveGroupResponse, leave_group_response, VERSIONS(0, 5), FLEXIBLE_FROM(4))

/* --------------------------------------------------------------------------------- ListGroups */

static const ol_field list_groups_request[] = {
    {ARRAY_OF("statesFilter", STRING), SINCE(4)},
    {ARRAY_OF("typesFilter", STRING), SINCE(5)},
    END};
SCHEMA(ListGroupsRequest, list_groups_request, VERSIONS(0, 5), FLEXIBLE_FROM(3))

static const ol_field listed_group[] = {
    {FIELD("groupId", STRING)},
    {FIELD("protocolType", STRING)},
    {FIELD("groupState", STRING), SINCE(4)},
    {FIELD("groupType", STRING), SINCE(5)},
    END};
static const ol_field list_groups_response[] = {
    {FIELD("throttleTimeMs", I32), SINCE(1)},
    {FIELD("errorCode", I16)},
    {ARRAY_OF_STRUCTS("groups", listed_group)},
    END};
SCHEMA(ListGroupsResponse, list_groups_response, VERSIONS(0, 5), FLEXIBLE_FROM(3))

/* ----------------------------------------------------------------------------- DescribeGroups */

static const ol_field describe_groups_request[] = {
    {ARRAY_OF("groups", STRING)},
    {FIELD("includeAuthorizedOperations", BOOLEAN), SINCE(3)},
    END};
SCHEMA(DescribeGroupsRequest, describe_groups_request, VERSIONS(0, 6), FLEXIBLE_FROM(5))

static const ol_field described_group_member[] = {
    {FIELD("memberId", STRING)},
    {FIELD("groupInstanceId", STRING), SINCE(4), NULLABLE, DEFAULT_NULL},
    {FIELD("clientId", STRING)},
    {FIELD("clientHost", STRING)},
    {FIELD("memberMetadata", BYTES)},
    {FIELD("memberAssignment", BYTES)},
    END};
static const ol_field described_group[] = {
    {FIELD("errorCode", I16)},
    {FIELD("errorMessage", STRING), SINCE(6), NULLABLE, DEFAULT_NULL},
    {FIELD("groupId", STRING)},
    {FIELD("groupState", STRING)},
    {FIELD("protocolType", STRING)},
    {FIELD("protocolData", STRING)},
    {ARRAY_OF_STRUCTS("members", described_group_member)},
    {FIELD("authorizedOperations", I32), SINCE(3), DEFAULT(INT32_MIN)},
    END};
static const ol_field describe_groups_response[] = {
    {FIELD("throttleTimeMs", I32), SINCE(1)},
    {ARRAY_OF_STRUCTS("groups", described_group)},
    END};
SCHEMA(DescribeGroupsResponse, describe_groups_response, VERSIONS(0, 6), FLEXIBLE_FROM(5))

/* ------------------------------------------------------------------------------- DeleteGroups */

static const ol_field delete_groups_request[] = {{ARRAY_OF("groupsNames", STRING)}, END};
SCHEMA(DeleteGroupsRequest, delete_groups_request, VERSIONS(0, 2), FLEXIBLE_FROM(2))

static const ol_field deletable_group_result[] = {
    {FIELD("groupId", STRING)},
    {FIELD("errorCode", I16)},
    END};
static const ol_field delete_groups_response[] = {
    {FIELD("throttleTimeMs", I32)},
    {ARRAY_OF_STRUCTS("results", deletable_group_result)},
    END};
SCHEMA(DeleteGroupsResponse, delete_groups_response, VERSIONS(0, 2), FLEXIBLE_FROM(2))
