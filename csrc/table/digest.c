/* table/digest.c: the layout of canonical bytes, big-endian. */
#include "table/digest.h"

#include <string.h>

#include "base/bytes.h"

static uint8_t *put_string(uint8_t *p, ol_slice string) {
    OL_ASSERT(string.size <= 32767);
    ol_store_u32(p, (uint32_t)string.size);
    if (string.size != 0) memcpy(p + 4, string.data, string.size);
    return p + 4 + string.size;
}

static uint8_t *put_i64(uint8_t *p, int64_t value) {
    ol_store_i64(p, value);
    return p + 8;
}

size_t ol_digest_begin(uint8_t *bytes, unsigned kind, int64_t producer_id, ol_slice group,
                       ol_slice topic, bool physical) {
    uint8_t *p = bytes;
    *p++ = (uint8_t)(physical ? kind | OL_DIGEST_PHYSICAL : kind);
    if (kind == OL_DIGEST_PENDING) p = put_i64(p, producer_id);
    p = put_string(p, group);
    return (size_t)(put_string(p, topic) - bytes);
}

ol_hash128 ol_digest_finish(uint8_t *bytes, size_t begun, int32_t partition,
                            const ol_position_value *value, bool physical) {
    uint8_t *p = bytes + begun;
    ol_store_i32(p, partition);
    p = put_i64(p + 4, value->offset);
    ol_store_i32(p, value->leader_epoch);
    p = put_i64(p + 4, value->commit_timestamp);
    p = put_i64(p, value->expire_timestamp);
    p = put_string(p, value->metadata);
    *p++ = value->topic_id != NULL;
    if (value->topic_id != NULL) {
        memcpy(p, value->topic_id, 16);
        p += 16;
    }
    if (physical) p = put_i64(p, value->log_offset);
    return ol_xxh3_128(bytes, (size_t)(p - bytes));
}

ol_hash128 ol_position_digest(ol_slice group, ol_slice topic, int32_t partition,
                              const ol_position_value *value, bool physical) {
    uint8_t bytes[OL_DIGEST_BYTES_MAX];
    size_t begun = ol_digest_begin(bytes, OL_DIGEST_POSITION, 0, group, topic, physical);
    return ol_digest_finish(bytes, begun, partition, value, physical);
}
