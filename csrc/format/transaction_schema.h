/* format/transaction_schema: the fields of every record of __transaction_state
 * (docs/format/records.md §3.7).
 */
#ifndef OL_FORMAT_TRANSACTION_SCHEMA_H
#define OL_FORMAT_TRANSACTION_SCHEMA_H

#include "format/schema.h"

/* ol_schema_of_transaction_key and ol_schema_of_transaction_value return the schema of the keys
 * and of the values of a type, or NULL if the type is unknown.  The topic has records of type 0
 * only. */
const ol_schema *ol_schema_of_transaction_key(int16_t key_type);
const ol_schema *ol_schema_of_transaction_value(int16_t key_type);

#endif
