/* cleaner/retain: finds the slot of a record and decides whether the record stays
 * (docs/format/cleaner.md §8.3, docs/maintenance.md).  A record supersedes the earlier records in
 * the same slot.
 *
 * The slot of an offset record is the bytes of (group, topic, partition).  It does not depend on
 * the type of the key or on bytes that follow the partition in the key.  The slot of any other
 * record, and of every record in the log of a topic, is its whole key.  A record that the state
 * would refuse to apply supersedes no other record.
 *
 * Passes A and B read records into rows, OL_CLEAN_ROWS at a time, and decide about all of them
 * together, so that the cache misses of the key map overlap.  The functions take no lock, except
 * that ol_clean_ask_table takes the partition's table lock. */
#ifndef OL_CLEANER_RETAIN_H
#define OL_CLEANER_RETAIN_H

#include "base/bytes.h"
#include "cleaner/cleaner.h"
#include "cleaner/key_map.h"
#include "format/offset_record.h"

enum { OL_CLEAN_ROWS = 128 };   /* With 128 rows, all memory that a decision needs fits the
                                   first-level cache of the processor. */

enum {
    OL_CLEAN_POSITION = 1,              /* an offset record; the row's name is set */
    OL_CLEAN_TOMBSTONE = 2,
    OL_CLEAN_KEYLESS = 4,
    OL_CLEAN_UNREADABLE = 8,            /* the key ends too early, so that the slot of the record is
                                           unknown */
    OL_CLEAN_HELD = 16,
    OL_CLEAN_OF_ABORTED = 32,  /* a record with a value that an aborted transaction wrote; in the
                                  log of a topic also a tombstone that it wrote */
    OL_CLEAN_OF_UNCERTAIN = 64,
    OL_CLEAN_MAY_GO = 128,              /* a tombstone whose retention time has passed */
    OL_CLEAN_WATCHED = 256,  /* the record's group has a hold, but the record is below the offset
                                where the hold begins to keep records (`end`) */
};

typedef struct ol_clean_row {
    ol_hash128 key;
    int64_t offset;
    uint32_t flags;
} ol_clean_row;

/* The outcome for a record.  Records with an outcome up to OL_CLEAN_STAYS_AND_BEGINS stay. */
typedef enum ol_clean_outcome {
    OL_CLEAN_STAYS,
    OL_CLEAN_STAYS_AND_BEGINS,          /* a tombstone whose retention time begins now */
    OL_CLEAN_SUPERSEDED,
    OL_CLEAN_TOMBSTONE_GOES,
    OL_CLEAN_ABORTED_GOES,
    OL_CLEAN_KEYLESS_GOES,
} ol_clean_outcome;

/* The name of an offset record, with which the partition's table is asked.  Its slices point into
 * the record. */
typedef struct ol_clean_name {
    ol_slice group;
    ol_slice topic;
    int32_t partition;
} ol_clean_name;

/* The records that are decided together. */
typedef struct ol_clean_rows {
    size_t count;
    ol_clean_row row[OL_CLEAN_ROWS];
    /* The names of the rows that are positions.  Filled only if the table is asked, or in a
     * survey. */
    ol_clean_name name[OL_CLEAN_ROWS];
    uint8_t outcome[OL_CLEAN_ROWS];     /* an ol_clean_outcome; set by ol_clean_retain */
} ol_clean_rows;

/* The flags that all rows of a batch share.  value_flags are for rows with a value (aborted or
 * uncertain), and tombstone_flags are for tombstones (may be dropped). */
typedef struct ol_clean_verdict {
    uint32_t value_flags;
    uint32_t tombstone_flags;
} ol_clean_verdict;

/* ----------------------------------------------------------------------------- reading a record */

/* Returns the lowest `end` of all holds that match a group, or INT64_MAX if no hold matches. */
int64_t ol_clean_hold_end(const ol_clean_hold *holds, size_t count, ol_slice group);

/* Returns OL_CLEAN_HELD, OL_CLEAN_WATCHED or 0 for a record.  `last_offset` is the last offset of
 * the record's batch.  A hold keeps whole batches: if it keeps the last record of a batch, it keeps
 * all records of the batch. */
uint32_t ol_clean_hold_flags(const ol_clean_options *options, ol_slice group, int64_t last_offset);

/* The part of ol_clean_read_row for keys that end too early and for keys that are not offset keys.
 * Sets the key of the row and returns the flags to be added to it. */
