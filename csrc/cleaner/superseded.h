/* cleaner/superseded: what pass A knows already of the records that pass B will drop.
 *
 * Nearly every batch of a log of commits is one plain record that a later one supersedes.  When pass A puts a key for the second time it knows the offset of
 * the record that it put before; one bit for that offset spares pass B the checksum, the record and the search in the map.  No bit says nothing: pass B looks.
 *
 * Two bits for each offset of a range that begins with the dirty part, in memory that is bounded whatever the gaps of the log.  One thread uses it. */
#ifndef OL_CLEANER_SUPERSEDED_H
#define OL_CLEANER_SUPERSEDED_H

#include <stdlib.h>
#include <string.h>

#include "base/status.h"

typedef struct ol_clean_superseded {
    uint64_t *plain;            /* records of which nothing but their offset decides whether they stay */
    uint64_t *gone;
    int64_t from;
    uint64_t count;             /* offsets */
    uint64_t capacity;
} ol_clean_superseded;

/* Forgets all, and covers [from, end) or as much of it as fits `bytes_max`; nothing where there is no memory. */
static inline void ol_clean_superseded_start(ol_clean_superseded *bits, int64_t from, int64_t end, size_t bytes_max) {
    uint64_t words = ((uint64_t)(end - from) + 63) / 64, words_max = bytes_max / (2 * sizeof *bits->gone);
    if (words > words_max) words = words_max;
    if (words * 64 > bits->capacity) {
        free(bits->plain);
        bits->plain = calloc(2 * words, sizeof *bits->plain);
        bits->capacity = bits->plain != NULL ? words * 64 : 0;
    } else if (words != 0) {
        memset(bits->plain, 0, bits->capacity / 64 * 2 * sizeof *bits->plain);
    }
    bits->gone = bits->plain + bits->capacity / 64;
    bits->from = from;
    bits->count = words * 64 < bits->capacity ? words * 64 : bits->capacity;
}

static inline void ol_clean_superseded_free(ol_clean_superseded *bits) {
    free(bits->plain);
    *bits = (ol_clean_superseded){0};
}

/* A record was put, in the place of that at `previous` (-1: of none). */
static inline void ol_clean_superseded_put(ol_clean_superseded *bits, int64_t offset, bool is_plain, int64_t previous) {
    uint64_t at = (uint64_t)offset - (uint64_t)bits->from, before = (uint64_t)previous - (uint64_t)bits->from;
    if (OL_LIKELY(at < bits->count)) bits->plain[at / 64] |= (uint64_t)is_plain << (at % 64);
    if (before < bits->count && previous < offset) bits->gone[before / 64] |= UINT64_C(1) << (before % 64);
}

static inline bool ol_clean_superseded_is_gone(const ol_clean_superseded *bits, int64_t offset) {
    uint64_t at = (uint64_t)offset - (uint64_t)bits->from;
    return at < bits->count && (bits->plain[at / 64] & bits->gone[at / 64]) >> (at % 64) & 1;
}

#endif
