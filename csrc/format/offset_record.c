/* format/offset_record.c: decodes and encodes keys and values of offset commits. */
#include "format/offset_record.h"

#include "base/bytes.h"

enum {
    TOPIC_ID_TAG = 0,
};

static OL_NOINLINE int refuse_key(ol_error *error, int16_t type, const char *field) {
    return ol_fail(error, OL_CORRUPT, "a key of type %d is truncated in its %s", type, field);
}

/* Reads a string of a key: two bytes of size, never null.  Returns the position after it, or
 * NULL. */
static inline const uint8_t *read_string(const uint8_t *p, const uint8_t *limit, ol_slice *string) {
    if (OL_UNLIKELY(limit - p < 2)) return NULL;
    int16_t size = ol_load_i16(p);
    p += 2;
    if (OL_UNLIKELY(size < 0 || limit - p < size)) return NULL;
    *string = ol_slice_of(p, (size_t)size);
    return p + size;
}

/* The fields after the group in a key. */
typedef enum key_shape { SHAPE_UNKNOWN = 0, SHAPE_GROUP, SHAPE_MEMBER, SHAPE_OFFSET } key_shape;

static const uint8_t key_shapes[OL_KEY_LAST_KNOWN + 1] = {
    [0] = SHAPE_OFFSET, [1] = SHAPE_OFFSET,  /* offset commits */
    [2] = SHAPE_GROUP,  /* classic group */
    /* consumer group */
    [3] = SHAPE_GROUP,  [4] = SHAPE_GROUP,   [5] = SHAPE_MEMBER, [6] = SHAPE_GROUP,
    [7] = SHAPE_MEMBER, [8] = SHAPE_MEMBER,
    /* share group */
    [10] = SHAPE_MEMBER, [11] = SHAPE_GROUP, [12] = SHAPE_GROUP, [13] = SHAPE_MEMBER,
    [14] = SHAPE_MEMBER, [15] = SHAPE_GROUP,
    [16] = SHAPE_MEMBER,  /* consumer group: regular expression */
    /* streams group */
    [17] = SHAPE_GROUP, [19] = SHAPE_MEMBER, [20] = SHAPE_GROUP, [21] = SHAPE_MEMBER,
    [22] = SHAPE_MEMBER, [23] = SHAPE_GROUP,
};

int ol_key_decode(ol_slice bytes, ol_key *key, ol_error *error) {
    const uint8_t *p = bytes.data, *limit = p + bytes.size;
    if (OL_UNLIKELY(bytes.size < 2)) {
        if (p == NULL) return ol_fail(error, OL_CORRUPT, "the key of a record is null");
        return ol_fail(error, OL_CORRUPT, "a key of %zu bytes has no type", bytes.size);
    }
    int16_t type = ol_load_i16(p);
    p += 2;
    key->type = type;
    key->group = key->topic = key->member = ol_slice_null();
    key->partition = -1;
    key_shape shape = (uint16_t)type <= OL_KEY_LAST_KNOWN ? (key_shape)key_shapes[type]
                                                          : SHAPE_UNKNOWN;
    key->known = shape != SHAPE_UNKNOWN;
    if (OL_UNLIKELY(!key->known)) return OL_OK;
    p = read_string(p, limit, &key->group);
    if (OL_UNLIKELY(p == NULL)) return refuse_key(error, type, "group");
    if (OL_LIKELY(shape == SHAPE_OFFSET)) {
        p = read_string(p, limit, &key->topic);
        if (OL_UNLIKELY(p == NULL)) return refuse_key(error, type, "topic");
        if (OL_UNLIKELY(limit - p < 4)) return refuse_key(error, type, "partition");
        key->partition = ol_load_i32(p);
    } else if (shape == SHAPE_MEMBER) {
        p = read_string(p, limit, &key->member);
        if (OL_UNLIKELY(p == NULL)) return refuse_key(error, type, "second string");
    }
    return OL_OK;
}

/* --------------------------------------------------------------------------------------- values */

static OL_NOINLINE int refuse_value(ol_error *error, int16_t version, const char *field) {
    return ol_fail(error, OL_CORRUPT,
                   "an offset commit of version %d is truncated or invalid at its %s", version,
                   field);
}

static OL_NOINLINE int refuse_version(ol_error *error, int16_t key_type, int16_t version) {
    return ol_fail(error, OL_UNSUPPORTED,
                   "an offset commit with a key of type %d has the unsupported version %d",
                   key_type, version);
}

static const uint8_t *read_compact_string(const uint8_t *p, const uint8_t *limit,
                                          ol_slice *string) {
    uint32_t size_plus_one;
    p = ol_read_uvarint(p, limit, &size_plus_one);
    if (p == NULL || size_plus_one == 0 || size_plus_one - 1 > OL_STRING_SIZE_MAX) return NULL;
    size_t size = size_plus_one - 1;
    if ((size_t)(limit - p) < size) return NULL;
    *string = ol_slice_of(p, size);
    return p + size;
}

static bool is_zero(const uint8_t *id) { return (ol_load_u64(id) | ol_load_u64(id + 8)) == 0; }

static const uint8_t *read_tags(const uint8_t *p, const uint8_t *limit, ol_offset_value *value) {
    uint32_t count, tag, size;
    p = ol_read_uvarint(p, limit, &count);
    for (; p != NULL && count > 0; count--) {
        p = ol_read_uvarint(p, limit, &tag);
        if (p != NULL) p = ol_read_uvarint(p, limit, &size);
        if (p == NULL || (size_t)(limit - p) < size) return NULL;
        if (tag == TOPIC_ID_TAG) {
            if (size != OL_TOPIC_ID_SIZE) return NULL;
            value->topic_id = is_zero(p) ? NULL : p;
        }
        p += size;
    }
    return p;
}

