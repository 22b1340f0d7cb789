/* cleaner/transactions: what the cleaner has to know of transactions (docs/format/cleaner.md §8.5, docs/maintenance.md).
 *
 * Two things.  The *fates*: which transactional values were aborted, learnt from the markers in the log itself before a value is judged; a .txnindex may be
 * lost, or wrong, and carries no checksum.  And the *open* ones of a walk: of whose data something was met since the last marker, which decides
 * whether a marker still has something to end.  Both know batches only; one thread uses them. */
#ifndef OL_CLEANER_TRANSACTIONS_H
#define OL_CLEANER_TRANSACTIONS_H

#include "format/batch.h"

/* ------------------------------------------------------------------------------------------------ open ones */

typedef struct ol_clean_open_entry {
    int64_t producer_id;
    int64_t first_offset;
    bool used;
    bool uncertain;             /* bytes that could not be read came since; one of them may have been its marker */
} ol_clean_open_entry;

/* By producer id; zero-initialised, freed by ol_clean_open_free. */
typedef struct ol_clean_open {
    ol_clean_open_entry *entries;
    size_t capacity;            /* a power of two, or 0 */
    size_t count;
} ol_clean_open;

void ol_clean_open_free(ol_clean_open *open);
ol_clean_open_entry *ol_clean_open_find(const ol_clean_open *open, int64_t producer_id);    /* NULL: none */
/* Nothing happens when it is there already. */
int ol_clean_open_add(ol_clean_open *open, int64_t producer_id, int64_t first_offset, ol_error *error) OL_NODISCARD;
void ol_clean_open_remove(ol_clean_open *open, ol_clean_open_entry *entry);
void ol_clean_open_clear(ol_clean_open *open);
int ol_clean_open_copy(ol_clean_open *target, const ol_clean_open *source, ol_error *error) OL_NODISCARD;
/* The lowest first offset of all, or `otherwise`. */
int64_t ol_clean_open_lowest(const ol_clean_open *open, int64_t otherwise);

/* ------------------------------------------------------------------------------------------------ fates */

typedef enum ol_clean_fate {
    OL_CLEAN_COMMITTED,         /* or of no transaction */
    OL_CLEAN_ABORTED,
    OL_CLEAN_UNCERTAIN,         /* its values stay and supersede nothing */
} ol_clean_fate;

typedef struct ol_clean_ended {
    int64_t producer_id;
    int64_t first_offset;
    int64_t last_offset;        /* of the marker; INT64_MAX: none was met */
    ol_clean_fate fate;
} ol_clean_ended;

/* Zero-initialised, freed by ol_clean_fates_free.  Batches are told in log order, then the fates are sealed, then asked for. */
typedef struct ol_clean_fates {
    ol_clean_open open;
    ol_clean_ended *ended;      /* those that were not committed */
    size_t count;
    size_t capacity;
    int64_t first_uncertain;    /* lowest first offset of those that are uncertain, INT64_MAX none */
    int64_t first_open;         /* and of those that were still open when they were sealed */
    bool sealed;
} ol_clean_fates;

void ol_clean_fates_init(ol_clean_fates *fates);
void ol_clean_fates_free(ol_clean_fates *fates);

/* One batch.  `may_open`: data of a transaction that is not known yet counts.  OL_NO_MEMORY, or what ol_records_next and ol_control_decode say. */
int ol_clean_fates_add(ol_clean_fates *fates, const ol_batch *batch, bool may_open, ol_error *error) OL_NODISCARD;

/* Bytes were passed over: whatever was open may have ended in them. */
void ol_clean_fates_add_damage(ol_clean_fates *fates);

/* Nothing more comes; what is still open is uncertain. */
int ol_clean_fates_seal(ol_clean_fates *fates, ol_error *error) OL_NODISCARD;

/* Of the data batch at `offset`. */
ol_clean_fate ol_clean_fates_find(const ol_clean_fates *fates, int64_t producer_id, int64_t offset);

/* Whether this is data of a transaction, as apply sees it. */
static inline bool ol_clean_is_pending(const ol_batch *batch) {
    return ol_batch_is_transactional(batch) && !ol_batch_is_control(batch) && batch->producer_id >= 0;
}

/* The records of a control batch: the type of the first, OL_CONTROL_OTHER where there is none; `count` of them in all. */
int ol_clean_read_control(const ol_batch *batch, ol_control *first, int32_t *count, ol_error *error) OL_NODISCARD;

#endif
