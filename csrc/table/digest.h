/* table/digest: the canonical bytes of a partition's records, and their XXH3-128.
 *
 * docs/digest.md has the layout, with vectors.  A state's digest is the sum modulo 2^128 over its
 * records, so it does not depend on their order, and digests of parts add up.  All integers are
 * big-endian.  The functions keep no state and are safe from any thread.
 */
#ifndef OL_TABLE_DIGEST_H
#define OL_TABLE_DIGEST_H

#include "base/hash.h"
#include "table/table.h"

enum {
    OL_DIGEST_POSITION = 1,
    OL_DIGEST_PENDING = 2,
    OL_DIGEST_GROUP_RECORD = 3,
    OL_DIGEST_PHYSICAL = 0x80,          /* added to the kind: the bytes end with the log offset */
    /* Three strings of 32,767 bytes and the fields between them. */
    OL_DIGEST_BYTES_MAX = 3 * 32767 + 96,
};

/* Writes the bytes that begin every record of one pair, once for all its partitions; returns their
 * size.  `producer_id` is used only for OL_DIGEST_PENDING.  `bytes` has space for
 * OL_DIGEST_BYTES_MAX. */
size_t ol_digest_begin(uint8_t *bytes, unsigned kind, int64_t producer_id, ol_slice group,
                       ol_slice topic, bool physical);

/* Completes a record after its first `begun` bytes and hashes it. */
ol_hash128 ol_digest_finish(uint8_t *bytes, size_t begun, int32_t partition,
                            const ol_position_value *value, bool physical);

#endif
