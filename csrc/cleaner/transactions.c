/* Finds out which transactions of a log are open and how each of the others ended. */
#include "cleaner/transactions.h"

#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "cleaner/cleaner_impl.h"

enum { OPEN_CAPACITY_MIN = 16, ENDED_CAPACITY_MIN = 64, FATES_MIN = 1024 };

/* ------------------------------------------------------------------------------------ open ones */

void ol_clean_open_free(ol_clean_open *open) {
    free(open->entries);
    memset(open, 0, sizeof *open);
}

static size_t place_of(const ol_clean_open *open, int64_t producer_id) {
    return ol_hash64_mix((uint64_t)producer_id, 0x9e3779b97f4a7c15u) & (open->capacity - 1);
}

/* Returns the entry of a producer, or the empty entry where it would be put.  The set is never
 * full, so one of the two exists. */
static ol_clean_open_entry *find_place(const ol_clean_open *open, int64_t producer_id) {
    size_t at = place_of(open, producer_id);
    while (open->entries[at].used && open->entries[at].producer_id != producer_id) {
        at = (at + 1) & (open->capacity - 1);
    }
    return &open->entries[at];
}

ol_clean_open_entry *ol_clean_open_find(const ol_clean_open *open, int64_t producer_id) {
    if (open->count == 0) return NULL;
    ol_clean_open_entry *entry = find_place(open, producer_id);
    return entry->used ? entry : NULL;
}

static int grow_open(ol_clean_open *open, ol_error *error) {
    ol_clean_open grown = {.capacity = open->capacity == 0 ? OPEN_CAPACITY_MIN : open->capacity * 2,
                           .count = open->count};
    grown.entries = calloc(grown.capacity, sizeof *grown.entries);
    if (grown.entries == NULL) {
        return ol_fail(error, OL_NO_MEMORY, "no memory for %zu transactions", grown.capacity);
    }
    for (size_t i = 0; i < open->capacity; i++) {
        if (open->entries[i].used) {
            *find_place(&grown, open->entries[i].producer_id) = open->entries[i];
        }
    }
    free(open->entries);
    *open = grown;
    return OL_OK;
}

int ol_clean_open_add(ol_clean_open *open, int64_t producer_id, int64_t first_offset,
                      ol_error *error) {
    if (open->count * 2 >= open->capacity) {
        int status = grow_open(open, error);
        if (status != OL_OK) return status;
    }
    ol_clean_open_entry *entry = find_place(open, producer_id);
    if (entry->used) return OL_OK;
    *entry = (ol_clean_open_entry){producer_id, first_offset, true, false};
    open->count++;
    return OL_OK;
}

void ol_clean_open_remove(ol_clean_open *open, ol_clean_open_entry *entry) {
    size_t mask = open->capacity - 1, hole = (size_t)(entry - open->entries);
    OL_ASSERT(entry->used && open->count > 0);
    /* Entries that were pushed past the hole move into it, so that every search still ends at the
     * first empty entry. */
    for (size_t at = (hole + 1) & mask; open->entries[at].used; at = (at + 1) & mask) {
        size_t wanted = place_of(open, open->entries[at].producer_id);
        if (((at - wanted) & mask) < ((at - hole) & mask)) continue;
        open->entries[hole] = open->entries[at];
        hole = at;
    }
    open->entries[hole].used = false;
    open->count--;
}

void ol_clean_open_clear(ol_clean_open *open) {
    if (open->count > 0) memset(open->entries, 0, open->capacity * sizeof *open->entries);
    open->count = 0;
}

int ol_clean_open_copy(ol_clean_open *target, const ol_clean_open *source, ol_error *error) {
    if (source->count == 0) {
        ol_clean_open_clear(target);
        return OL_OK;
    }
    if (target->capacity != source->capacity) {
        ol_clean_open_entry *entries = calloc(source->capacity, sizeof *entries);
        if (entries == NULL) {
            return ol_fail(error, OL_NO_MEMORY, "no memory for %zu transactions", source->capacity);
        }
        free(target->entries);
        target->entries = entries;
        target->capacity = source->capacity;
    }
    memcpy(target->entries, source->entries, source->capacity * sizeof *source->entries);
    target->count = source->count;
    return OL_OK;
}

int64_t ol_clean_open_lowest(const ol_clean_open *open, int64_t otherwise) {
    int64_t lowest = otherwise;
    for (size_t i = 0; open->count > 0 && i < open->capacity; i++) {
        const ol_clean_open_entry *entry = &open->entries[i];
        if (entry->used && entry->first_offset < lowest) lowest = entry->first_offset;
    }
    return lowest;
}

/* ---------------------------------------------------------------------------------------- fates */

void ol_clean_fates_init(ol_clean_fates *fates) {
    memset(fates, 0, sizeof *fates);
    fates->first_uncertain = fates->first_open = INT64_MAX;
}

void ol_clean_fates_free(ol_clean_fates *fates) {
    ol_clean_open_free(&fates->open);
    free(fates->ended);
    ol_clean_fates_init(fates);
}

