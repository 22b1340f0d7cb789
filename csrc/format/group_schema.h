/* format/group_schema: the fields of every record of __consumer_offsets
 * (docs/format/records.md §3, docs/format/brokers.md §15.1).
 *
 * The engine itself reads and writes offset commits with format/offset_record.  Their schemas are
 * here too, because dumps use them. */
#ifndef OL_FORMAT_GROUP_SCHEMA_H
#define OL_FORMAT_GROUP_SCHEMA_H

#include "format/schema.h"

/* ol_schema_of_key and ol_schema_of_value return the schema of the keys and of the values of a
 * type, or NULL if the type is unknown (9, 18, above 23, below 0).  Keys have only version 0. */
const ol_schema *ol_schema_of_key(int16_t key_type);
const ol_schema *ol_schema_of_value(int16_t key_type);

/* ol_schema_of_subscription and ol_schema_of_assignment return the schemas of two byte fields that
 * GroupMetadata has for each member of a group of consumers: `subscription` and `assignment`. */
const ol_schema *ol_schema_of_subscription(void);
const ol_schema *ol_schema_of_assignment(void);

#endif
