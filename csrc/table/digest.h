/* table/digest: the canonical bytes of the records of a partition, and their XXH3-128 hashes.
 *
 * docs/digest.md describes the layout and has test vectors.  The digest of a state is the sum of
 * the hashes of its records, modulo 2^128.  It therefore does not depend on the order of the
 * records, and the digests of two parts can be added.  All integers are big-endian.  The functions
 * keep no state, and any thread may call them. */
#ifndef OL_TABLE_DIGEST_H
#define OL_TABLE_DIGEST_H

#include "base/hash.h"
#include "table/table.h"

enum {
    OL_DIGEST_POSITION = 1,
    OL_DIGEST_PENDING = 2,
    OL_DIGEST_GROUP_RECORD = 3,
    OL_DIGEST_PHYSICAL = 0x80,  /* is added to the kind if the bytes end with the log offset */
    /* enough for three strings of 32,767 bytes and the fields between them */
    OL_DIGEST_BYTES_MAX = 3 * 32767 + 96,
};

/* Writes the first part of the canonical bytes of a position, and returns the size of this part.
 * All positions of one (group, topic) have the same first part, so a caller that hashes several of
 * them needs to call this function only once.  `producer_id` is used only for OL_DIGEST_PENDING.
 * `bytes` must have OL_DIGEST_BYTES_MAX bytes. */
size_t ol_digest_begin(uint8_t *bytes, unsigned kind, int64_t producer_id, ol_slice group,
                       ol_slice topic, bool physical);

/* Writes the rest of a position's canonical bytes after the first `begun` bytes, which
 * ol_digest_begin has written.  Returns the hash of all bytes. */
ol_hash128 ol_digest_finish(uint8_t *bytes, size_t begun, int32_t partition,
                            const ol_position_value *value, bool physical);

#endif
