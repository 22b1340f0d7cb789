/* state/group_records: the latest value of every record that is not an offset commit, by key bytes.
 *
 * These records are the metadata of classic groups and the records of the newer kinds of groups.
 * Values are stored as bytes: the functions here read the name of the group from a key, but do not
 * decode values.
 *
 * Locks and ownership are those of table/table.  A caller that changes the records holds both the
 * writer lock and the table lock of the partition.  A caller that reads them holds one of the two.
 * A call that fails changes nothing.
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
    ol_slice group;  /* the name of the group, which is a part of `key` */
} ol_group_record;

int ol_group_records_create(ol_group_records **records, ol_error *error) OL_NODISCARD;
void ol_group_records_destroy(ol_group_records *records);

/* Sets the value of record->key.  If it fails with OL_NO_MEMORY, the key keeps its old value. */
int ol_group_records_put(ol_group_records *records, const ol_group_record *record, ol_error *error)
    OL_NODISCARD;
/* Applies a tombstone.  Returns whether the key had a value. */
bool ol_group_records_remove(ol_group_records *records, ol_slice key);

/* Allocates all memory that is needed to put the record later, so that the calls below cannot fail.
 * Those calls supply the log offset and the timestamp of the record.  Reads do not return the
 * record until it is installed. */
typedef struct ol_group_reservation ol_group_reservation;
int ol_group_records_reserve(ol_group_records *records, const ol_group_record *record,
                             ol_group_reservation **reservation, ol_error *error) OL_NODISCARD;

/* Each of the first three calls below ends the caller's reservation.  ol_group_records_install puts
 * the record.  ol_group_records_release frees the memory.  ol_group_records_promise keeps the
 * memory for a later ol_group_records_put of the record at `log_offset`, which then cannot fail.
 * The puts must come in the order of the promises.  If a put comes for a later promise, the
 * promises before it are released. */
void ol_group_records_install(ol_group_records *records, ol_group_reservation *reservation,
                              int64_t log_offset, int64_t timestamp);
void ol_group_records_release(ol_group_records *records, ol_group_reservation *reservation);
void ol_group_records_promise(ol_group_records *records, ol_group_reservation *reservation,
                              int64_t log_offset);
void ol_group_records_release_promised(ol_group_records *records);

bool ol_group_records_get(const ol_group_records *records, ol_slice key, ol_group_record *record);

/* Sets *record to the next record of a walk over all records, in unspecified but repeatable order.
 * The caller sets *cursor to 0 before the walk.  Returns false after the last record. */
bool ol_group_records_next(const ol_group_records *records, size_t *cursor,
                           ol_group_record *record);

/* Sets *record to the next record of one group, in unspecified order.  The caller sets *cursor to 0
 * before the walk.  Returns false after the last record.  A walk takes time proportional to the
 * number of the group's records.  After any change of the records, the walk cannot be continued. */
bool ol_group_records_next_of_group(const ol_group_records *records, ol_slice group, size_t *cursor,
                                    ol_group_record *record);

uint64_t ol_group_records_count(const ol_group_records *records);
ol_hash128 ol_group_records_digest(const ol_group_records *records, bool physical);
uint64_t ol_group_records_memory_usage(const ol_group_records *records);
/* For tests: asserts every invariant, in linear time. */
void ol_group_records_verify(const ol_group_records *records);

#endif