int ol_offset_value_decode(ol_slice bytes, int16_t key_type, ol_offset_value *value,
                           ol_error *error) {
    const uint8_t *p = bytes.data, *limit = p + bytes.size;
    if (OL_UNLIKELY(bytes.size < 2)) {
        return ol_fail(error, OL_CORRUPT, "the value of an offset commit has no version");
    }
    int16_t version = ol_load_i16(p);
    int16_t version_max = key_type == OL_KEY_OFFSET_COMMIT_LEGACY ? 0 : OL_OFFSET_VALUE_VERSION_MAX;
    if (OL_UNLIKELY(version < 0 || version > version_max)) {
        return refuse_version(error, key_type, version);
    }
    p += 2;
    value->version = version;
    value->topic_id = NULL;
    value->leader_epoch = -1;
    value->expire_timestamp = -1;
    if (OL_UNLIKELY(limit - p < 8)) return refuse_value(error, version, "offset");
    value->offset = ol_load_i64(p);
    p += 8;
    if (OL_LIKELY(version >= 3)) {
        if (OL_UNLIKELY(limit - p < 4)) return refuse_value(error, version, "leader epoch");
        value->leader_epoch = ol_load_i32(p);
        p += 4;
    }
    p = OL_LIKELY(version < 4) ? read_string(p, limit, &value->metadata)
                               : read_compact_string(p, limit, &value->metadata);
    if (OL_UNLIKELY(p == NULL)) return refuse_value(error, version, "metadata");
    if (OL_UNLIKELY(limit - p < 8)) return refuse_value(error, version, "commit timestamp");
    value->commit_timestamp = ol_load_i64(p);
    p += 8;
    if (OL_UNLIKELY(version == 1)) {
        if (limit - p < 8) return refuse_value(error, version, "expire timestamp");
        value->expire_timestamp = ol_load_i64(p);
    } else if (version == 4) {
        if (read_tags(p, limit, value) == NULL) return refuse_value(error, version, "tags");
    }
    return OL_OK;
}

/* -------------------------------------------------------------------------------------- writing */

static inline uint8_t *put_bytes(uint8_t *p, ol_slice bytes) {
    if (bytes.size > 0) memcpy(p, bytes.data, bytes.size);
    return p + bytes.size;
}

static inline uint8_t *put_string(uint8_t *p, ol_slice string) {
    OL_ASSERT(string.size <= OL_STRING_SIZE_MAX);
    ol_store_i16(p, (int16_t)string.size);
    return put_bytes(p + 2, string);
}

size_t ol_offset_key_size(ol_slice group, ol_slice topic) {
    return 2 + 2 + group.size + 2 + topic.size + 4;
}

uint8_t *ol_offset_key_put(uint8_t *p, int16_t key_type, ol_slice group, ol_slice topic,
                           int32_t partition) {
    OL_ASSERT(key_type == OL_KEY_OFFSET_COMMIT || key_type == OL_KEY_OFFSET_COMMIT_LEGACY);
    ol_store_i16(p, key_type);
    p = put_string(p + 2, group);
    p = put_string(p, topic);
    ol_store_i32(p, partition);
    return p + 4;
}

int16_t ol_offset_value_version(const ol_offset_value *value, int16_t known) {
    OL_ASSERT(known >= 1 && known <= OL_OFFSET_VALUE_VERSION_MAX);
    if (value->expire_timestamp != -1) return 1;
    if (known < 3 && value->leader_epoch == -1) return known;
    return known >= 4 && value->topic_id != NULL ? 4 : 3;
}

size_t ol_offset_value_size(const ol_offset_value *value, int16_t version) {
    OL_ASSERT(version >= 0 && version <= OL_OFFSET_VALUE_VERSION_MAX);
    size_t size = 2 + 8 + value->metadata.size + 8;
    if (version == 4) {
        size_t tags = value->topic_id != NULL ? 3 + OL_TOPIC_ID_SIZE : 1;
        return size + 4 + ol_uvarint_size((uint32_t)value->metadata.size + 1) + tags;
    }
    return size + 2 + (version == 3 ? 4 : 0) + (version == 1 ? 8 : 0);
}

uint8_t *ol_offset_value_put(uint8_t *p, const ol_offset_value *value, int16_t version) {
    OL_ASSERT(version >= 0 && version <= OL_OFFSET_VALUE_VERSION_MAX);
    if (OL_LIKELY(version == 3)) {
        return ol_offset_value_3_put(p, value->offset, value->leader_epoch, value->metadata,
                                     value->commit_timestamp);
    }
    ol_store_i16(p, version);
    ol_store_i64(p + 2, value->offset);
    p += 10;
    if (version == 4) {
        ol_store_i32(p, value->leader_epoch);
        p += 4;
        OL_ASSERT(value->metadata.size <= OL_STRING_SIZE_MAX);
        p = put_bytes(ol_store_uvarint(p, (uint32_t)value->metadata.size + 1), value->metadata);
    } else {
        p = put_string(p, value->metadata);
    }
    ol_store_i64(p, value->commit_timestamp);
    p += 8;
    if (version == 1) {
        ol_store_i64(p, value->expire_timestamp);
        p += 8;
    }
    if (version == 4) {
        *p++ = value->topic_id != NULL;     /* the count of tags */
        if (value->topic_id != NULL) {
            *p++ = TOPIC_ID_TAG;
            *p++ = OL_TOPIC_ID_SIZE;
            memcpy(p, value->topic_id, OL_TOPIC_ID_SIZE);
            p += OL_TOPIC_ID_SIZE;
        }
    }
    return p;
}
