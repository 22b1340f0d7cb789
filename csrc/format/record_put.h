/* format/record_put: encodes one record of a batch of magic 2 (docs/format/batches.md §2.2).
 *
 * The functions are inline, because an application that commits after each message writes one
 * record per batch.  To put a record, call ol_record_put_start, which writes everything up to and
 * including the key length, and put the key.  Then call ol_record_put_value_size, put the value,
 * and call ol_record_put_headers.  Each function returns the position after its output.  The caller
 * has checked that the output fits.  The functions take no locks.
 */
#ifndef OL_FORMAT_RECORD_PUT_H
#define OL_FORMAT_RECORD_PUT_H

#include <string.h>

#include "base/base.h"
#include "base/bytes.h"

/* Returns the size of a record without its length field.  If the key or the value is null, key_size
 * or value_size is -1.  headers_size is the size of all encoded headers without their count. */
static inline size_t ol_record_body_size(int64_t timestamp_delta, int32_t offset_delta,
                                         int64_t key_size, int64_t value_size, int32_t header_count,
                                         size_t headers_size) {
    OL_ASSERT(key_size >= -1 && key_size <= INT32_MAX && value_size >= -1 &&
              value_size <= INT32_MAX);
    size_t size = 1 + ol_varlong_size(timestamp_delta) + ol_varint_size(offset_delta) +
                  ol_varint_size((int32_t)key_size) + ol_varint_size((int32_t)value_size) +
                  ol_varint_size(header_count) + headers_size;
    if (key_size > 0) size += (size_t)key_size;
    if (value_size > 0) size += (size_t)value_size;
    return size;
}

/* Returns the size of the record with its length field. */
static inline size_t ol_record_size(int64_t timestamp_delta, int32_t offset_delta, int64_t key_size,
                                    int64_t value_size, int32_t header_count, size_t headers_size) {
    size_t body = ol_record_body_size(timestamp_delta, offset_delta, key_size, value_size,
                                      header_count, headers_size);
    OL_ASSERT(body <= INT32_MAX);
    return ol_varint_size((int32_t)body) + body;
}

static inline uint8_t *ol_record_put_start(uint8_t *p, size_t body_size, int64_t timestamp_delta,
                                           int32_t offset_delta, int64_t key_size) {
    OL_ASSERT(body_size <= INT32_MAX);
    p = ol_store_varint(p, (int32_t)body_size);
    *p++ = 0;
    p = ol_store_varlong(p, timestamp_delta);
    p = ol_store_varint(p, offset_delta);
    return ol_store_varint(p, (int32_t)key_size);
}

static inline uint8_t *ol_record_put_value_size(uint8_t *p, int64_t value_size) {
    return ol_store_varint(p, (int32_t)value_size);
}

static inline uint8_t *ol_record_put_headers(uint8_t *p, int32_t header_count, ol_slice headers) {
    OL_ASSERT(header_count >= 0 && (header_count > 0 || headers.size == 0));
    p = ol_store_varint(p, header_count);
    if (headers.size > 0) memcpy(p, headers.data, headers.size);
    return p + headers.size;
}

#endif
