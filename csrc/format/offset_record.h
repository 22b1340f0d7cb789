/* format/offset_record: keys and values of the records that the engine itself understands.
 *
 * The engine decodes offset commits of every version.  From every other record of
 * __consumer_offsets it decodes only the type and the group (docs/format/records.md §3,
 * docs/format/brokers.md §15).  The remaining fields of those records are described by the tables
 * of format/group_schema.
 *
 * Ownership: decoded slices point into the bytes that were decoded.  Encoders write into the
 * caller's memory.  No lock is taken and no memory is allocated. */
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
    OL_STRING_SIZE_MAX = 32767,         /* how many bytes a Kafka string can have in UTF-8 */
    OL_OFFSET_VALUE_VERSION_MAX = 4,
    OL_TOPIC_ID_SIZE = 16,
};

/* The fields of a record's key. */
typedef struct ol_key {
    int16_t type;
    /* True if docs/format/records.md §3.1 or docs/format/brokers.md §15.1 describes the type.
     * Records of other types are skipped when the log is read, and stay in the log. */
    bool known;
    ol_slice group;             /* set for every known type */
    ol_slice topic;             /* types 0 and 1 */
    int32_t partition;          /* types 0 and 1 */
    /* the second string of the key in types 5, 7, 8, 10, 13, 14, 16, 19, 21 and 22; null in other
     * types */
    ol_slice member;
} ol_key;

/* Decodes a key, and ignores bytes after the last known field (docs/format/records.md §3.1).
 * Returns OL_CORRUPT if the key is null or ends within a known field (docs/format/traps.md trap 9).
 * If the type is unknown, returns OL_OK and sets key->known to false. */
int ol_key_decode(ol_slice bytes, ol_key *key, ol_error *error) OL_NODISCARD;

/* An offset commit's value. */
typedef struct ol_offset_value {
    int64_t offset;
    int64_t commit_timestamp;   /* ms; -1: none */
    int64_t expire_timestamp;   /* ms; -1: none */
    int32_t leader_epoch;       /* -1: none */
    int16_t version;            /* the version that was read; ignored when a value is written */
    ol_slice metadata;
    const uint8_t *topic_id;    /* 16 bytes; NULL: none */
} ol_offset_value;

/* Decodes a value.  With `key_type` 0 only version 0 of the value is allowed, and with `key_type` 1
 * the versions 0 to 4 (docs/format/brokers.md §15.1).  Returns OL_UNSUPPORTED for another version,
 * and OL_CORRUPT if the value ends too early or its metadata is null.  Unknown tagged fields are
 * skipped.  If all bytes of the topic id are zero, the value counts as one without a topic id. */
int ol_offset_value_decode(ol_slice bytes, int16_t key_type, ol_offset_value *value,
                           ol_error *error) OL_NODISCARD;

/* ol_offset_key_size and ol_offset_value_size return the size of an encoded key or value.  The
 * caller has checked that no string is longer than OL_STRING_SIZE_MAX. */
size_t ol_offset_key_size(ol_slice group, ol_slice topic);
uint8_t *ol_offset_key_put(uint8_t *p, int16_t key_type, ol_slice group, ol_slice topic,
                           int32_t partition);

/* Returns the version in which a value must be written (docs/format/records.md §3.3).  `known`,
 * from 1 to 4, is the highest version that every reader of the log can read.
 * The first rule that applies determines the version:
 *   1  A value with an expire timestamp gets version 1.
 *   2  A value with a topic id gets version 4 if `known` is 4.
 *   3  A value without a leader epoch gets version `known` if `known` is 1 or 2.
 *   4  Every other value gets version 3. */
int16_t ol_offset_value_version(const ol_offset_value *value, int16_t known);
size_t ol_offset_value_size(const ol_offset_value *value, int16_t version);
uint8_t *ol_offset_value_put(uint8_t *p, const ol_offset_value *value, int16_t version);

/* Inline functions that write version 3, which nearly every commit has. */
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
