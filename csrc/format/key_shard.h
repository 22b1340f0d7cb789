/* format/key_shard: divides the positions, or the groups, of a partition evenly into shards.
 *
 * Several workers can each read all of a partition and keep only their own shard.  The shard is
 * computed with a hash.  Every process with the same version of the library computes the same hash.
 * The two key types of an offset commit (docs/format/records.md §3.1) also give the same hash.  The
 * hash is never stored in a file.  No memory is allocated and no lock is taken. */
#ifndef OL_FORMAT_KEY_SHARD_H
#define OL_FORMAT_KEY_SHARD_H

#include "base/hash.h"
#include "format/offset_record.h"

typedef struct ol_key_shard {
    uint32_t number;
    uint32_t count;             /* 0 or 1: everything */
    bool by_group;              /* all positions and other records of a group are in one shard */
} ol_key_shard;

/* Returns whether a key belongs to the shard.  If `by_group` is true, every key of a known type
 * belongs to the shard of its group, and keys of unknown types belong to shard 0.  If `by_group` is
 * false, only positions are divided among the shards, and all other keys belong to shard 0. */
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
