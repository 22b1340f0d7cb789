/* format/usual_commit: reads an offset commit in one pass if it has the form of nearly every
 * commit.
 *
 * A record has this form (docs/format/batches.md §2.2, docs/format/records.md §3) if all of these
 * conditions hold:
 *   - each size and the offset delta have one or two bytes, and the timestamp delta has one byte
 *   - the key has type 1, and the value has version 3
 *   - neither the key nor the value has bytes after its last field
 *   - the record has no headers
 *
 * If a record has another form or breaks a rule, ol_usual_commit_read returns NULL.  The caller
 * then reads the record with ol_records_next and the decoders of format/offset_record, which also
 * report a broken rule.  If ol_usual_commit_read reads a record, the result is the same as that of
 * these decoders.
 *
 * Ownership: a commit points into the bytes from which it was read.  The functions take no
 * locks. */
#ifndef OL_FORMAT_USUAL_COMMIT_H
#define OL_FORMAT_USUAL_COMMIT_H

#include "base/base.h"
#include "base/bytes.h"
#include "format/offset_record.h"

enum {
    OL_USUAL_KEY_FIXED = 10,    /* type, two sizes, partition */
    OL_USUAL_VALUE_FIXED = 24,  /* the fields of a value that have a fixed size: version, offset,
                                   leader epoch, size of the metadata, timestamp */
    /* The six fields of one byte each are the attributes, the timestamp delta, the offset delta,
     * the sizes of key and value, and the number of headers. */
    OL_USUAL_LENGTH_LEAST = 6 + OL_USUAL_KEY_FIXED + OL_USUAL_VALUE_FIXED,
};

typedef struct ol_usual_commit {
    const uint8_t *key;         /* its first byte */
    const uint8_t *value;
    int32_t offset_delta;
    int32_t timestamp_delta;
    uint16_t group_size;
    uint16_t topic_size;
    uint16_t metadata_size;
} ol_usual_commit;

static inline ol_slice ol_usual_commit_group(const ol_usual_commit *commit) {
    return ol_slice_of(commit->key + 4, commit->group_size);
}
static inline ol_slice ol_usual_commit_topic(const ol_usual_commit *commit) {
    return ol_slice_of(commit->key + 6 + commit->group_size, commit->topic_size);
}
static inline int32_t ol_usual_commit_partition(const ol_usual_commit *commit) {
    return ol_load_i32(commit->key + 6 + commit->group_size + commit->topic_size);
}
static inline int64_t ol_usual_commit_offset(const ol_usual_commit *commit) {
    return ol_load_i64(commit->value + 2);
}
static inline int32_t ol_usual_commit_leader_epoch(const ol_usual_commit *commit) {
    return ol_load_i32(commit->value + 10);
}
static inline ol_slice ol_usual_commit_metadata(const ol_usual_commit *commit) {
    return ol_slice_of(commit->value + 16, commit->metadata_size);
}
static inline int64_t ol_usual_commit_timestamp(const ol_usual_commit *commit) {
    return ol_load_i64(commit->value + 16 + commit->metadata_size);
}

/* Reads a varint of one or two bytes.  Both bytes must be readable.  Sets bit 0 of *doubt if the
 * number is negative or takes more than two bytes. */
static inline const uint8_t *ol_usual_size_read(const uint8_t *p, uint32_t *size, uint32_t *doubt) {
    uint32_t raw = p[0], second = p[1];
    if (raw < 0x80) {
        *size = raw >> 1;
        *doubt |= raw;
        return p + 1;
    }
    *size = (raw & 0x7f) >> 1 | second << 6;
    *doubt |= raw | second >> 7;
    return p + 2;
}

/* Reads the record at p and returns the position after it.  Returns NULL if the record does not
 * have the usual form; *commit must then not be used.  Reads no byte at or past `limit`.  The
 * caller must check the offset delta. */
static inline const uint8_t *ol_usual_commit_read(const uint8_t *p, const uint8_t *limit,
                                                  ol_usual_commit *commit) {
    uint32_t length, offset_delta, key_size, value_size, doubt = 0;
    /* A record of this size contains everything up to the size of the key. */
    if (OL_UNLIKELY(limit - p < 1 + OL_USUAL_LENGTH_LEAST)) return NULL;
    p = ol_usual_size_read(p, &length, &doubt);
    if (OL_UNLIKELY(length < OL_USUAL_LENGTH_LEAST || (size_t)(limit - p) < length)) return NULL;
    const uint8_t *end = p + length;
    uint32_t timestamp_delta = p[1];
    doubt |= timestamp_delta >> 7;
    p = ol_usual_size_read(p + 2, &offset_delta, &doubt);
    p = ol_usual_size_read(p, &key_size, &doubt);
    const uint8_t *key = p;
    /* The bytes after the key must contain the size of the value, the value, and the number of
     * headers. */
    if (OL_UNLIKELY(key_size < OL_USUAL_KEY_FIXED ||
                    end - key < (ptrdiff_t)key_size + 2 + OL_USUAL_VALUE_FIXED)) {
        return NULL;
    }
    uint32_t names_size = key_size - OL_USUAL_KEY_FIXED, group_size = ol_load_u16(key + 2);
    if (OL_UNLIKELY(ol_load_u16(key) != OL_KEY_OFFSET_COMMIT || group_size > names_size ||
                    ol_load_u16(key + 4 + group_size) != names_size - group_size)) {
        return NULL;
    }
    const uint8_t *value = ol_usual_size_read(key + key_size, &value_size, &doubt);
    if (OL_UNLIKELY(value_size < OL_USUAL_VALUE_FIXED ||
                    end - value != (ptrdiff_t)value_size + 1 || ol_load_u16(value) != 3 ||
                    ol_load_u16(value + 14) != value_size - OL_USUAL_VALUE_FIXED ||
                    value[value_size] != 0 || (doubt & 1) != 0)) {
        return NULL;
    }
    commit->key = key;
    commit->value = value;
    commit->offset_delta = (int32_t)offset_delta;
    commit->timestamp_delta = ol_unzigzag32(timestamp_delta);
    commit->group_size = (uint16_t)group_size;
    commit->topic_size = (uint16_t)(names_size - group_size);
    commit->metadata_size = (uint16_t)(value_size - OL_USUAL_VALUE_FIXED);
    return end;
}

#endif
