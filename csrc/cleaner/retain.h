/* cleaner/retain: finds the slot of a record (in a slot, a later record supersedes an earlier one),
 * and decides whether the record stays (docs/format/cleaner.md §8.3, docs/maintenance.md).
 *
 * The slot of an offset record is the bytes of (group, topic, partition), whatever the type of its
 * key is and whatever bytes follow in the key.  The slot of any other record, and of every record
 * of a topic, is its whole key.  A record that apply would refuse supersedes nothing.
 *
 * Passes A and B read records into rows, OL_CLEAN_ROWS at a time, and decide about all of them
 * together, so that the cache misses of the key map overlap.  No locks, except where
 * ol_clean_ask_table takes the partition's table lock. */
#ifndef OL_CLEANER_RETAIN_H
#define OL_CLEANER_RETAIN_H

#include "base/bytes.h"
#include "cleaner/cleaner.h"
#include "cleaner/key_map.h"
#include "format/offset_record.h"

enum { OL_CLEAN_ROWS = 128 };   /* 128 rows, and all that they use, fit the first-level cache */

enum {
    OL_CLEAN_POSITION = 1,              /* an offset record; the row's name is set */
    OL_CLEAN_TOMBSTONE = 2,
    OL_CLEAN_KEYLESS = 4,
    OL_CLEAN_UNREADABLE = 8,            /* the key ends early, so the record's slot is unknown */
    OL_CLEAN_HELD = 16,
    OL_CLEAN_OF_ABORTED = 32,  /* a value of an aborted transaction; in the log of a topic also a
                                  tombstone */
    OL_CLEAN_OF_UNCERTAIN = 64,
    OL_CLEAN_MAY_GO = 128,              /* a tombstone whose retention time has passed */
    OL_CLEAN_WATCHED = 256,  /* the record's group has a hold, but the record is below the end of
                                the hold */
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

/* The name of an offset record, for the table; borrows from the record. */
typedef struct ol_clean_name {
    ol_slice group;
    ol_slice topic;
    int32_t partition;
} ol_clean_name;

/* The records that are decided together. */
typedef struct ol_clean_rows {
    size_t count;
    ol_clean_row row[OL_CLEAN_ROWS];
    /* The names of positions; filled only if the table is asked, or in a survey. */
    ol_clean_name name[OL_CLEAN_ROWS];
    uint8_t outcome[OL_CLEAN_ROWS];     /* an ol_clean_outcome; set by ol_clean_retain */
} ol_clean_rows;

/* Flags that all rows of a batch share: for its values (aborted, uncertain) and for its tombstones
 * (may go). */
typedef struct ol_clean_verdict {
    uint32_t value_flags;
    uint32_t tombstone_flags;
} ol_clean_verdict;

/* ----------------------------------------------------------------------------- reading a record */

/* Returns the lowest end of the holds that match a group, INT64_MAX for none. */
int64_t ol_clean_hold_end(const ol_clean_hold *holds, size_t count, ol_slice group);

/* Returns OL_CLEAN_HELD, OL_CLEAN_WATCHED or 0 for a record in a batch that ends at `last_offset`;
 * a batch is held as a whole. */
uint32_t ol_clean_hold_flags(const ol_clean_options *options, ol_slice group, int64_t last_offset);

/* Completes ol_clean_read_row for keys that end early and for keys of other types.  Sets the row's
 * key and returns further flags. */
uint32_t ol_clean_read_other(const ol_key_hasher *hasher, const ol_clean_options *options,
                             const ol_record *record, int64_t last_offset, ol_clean_row *row);

/* Decodes the value and returns whether that succeeds: the slow part of ol_clean_is_accepted. */
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

/* Fills *row for a log whose keys are any bytes: the slot is the key, and tombstones of aborted
 * transactions have no effect (in the log of a partition they have one). */
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

/* Returns whether apply accepts the value of an offset record (docs/format/records.md §3.2,
 * docs/format/brokers.md §15.1). */
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

/* Asks the table for every row that is a position.  answers[i] is the offset of the last record
 * below `limit` in the row's slot, or -1 if the map must be asked.  Takes the table lock for at
 * most 128 rows at a time. */
void ol_clean_ask_table(ol_partition *partition, const ol_clean_rows *rows, int64_t limit,
                        int64_t answers[OL_CLEAN_ROWS]);

#endif
