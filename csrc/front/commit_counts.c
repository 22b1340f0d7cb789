/* front/commit_counts.c: counts in a table by the names of groups. */
#include "front/commit_counts.h"

#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/hash.h"

enum { PART_BUCKETS = 1024 };

static ol_slice name_of(const ol_commit_count *count) {
    return ol_slice_of(count->name, count->size);
}

static size_t bytes_of(size_t name_size) { return sizeof(ol_commit_count) + name_size; }

static ol_commit_count *find(const ol_commit_counts *counts, ol_slice group, uint64_t hash) {
    ol_chained_entry *each = ol_chained_map_first(&counts->entries, hash);
    for (; each != NULL; each = each->next) {
        if (each->hash == hash && ol_slice_equal(name_of((ol_commit_count *)each), group)) break;
    }
    return (ol_commit_count *)each;
}

static void forget(ol_commit_counts *counts, bool also_held) {
    for (size_t i = 0; i < counts->entries.bucket_count; i++) {
        ol_chained_entry *next;
        for (ol_chained_entry *each = counts->entries.buckets[i]; each != NULL; each = next) {
            next = each->next;
            const ol_commit_count *count = (const ol_commit_count *)each;
            if (count->is_held && !also_held) continue;
            counts->bytes -= bytes_of(count->size);
            ol_chained_map_remove(&counts->entries, each);
            free(each);
        }
    }
}

void ol_commit_counts_free(ol_commit_counts *counts) {
    forget(counts, true);
    ol_chained_map_free(&counts->entries);
    counts->held = counts->held_bytes = 0;
}

static bool has_room(const ol_commit_counts *counts, size_t bytes) {
    return counts->entries.count < counts->limit && bytes <= counts->bytes_limit &&
           counts->bytes <= counts->bytes_limit - bytes;
}

static bool make_room(ol_commit_counts *counts, size_t bytes) {
    ol_error ignored;
    bool is_half_held = counts->held > counts->limit / 2 ||
                        counts->held_bytes > counts->bytes_limit / 2;
    if (!has_room(counts, bytes) && !is_half_held) forget(counts, false);
    if (!has_room(counts, bytes)) return false;
    return ol_chained_map_reserve(&counts->entries, &ignored) == OL_OK;
}

static ol_commit_count *find_or_add(ol_commit_counts *counts, ol_slice group) {
    uint64_t hash = ol_hash64(group.data, group.size, counts->seed);
    ol_commit_count *count = find(counts, group, hash);
    if (count != NULL || !make_room(counts, bytes_of(group.size))) return count;
    count = malloc(bytes_of(group.size));
    if (count == NULL) return NULL;
    *count = (ol_commit_count){.link.hash = hash, .size = group.size};
    if (group.size > 0) memcpy(count->name, group.data, group.size);
    ol_chained_map_add(&counts->entries, &count->link);
    counts->bytes += bytes_of(group.size);
    return count;
}

ol_commit_count *ol_commit_counts_hold(ol_commit_counts *counts, ol_slice group) {
    ol_commit_count *count = find_or_add(counts, group);
    if (count == NULL) return NULL;
    OL_ASSERT(!count->is_held);
    count->is_held = true;
    counts->held++;
    counts->held_bytes += bytes_of(count->size);
    return count;
}

void ol_commit_counts_release(ol_commit_counts *counts, ol_commit_count *count) {
    if (count == NULL) return;
    OL_ASSERT(count->is_held);
    count->is_held = false;
    counts->held--;
    counts->held_bytes -= bytes_of(count->size);
}

void ol_commit_counts_add(ol_commit_counts *counts, ol_slice group) {
    ol_commit_count *count = find_or_add(counts, group);
    if (count != NULL) count->commits++;
}

size_t ol_commit_counts_read(const ol_commit_counts *counts, size_t part, ol_commits_found *found,
                             void *context) {
    /* When the buckets double, those that were not read yet stay at or above the beginning of the
     * next part. */
    size_t end = (part + 1) * PART_BUCKETS;
    for (size_t i = part * PART_BUCKETS; i < end && i < counts->entries.bucket_count; i++) {
        const ol_chained_entry *each = counts->entries.buckets[i];
        for (; each != NULL; each = each->next) {
            const ol_commit_count *count = (const ol_commit_count *)each;
            found(context, name_of(count), count->commits);
        }
    }
    return end < counts->entries.bucket_count ? part + 1 : 0;
}
