/* format/key_shard: divides the positions, or the groups, of a partition evenly into shards.
 *
 * Several workers can each read all of a partition and keep only their own shard.  The hash is the
 * same in every process of one version of the library, and for both key types
 * (docs/format/records.md §3.1); it is never stored in a file.  Plain memory; locks: none.
 */
#ifndef OL_FORMAT_KEY_SHARD_H
#define OL_FORMAT_KEY_SHARD_H

#include "base/hash.h"
#include "format/offset_record.h"

typedef struct ol_key_shard {
    uint32_t number;
    uint32_t count;             /* 0 or 1: everything */
    bool by_group;              /* all positions and other records of a group are in one shard */
} ol_key_shard;

/* Returns whether a key belongs to the shard.  A key that is not a position, or is unknown, belongs
 * to shard 0; but with `by_group`, every known key belongs to the shard of its group. */
static inline bool ol_key_shard_has(const ol_key_shard *shard, const ol_key *key) {
    if (shard->count <= 1) return true;
    if (!key->known) return shard->number == 0;
    uint64_t hash = ol_hash64(key->group.data, key->group.size, 0);
    if (!shard->by_group) {
        if (key->type > OL_KEY_OFFSET_COMMIT) return shard->number == 0;
        hash = ol_hash64_mix(hash, ol_hash64(key->topic.data, key->topic.size, 1));
        hash = ol_hash64_mix(hash, (uint64_t)(uint32_t)key->partition + 1);
    }
    return (uint32_t)(((hash >> 32) * shard->count) >> 32) == shard->number;
}

#endif
