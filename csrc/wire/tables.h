/* wire/tables: the macros in which the tables of messages are written, and the list of the
 * messages.
 *
 * The tables have the versions of Kafka 4.3.0 (docs/format/wire.md §11), and the fields have the
 * names that Kafka gives them.  In addition, the tables have the older versions that clients of
 * Kafka 0.8 use, because these clients do not ask which versions the server supports.
 */
#ifndef OL_WIRE_TABLES_H
#define OL_WIRE_TABLES_H

#include "format/schema_table_internal.h"

#define VERSIONS(first, last) first, last
#define FLEXIBLE_FROM(version) version
#define FLEXIBLE_NEVER OL_SCHEMA_NEVER
#define SCHEMA(message, list, versions, flexible) \
    const ol_schema ol_message_##message = {#message, list, versions, flexible};

/* Calls APPLY(the key of the API, its name, the first version that is advertised) for each API. */
#define OL_WIRE_APIS(APPLY) \
    APPLY(0, Produce, 3) \
    APPLY(1, Fetch, 4) \
    APPLY(2, ListOffsets, 1) \
    APPLY(3, Metadata, 0) \
    APPLY(8, OffsetCommit, 2) \
    APPLY(9, OffsetFetch, 1) \
    APPLY(10, FindCoordinator, 0) \
    APPLY(11, JoinGroup, 0) \
    APPLY(12, Heartbeat, 0) \
    APPLY(13, LeaveGroup, 0) \
    APPLY(14, SyncGroup, 0) \
    APPLY(15, DescribeGroups, 0) \
    APPLY(16, ListGroups, 0) \
    APPLY(18, ApiVersions, 0) \
    APPLY(19, CreateTopics, 2) \
    APPLY(20, DeleteTopics, 1) \
    APPLY(22, InitProducerId, 0) \
    APPLY(23, OffsetForLeaderEpoch, 2) \
    APPLY(32, DescribeConfigs, 1) \
    APPLY(37, CreatePartitions, 0) \
    APPLY(42, DeleteGroups, 0) \
    APPLY(44, IncrementalAlterConfigs, 0) \
    APPLY(47, OffsetDelete, 0) \
    APPLY(60, DescribeCluster, 0)

#define DECLARE(api_key, api, advertised_from) \
    extern const ol_schema ol_message_##api##Request; \
    extern const ol_schema ol_message_##api##Response;
OL_WIRE_APIS(DECLARE)
#undef DECLARE

#endif