static int add_ended(ol_clean_fates *fates, const ol_clean_open_entry *entry, int64_t last_offset,
                     ol_clean_fate fate, ol_error *error) {
    if (fates->count == fates->capacity) {
        size_t capacity = fates->capacity == 0 ? ENDED_CAPACITY_MIN : fates->capacity * 2;
        ol_clean_ended *ended = realloc(fates->ended, capacity * sizeof *ended);
        if (ended == NULL) {
            return ol_fail(error, OL_NO_MEMORY, "no memory for %zu transactions", capacity);
        }
        fates->ended = ended;
        fates->capacity = capacity;
    }
    fates->ended[fates->count++] = (ol_clean_ended){entry->producer_id, entry->first_offset,
                                                    last_offset, fate};
    if (fate == OL_CLEAN_UNCERTAIN && entry->first_offset < fates->first_uncertain) {
        fates->first_uncertain = entry->first_offset;
    }
    return OL_OK;
}

static int end_one(ol_clean_fates *fates, const ol_batch *batch, ol_control type, ol_error *error) {
    ol_clean_open_entry *entry = ol_clean_open_find(&fates->open, batch->producer_id);
    if (entry == NULL || type == OL_CONTROL_OTHER) return OL_OK;
    int status = OL_OK;
    if (entry->uncertain || type == OL_CONTROL_ABORT) {
        ol_clean_fate fate = entry->uncertain ? OL_CLEAN_UNCERTAIN : OL_CLEAN_ABORTED;
        status = add_ended(fates, entry, batch->base_offset, fate, error);
    }
    if (status == OL_OK) ol_clean_open_remove(&fates->open, entry);
    return status;
}

int ol_clean_fates_add(ol_clean_fates *fates, const ol_batch *batch, bool may_open,
                       ol_error *error) {
    OL_ASSERT(!fates->sealed);
    if (ol_clean_is_pending(batch)) {
        return may_open
                   ? ol_clean_open_add(&fates->open, batch->producer_id, batch->base_offset, error)
                   : OL_OK;
    }
    if (!ol_batch_is_control(batch)) return OL_OK;
    ol_control type;
    int32_t count;
    int status = ol_clean_read_control(batch, &type, &count, error);
    return status != OL_OK || count == 0 ? status : end_one(fates, batch, type, error);
}

void ol_clean_fates_add_damage(ol_clean_fates *fates) {
    for (size_t i = 0; i < fates->open.capacity; i++) {
        fates->open.entries[i].uncertain = fates->open.entries[i].used;
    }
}

static int compare_ended(const void *a, const void *b) {
    const ol_clean_ended *first = a, *second = b;
    if (first->producer_id != second->producer_id) {
        return first->producer_id < second->producer_id ? -1 : 1;
    }
    return (first->last_offset > second->last_offset) - (first->last_offset < second->last_offset);
}

int ol_clean_fates_seal(ol_clean_fates *fates, ol_error *error) {
    fates->first_open = ol_clean_open_lowest(&fates->open, INT64_MAX);
    for (size_t i = 0; i < fates->open.capacity; i++) {
        const ol_clean_open_entry *entry = &fates->open.entries[i];
        int status = entry->used ? add_ended(fates, entry, INT64_MAX, OL_CLEAN_UNCERTAIN, error)
                                 : OL_OK;
        if (status != OL_OK) return status;
    }
    ol_clean_open_clear(&fates->open);
    if (fates->count > 1) qsort(fates->ended, fates->count, sizeof *fates->ended, compare_ended);
    fates->sealed = true;
    return OL_OK;
}

ol_clean_fate ol_clean_fates_find(const ol_clean_fates *fates, int64_t producer_id,
                                  int64_t offset) {
    size_t low = 0, high = fates->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        const ol_clean_ended *ended = &fates->ended[middle];
        bool before = ended->producer_id != producer_id ? ended->producer_id < producer_id
                                                        : ended->last_offset < offset;
        if (before) low = middle + 1;
        else high = middle;
    }
    if (low == fates->count) return OL_CLEAN_COMMITTED;
    const ol_clean_ended *found = &fates->ended[low];
    bool inside = found->producer_id == producer_id && found->first_offset <= offset;
    return inside ? found->fate : OL_CLEAN_COMMITTED;
}

int ol_clean_read_control(const ol_batch *batch, ol_control *first, int32_t *count,
                          ol_error *error) {
    ol_records records;
    *first = OL_CONTROL_OTHER;
    *count = 0;
    int status = ol_records_open(&records, batch, NULL, error);
    if (status != OL_OK) return status;
    ol_record record;
    while ((status = ol_records_next(&records, &record, error)) == OL_OK) {
        ol_control type;
        int32_t coordinator_epoch;
        status = ol_control_decode(&record, &type, &coordinator_epoch, error);
        if (status != OL_OK) break;
        /* No writer puts several markers into a batch; if one has several, any of them ends the
         * transaction, as in apply. */
        if (*first == OL_CONTROL_OTHER) *first = type;
        (*count)++;
    }
    ol_records_close(&records);
    return status == OL_END ? OL_OK : status;
}

