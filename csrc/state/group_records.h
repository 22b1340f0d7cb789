/* state/group_records: the latest value of every record that is not an offset commit: group metadata and the modern groups'
 * records, by key bytes.  Values are kept as bytes: this floor knows which group a key is of, not what its value means.
 *
 * Lock and ownership as ol_table.
 */
#ifndef OL_STATE_GROUP_RECORDS_H
#define OL_STATE_GROUP_RECORDS_H

#include "base/hash.h"
#include "base/status.h"

typedef struct ol_group_records ol_group_records;

typedef struct ol_group_record {
    ol_slice key;               /* all of it, type included */
    ol_slice value;
    int64_t log_offset;
    int64_t timestamp;
    ol_slice group;             /* the part of `key` that names its group; nothing but the key decides what it is */
} ol_group_record;

int ol_group_records_create(ol_group_records **records, ol_error *error) OL_NODISCARD;
void ol_group_records_destroy(ol_group_records *records);

/* Replaces the value of record->key; OL_NO_MEMORY leaves the old one. */
int ol_group_records_put(ol_group_records *records, const ol_group_record *record, ol_error *error) OL_NODISCARD;
/* A tombstone.  Returns whether there was a value. */
bool ol_group_records_remove(ol_group_records *records, ol_slice key);

/* Takes everything that putting this record will need (log offset and timestamp are told later), so that what follows cannot fail.  Until
 * it is installed no read sees it. */
typedef struct ol_group_reservation ol_group_reservation;
int ol_group_records_reserve(ol_group_records *records, const ol_group_record *record, ol_group_reservation **reservation,
                             ol_error *error) OL_NODISCARD;

/* Each of the three ends what the caller holds.  Install does what a put does.  Promise leaves it to the put of the record that stands at
 * `log_offset`, which then cannot fail; puts come in the order of promises, and one that was passed over is released. */
void ol_group_records_install(ol_group_records *records, ol_group_reservation *reservation, int64_t log_offset, int64_t timestamp);
void ol_group_records_release(ol_group_records *records, ol_group_reservation *reservation);
void ol_group_records_promise(ol_group_records *records, ol_group_reservation *reservation, int64_t log_offset);
void ol_group_records_release_promised(ol_group_records *records);

bool ol_group_records_get(const ol_group_records *records, ol_slice key, ol_group_record *record);

/* Every record in unspecified, repeatable order; *cursor starts at 0. */
bool ol_group_records_next(const ol_group_records *records, size_t *cursor, ol_group_record *record);

/* The records of one group, in unspecified order and in time proportional to their number; *cursor starts at 0.  A change ends the walk. */
bool ol_group_records_next_of_group(const ol_group_records *records, ol_slice group, size_t *cursor, ol_group_record *record);

uint64_t ol_group_records_count(const ol_group_records *records);
ol_hash128 ol_group_records_digest(const ol_group_records *records, bool physical);
uint64_t ol_group_records_memory_usage(const ol_group_records *records);
void ol_group_records_verify(const ol_group_records *records);     /* for tests: every invariant, in linear time */

#endif
