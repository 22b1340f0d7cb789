/* Keeps the batches as a queue in one piece of memory. */
#include "partition/unapplied.h"

#include <stdlib.h>
#include <string.h>

#include "format/batch.h"

enum {
    FIRST_CAPACITY = 4 << 10,
    IDLE_CAPACITY_MAX = 256 << 10,      /* an empty queue keeps no more bytes than this */
};

void ol_unapplied_free(ol_unapplied *unapplied) {
    free(unapplied->bytes);
    *unapplied = (ol_unapplied){0};
}

static void empty(ol_unapplied *unapplied) {
    unapplied->start = unapplied->end = 0;
    unapplied->from = unapplied->to;
    if (unapplied->capacity > IDLE_CAPACITY_MAX) {
        free(unapplied->bytes);
        unapplied->bytes = NULL;
        unapplied->capacity = 0;
    }
}

/* Moves the batches to the start when that frees at least half, so that each byte that arrives
 * moves at most one byte. */
static bool make_room(ol_unapplied *unapplied, size_t size) {
    size_t used = unapplied->end - unapplied->start;
    if (unapplied->capacity - unapplied->end >= size) return true;
    if (used + size <= unapplied->capacity / 2) {
        memmove(unapplied->bytes, unapplied->bytes + unapplied->start, used);
        unapplied->start = 0;
        unapplied->end = used;
        return true;
    }
    if (used + size > OL_UNAPPLIED_BYTES_MAX / 2) return false;
    size_t capacity = unapplied->capacity == 0 ? FIRST_CAPACITY : unapplied->capacity;
    while (capacity < 2 * (used + size)) capacity *= 2;
    uint8_t *bytes = malloc(capacity);
    if (bytes == NULL) return false;
    if (used > 0) memcpy(bytes, unapplied->bytes + unapplied->start, used);
    free(unapplied->bytes);
    unapplied->bytes = bytes;
    unapplied->capacity = capacity;
    unapplied->start = 0;
    unapplied->end = used;
    return true;
}

void ol_unapplied_keep(ol_unapplied *unapplied, const uint8_t *batch, size_t size,
                       int64_t base_offset, int64_t next_offset) {
    if (unapplied->to != base_offset || !make_room(unapplied, size)) {
        unapplied->to = base_offset;
        empty(unapplied);
        if (!make_room(unapplied, size)) {
            unapplied->from = unapplied->to = next_offset;
            return;
        }
    }
    memcpy(unapplied->bytes + unapplied->end, batch, size);
    unapplied->end += size;
    unapplied->to = next_offset;
}

/* Returns the position of the first batch that does not end below `offset`. */
static size_t find_start(const ol_unapplied *unapplied, int64_t offset, int64_t *base_offset) {
    size_t at = unapplied->start;
    *base_offset = unapplied->to;
    while (at < unapplied->end) {
        const uint8_t *batch = unapplied->bytes + at;
        int64_t base = ol_load_i64(batch);
        if (base + ol_load_i32(batch + OL_BATCH_AT_LAST_OFFSET_DELTA) >= offset) {
            *base_offset = base;
            break;
        }
        at += (size_t)ol_load_i32(batch + OL_BATCH_AT_LENGTH) + OL_BATCH_LOG_OVERHEAD;
    }
    return at;
}

ol_slice ol_unapplied_find(const ol_unapplied *unapplied, int64_t offset, int64_t to) {
    if (offset < unapplied->from || to > unapplied->to) return ol_slice_null();
    int64_t base_offset;
    size_t start = find_start(unapplied, offset, &base_offset);
    return ol_slice_of(unapplied->bytes + start, unapplied->end - start);
}

void ol_unapplied_drop(ol_unapplied *unapplied, int64_t offset) {
    if (offset <= unapplied->from) return;
    if (offset >= unapplied->to) {
        empty(unapplied);
        return;
    }
    unapplied->start = find_start(unapplied, offset, &unapplied->from);
}