/* ---------------------------------------------------------------------------------------- learning
 *
 * The log itself says which transactions were aborted: one walk from the first transactional batch
 * of the dirty part to E.
 *
 * A transaction that is still open at E is not decided, whether its marker is above E or does not
 * exist: in the state at E its values are pending.  They stay and supersede nothing in this run,
 * and the next run begins before them. */

/* Returns the number of fates above which a shorter pass is considered. */
static size_t fates_budget(const ol_clean_scope *scope) {
    size_t budget = scope->options.map_bytes / 4 / sizeof(ol_clean_ended);
    return budget < FATES_MIN ? FATES_MIN : budget;
}

/* If there are too many transactions for one pass, it ends at an offset where every transaction
 * that began below has ended.  If no such offset exists above the beginning of the pass, the walk
 * continues and takes more memory. */
static bool is_enough(ol_clean_transactions *transactions, const ol_clean_scope *scope,
                      int64_t begin, int64_t next_offset) {
    if (transactions->fates.count < fates_budget(scope)) return false;
    int64_t limit = ol_clean_open_lowest(&transactions->fates.open, next_offset);
    if (limit <= begin) return false;
    transactions->limit = limit;
    ol_clean_open_clear(&transactions->fates.open);
    return true;
}

/* If a hold ends within a transaction, its end is lowered to the transaction's beginning, because
 * the transaction's values do not count yet at the end of the hold. */
static void lower_holds(ol_clean_transactions *transactions, int64_t next_offset) {
    for (size_t i = 0; i < transactions->hold_count; i++) {
        ol_clean_hold *hold = &transactions->holds[i];
        if (hold->end < transactions->holds_lowered_to || hold->end >= next_offset) continue;
        hold->end = ol_clean_open_lowest(&transactions->fates.open, hold->end);
    }
    transactions->holds_lowered_to = next_offset;
}

/* *enough: the pass ends at transactions->limit.  `begin` is where the pass or the walk begins,
 * whichever is higher. */
static int learn_segment(ol_clean_transactions *transactions, ol_clean_course *course,
                         const ol_clean_segment *segment, int64_t from, int64_t begin, bool *enough,
                         ol_error *error) {
    ol_clean_source source;
    bool done = false;
    int status = ol_clean_source_open(&source, course, segment, from, error);
    while (status == OL_OK && !*enough) {
        ol_batch batch;
        status = ol_clean_source_next_piece(&source, &done, error);
        if (status != OL_OK || done) break;
        while (!*enough) {
            status = ol_clean_source_next_batch(&source, &batch, &done, error);
            if (status != OL_OK || done) break;
            if (batch.last_offset < from ||
                !(ol_batch_is_control(&batch) || ol_clean_is_pending(&batch))) {
                continue;
            }
            if (transactions->hold_count > 0) lower_holds(transactions, batch.base_offset + 1);
            size_t count = transactions->fates.count;
            status = ol_clean_fates_add(&transactions->fates, &batch, true, error);
            if (status != OL_OK) {
                ol_clean_source_blame(&source, &batch, error);
                break;
            }
            if (transactions->fates.count > count) {
                *enough = is_enough(transactions, course->scope, begin, batch.last_offset + 1);
            }
        }
    }
    ol_clean_source_close(&source);
    return status;
}

static int learn_segments(ol_clean_transactions *transactions, ol_clean_course *course,
                          ol_clean_segments *segments, int64_t from, bool *again, ol_error *error) {
    int64_t begin = from > segments->first_dirty ? from : segments->first_dirty;
    bool enough = false;
    for (size_t i = 0; i < segments->count && !enough; i++) {
        ol_clean_segment *segment = &segments->items[i];
        if (segment->next_base <= from) continue;
        if (segment->quarantined) {
            ol_clean_fates_add_damage(&transactions->fates);
            continue;
        }
        int status = learn_segment(transactions, course, segment, from, begin, &enough, error);
        if (ol_clean_is_damage(status)) {
            /* The other segments are walked first, so that this happens only once. */
            *again = true;
            ol_clean_fates_add_damage(&transactions->fates);
            status = ol_clean_quarantine_segment(course, segments, segment, error, error);
        }
        if (status != OL_OK) return status;
    }
    return OL_OK;
}

int ol_clean_learn_transactions(ol_clean_transactions *transactions, ol_clean_course *course,
                                ol_clean_segments *segments, int64_t from, bool *again,
                                ol_error *error) {
    int64_t target = course->scope->target;
    *again = false;
    ol_clean_fates_free(&transactions->fates);
    transactions->from = -1;
    transactions->limit = target;
    transactions->holds_lowered_to = from;
    int status = learn_segments(transactions, course, segments, from, again, error);
    if (status != OL_OK || *again) return status;
    lower_holds(transactions, target);
    status = ol_clean_fates_seal(&transactions->fates, error);
    if (status != OL_OK) return status;
    const ol_clean_fates *fates = &transactions->fates;
    transactions->from = from;
    if (fates->first_open < transactions->first_undecided) {
        transactions->first_undecided = fates->first_open;
    }
    ol_clean_block_tombstones(segments, fates->first_uncertain);
    return OL_OK;
}
