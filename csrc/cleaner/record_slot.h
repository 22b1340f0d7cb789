/* cleaner/record_slot: what the cleaner sees of one record: whose slot it is, and whether it counts (docs/maintenance.md).
 *
 * Offset records are told apart by the bytes of (group, topic, partition), whatever the type of the key and whatever stands behind; all others by all
 * of their key.  What apply would refuse supersedes nothing here either. */
#ifndef OL_CLEANER_RECORD_SLOT_H
#define OL_CLEANER_RECORD_SLOT_H

#include "base/bytes.h"
#include "cleaner/cleaner.h"
#include "cleaner/key_map.h"
#include "format/offset_record.h"

enum {
    OL_CLEAN_POSITION = 1,          /* an offset record; `name` is set */
    OL_CLEAN_TOMBSTONE = 2,
    OL_CLEAN_KEYLESS = 4,
    OL_CLEAN_UNREADABLE = 8,        /* a key that is cut: nobody knows whose */
    OL_CLEAN_HELD = 16,
    OL_CLEAN_OF_ABORTED = 32,       /* a value that only an aborted transaction has */
    OL_CLEAN_OF_UNCERTAIN = 64,
    OL_CLEAN_MAY_GO = 128,          /* a tombstone whose time has passed */
    OL_CLEAN_WATCHED = 256,         /* of a group that is held, but below the end of its hold */
};

typedef struct ol_clean_row {
    ol_hash128 key;
    int64_t offset;
    uint32_t flags;
} ol_clean_row;

/* Of an offset record, for the table; borrows from the record. */
typedef struct ol_clean_name {
    ol_slice group;
    ol_slice topic;
    int32_t partition;
} ol_clean_name;

/* The end of the holds that match a group, INT64_MAX for none. */
int64_t ol_clean_hold_end(const ol_clean_hold *holds, size_t count, ol_slice group);
/* OL_CLEAN_HELD, OL_CLEAN_WATCHED or 0, for a record in a batch that ends at `last_offset`: a batch counts as a whole. */
uint32_t ol_clean_see_holds(const ol_clean_options *options, ol_slice group, int64_t last_offset);

/* The rest of what ol_clean_see does, for keys that are not those of an offset record, or cut. */
uint32_t ol_clean_see_other(const ol_key_hasher *hasher, const ol_clean_options *options, const ol_record *record, int64_t last_offset,
                            ol_clean_row *row);

/* Whether apply would take the value of an offset record whose value is not the usual one. */
bool ol_clean_is_sound(const ol_record *record);

/* Fills row and, for an offset record, name. */
static inline void ol_clean_see(const ol_key_hasher *hasher, const ol_clean_options *options, const ol_record *record,
                                int64_t last_offset, ol_clean_row *row, ol_clean_name *name) {
    const uint8_t *p = record->key.data;
    size_t size = record->key.size;
    row->offset = record->offset;
    row->flags = record->value.data == NULL ? OL_CLEAN_TOMBSTONE : 0;
    if (OL_LIKELY(p != NULL && size >= 10 && ol_load_u16(p) <= OL_KEY_OFFSET_COMMIT)) {
        size_t group = ol_load_u16(p + 2);
        if (OL_LIKELY(group <= OL_STRING_SIZE_MAX && 10 + group <= size)) {
            size_t topic = ol_load_u16(p + 4 + group);
            if (OL_LIKELY(topic <= OL_STRING_SIZE_MAX && 10 + group + topic <= size)) {
                *name = (ol_clean_name){ol_slice_of(p + 4, group), ol_slice_of(p + 6 + group, topic),
                                        ol_load_i32(p + 6 + group + topic)};
                row->flags |= OL_CLEAN_POSITION;
                row->key = ol_key_hash(hasher, p + 2, 8 + group + topic, 0);
                if (OL_UNLIKELY(options->hold_count > 0)) row->flags |= ol_clean_see_holds(options, name->group, last_offset);
                return;
            }
        }
    }
    row->flags |= ol_clean_see_other(hasher, options, record, last_offset, row);
}

/* Whether apply takes the value of an offset record (docs/format/records.md §3.2, docs/format/brokers.md §15.1). */
static inline bool ol_clean_is_taken(const ol_record *record) {
    const uint8_t *value = record->value.data;
    /* Type 1 with version 3 is what nearly every commit is. */
    if (OL_LIKELY(record->value.size >= 24 && record->key.data[1] == OL_KEY_OFFSET_COMMIT && ol_load_u16(value) == 3)) {
        size_t metadata = ol_load_u16(value + 14);
        if (metadata <= OL_STRING_SIZE_MAX && metadata <= record->value.size - 24) return true;
    }
    return ol_clean_is_sound(record);
}

#endif
