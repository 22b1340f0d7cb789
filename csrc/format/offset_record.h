/* format/offset_record: keys and values of the records that the engine itself understands.
 *
 * The engine understands offset commits in every version, and the kind and group of every other
 * record of __consumer_offsets (docs/format/records.md §3, docs/format/brokers.md §15).
 * format/group_schema describes the group records' own fields as data.
 *
 * Ownership: decoders borrow from the bytes they are given; encoders write into the caller's
 * memory.  Locks: none; no allocation.
 */
#ifndef OL_FORMAT_OFFSET_RECORD_H
#define OL_FORMAT_OFFSET_RECORD_H

#include "base/bytes.h"
#include "base/status.h"

enum {
    OL_KEY_OFFSET_COMMIT_LEGACY = 0,
    OL_KEY_OFFSET_COMMIT = 1,
    OL_KEY_GROUP_METADATA = 2,
    OL_KEY_CONSUMER_GROUP_METADATA = 3,
    OL_KEY_LAST_KNOWN = 23,  /* highest key type; 9 and 18 do not exist (docs/format/brokers.md
                                §15.1) */
    OL_STRING_SIZE_MAX = 32767,         /* bytes of UTF-8 that a Kafka string can carry */
    OL_OFFSET_VALUE_VERSION_MAX = 4,
    OL_TOPIC_ID_SIZE = 16,
};

/* The fields of a record's key. */
typedef struct ol_key {
    int16_t type;
    /* whether docs/format/records.md §3.1 or docs/format/brokers.md §15.1 describes the type;
     * records of other types stay in the file and are skipped */
    bool known;
    ol_slice group;             /* set for every known type */
    ol_slice topic;             /* types 0 and 1 */
    int32_t partition;          /* types 0 and 1 */
    /* second string of types 5, 7, 8, 10, 13, 14, 16, 19, 21 and 22; else null */
    ol_slice member;
} ol_key;

/* Decodes a key.  Bytes after the last known field are ignored (docs/format/records.md §3.1).
 * OL_CORRUPT: a null key, or one that ends within a known field (docs/format/traps.md trap 9).  An
 * unknown type is OL_OK with known == false. */
int ol_key_decode(ol_slice bytes, ol_key *key, ol_error *error) OL_NODISCARD;

/* An offset commit's value. */
typedef struct ol_offset_value {
    int64_t offset;
    int64_t commit_timestamp;   /* ms; -1: none */
    int64_t expire_timestamp;   /* ms; -1: none */
    int32_t leader_epoch;       /* -1: none */
    int16_t version;            /* as read; ignored when writing */
    ol_slice metadata;
    const uint8_t *topic_id;    /* 16 bytes; NULL: none */
} ol_offset_value;

/* Decodes a value.  `key_type` 0 allows only version 0, type 1 versions 0 to 4
 * (docs/format/brokers.md §15.1).  OL_UNSUPPORTED for another version, OL_CORRUPT for a value that
 * ends early or has null metadata.  Unknown tags are skipped; an all-zero topic id reads as
 * none. */
int ol_offset_value_decode(ol_slice bytes, int16_t key_type, ol_offset_value *value,
                           ol_error *error) OL_NODISCARD;

/* ol_offset_key_size and ol_offset_value_size return the size of an encoding.  The caller has
 * checked the strings against OL_STRING_SIZE_MAX. */
size_t ol_offset_key_size(ol_slice group, ol_slice topic);
uint8_t *ol_offset_key_put(uint8_t *p, int16_t key_type, ol_slice group, ol_slice topic,
                           int32_t partition);

/* Returns the version in which a value is written (docs/format/records.md §3.3).  `known` is the
 * highest version that every reader of the log is known to read, 1 to 4.  The version is 1 if the
 * value has an expire timestamp.  Otherwise it is 4 if `known` is 4 and the value has a topic id,
 * `known` if that is below 3 and the value has no leader epoch, and else 3. */
int16_t ol_offset_value_version(const ol_offset_value *value, int16_t known);
size_t ol_offset_value_size(const ol_offset_value *value, int16_t version);
uint8_t *ol_offset_value_put(uint8_t *p, const ol_offset_value *value, int16_t version);

/* Inline functions for version 3, the form of nearly every commit. */
static inline size_t ol_offset_value_3_size(ol_slice metadata) {
    return 2 + 8 + 4 + 2 + metadata.size + 8;
}
static inline uint8_t *ol_offset_value_3_put(uint8_t *p, int64_t offset, int32_t leader_epoch,
                                             ol_slice metadata, int64_t commit_timestamp) {
    OL_ASSERT(metadata.size <= OL_STRING_SIZE_MAX);
    ol_store_i16(p, 3);
    ol_store_i64(p + 2, offset);
    ol_store_i32(p + 10, leader_epoch);
    ol_store_i16(p + 14, (int16_t)metadata.size);
    p += 16;
    if (metadata.size > 0) memcpy(p, metadata.data, metadata.size);
    p += metadata.size;
    ol_store_i64(p, commit_timestamp);
    return p + 8;
}

#endif