uint32_t ol_clean_read_other(const ol_key_hasher *hasher, const ol_clean_options *options,
                             const ol_record *record, int64_t last_offset, ol_clean_row *row);

/* Decodes the value and returns whether it can be decoded.  This is the slow part of
 * ol_clean_is_accepted. */
bool ol_clean_can_decode(const ol_record *record);

/* Fills *row and, for an offset record, *name. */
static inline void ol_clean_read_row(const ol_key_hasher *hasher, const ol_clean_options *options,
                                     const ol_record *record, int64_t last_offset,
                                     ol_clean_row *row, ol_clean_name *name) {
    const uint8_t *p = record->key.data;
    size_t size = record->key.size;
    row->offset = record->offset;
    row->flags = record->value.data == NULL ? OL_CLEAN_TOMBSTONE : 0;
    if (OL_LIKELY(p != NULL && size >= 10 && ol_load_u16(p) <= OL_KEY_OFFSET_COMMIT)) {
        size_t group = ol_load_u16(p + 2);
        if (OL_LIKELY(group <= OL_STRING_SIZE_MAX && 10 + group <= size)) {
            size_t topic = ol_load_u16(p + 4 + group);
            if (OL_LIKELY(topic <= OL_STRING_SIZE_MAX && 10 + group + topic <= size)) {
                *name = (ol_clean_name){ol_slice_of(p + 4, group),
                                        ol_slice_of(p + 6 + group, topic),
                                        ol_load_i32(p + 6 + group + topic)};
                row->flags |= OL_CLEAN_POSITION;
                row->key = ol_key_hash(hasher, p + 2, 8 + group + topic, 0);
                if (OL_UNLIKELY(options->hold_count > 0)) {
                    row->flags |= ol_clean_hold_flags(options, name->group, last_offset);
                }
                return;
            }
        }
    }
    row->flags |= ol_clean_read_other(hasher, options, record, last_offset, row);
}

static inline void ol_clean_mark_row(ol_clean_row *row, ol_clean_verdict verdict) {
    if (row->flags & OL_CLEAN_TOMBSTONE) {
        row->flags |= verdict.tombstone_flags;
    } else if (row->flags & OL_CLEAN_POSITION) {
        row->flags |= verdict.value_flags;
    }
}

/* Fills *row for the log of a topic, whose keys may be any bytes.  The slot is the whole key.  A
 * tombstone that an aborted transaction wrote has no effect in the log of a topic, but it takes
 * effect in a log of offsets. */
static inline void ol_clean_read_bytes_row(const ol_key_hasher *hasher, const ol_record *record,
                                           ol_clean_verdict verdict, ol_clean_row *row) {
    row->offset = record->offset;
    row->flags = verdict.value_flags;
    if (record->value.data == NULL) row->flags |= OL_CLEAN_TOMBSTONE | verdict.tombstone_flags;
    if (record->key.data == NULL) {
        row->key = (ol_hash128){0, 0};
        row->flags |= OL_CLEAN_KEYLESS;
        return;
    }
    row->key = ol_key_hash(hasher, record->key.data, record->key.size, 1);
}

/* Returns whether the value of an offset record can be applied to the state (docs/format/records.md
 * §3.2, docs/format/brokers.md §15.1). */
static inline bool ol_clean_is_accepted(const ol_record *record) {
    const uint8_t *value = record->value.data;
    /* Nearly every commit is of type 1 with version 3. */
    if (OL_LIKELY(record->value.size >= 24 && record->key.data[1] == OL_KEY_OFFSET_COMMIT &&
                  ol_load_u16(value) == 3)) {
        size_t metadata = ol_load_u16(value + 14);
        if (metadata <= OL_STRING_SIZE_MAX && metadata <= record->value.size - 24) return true;
    }
    return ol_clean_can_decode(record);
}

/* ----------------------------------------------------------------------------- asking the table */

/* Returns whether the partition's role allows reads of its table now. */
bool ol_clean_can_ask_table(ol_partition *partition);

/* Asks the partition's table about every row that is a position.  Sets answers[i] to the offset of
 * the last record in the slot of row i.  The answer is -1 if the table does not know this offset,
 * or if the offset is not below `limit`; the key map must then be asked.  Takes the table lock for
 * at most 128 rows at a time. */
void ol_clean_ask_table(ol_partition *partition, const ol_clean_rows *rows, int64_t limit,
                        int64_t answers[OL_CLEAN_ROWS]);

#endif
