/* format/group_schema: the fields of every record of __consumer_offsets
 * (docs/format/records.md §3, docs/format/brokers.md §15.1).
 *
 * The engine's own path for offset commits is format/offset_record; their schemas are here for
 * dumps.
 */
#ifndef OL_FORMAT_GROUP_SCHEMA_H
#define OL_FORMAT_GROUP_SCHEMA_H

#include "format/schema.h"

/* Both return NULL for an unknown type (9, 18, above 23, below 0).  Keys have only version 0. */
const ol_schema *ol_schema_of_key(int16_t key_type);
const ol_schema *ol_schema_of_value(int16_t key_type);

/* Return the schemas of the subscription and the assignment that a consumer puts into a member of
 * GroupMetadata. */
const ol_schema *ol_schema_of_subscription(void);
const ol_schema *ol_schema_of_assignment(void);

#endif
