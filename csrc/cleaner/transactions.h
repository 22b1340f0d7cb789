/* cleaner/transactions: what a clean must know about the transactions of a log
 * (docs/format/cleaner.md §8.5, docs/maintenance.md).
 *
 * The *fate* of a transaction says whether it was committed or aborted, or that this is uncertain.
 * The cleaner learns the fates from the markers in the log before it judges a transactional value.
 * It does not use the .txnindex for this, because a .txnindex may be lost or wrong, and has no
 * checksum.  A transaction is *open* at a point of a walk if the walk has read data of it, but no
 * marker after that data.  If a marker ends no open transaction, it may be dropped after its
 * retention time.
 *
 * The functions build the fates and the set of open transactions from the batches that they are
 * given.  The caller owns both.  Only one thread may use them. */
#ifndef OL_CLEANER_TRANSACTIONS_H
#define OL_CLEANER_TRANSACTIONS_H

#include "format/batch.h"

/* ------------------------------------------------------------------------------------ open ones */

typedef struct ol_clean_open_entry {
    int64_t producer_id;
    int64_t first_offset;
    bool used;
    bool uncertain;  /* The marker may be in bytes that were damaged and therefore skipped. */
} ol_clean_open_entry;

/* A set of open transactions, by producer id.  Zeroed memory is an empty set; ol_clean_open_free
 * frees it. */
typedef struct ol_clean_open {
    ol_clean_open_entry *entries;
    size_t capacity;            /* a power of two, or 0 */
    size_t count;
} ol_clean_open;

void ol_clean_open_free(ol_clean_open *open);
/* NULL: there is none. */
ol_clean_open_entry *ol_clean_open_find(const ol_clean_open *open, int64_t producer_id);
/* Does nothing if the set already has an entry for the producer.  Fails with OL_NO_MEMORY. */
int ol_clean_open_add(ol_clean_open *open, int64_t producer_id, int64_t first_offset,
                      ol_error *error) OL_NODISCARD;
void ol_clean_open_remove(ol_clean_open *open, ol_clean_open_entry *entry);
void ol_clean_open_clear(ol_clean_open *open);
int ol_clean_open_copy(ol_clean_open *target, const ol_clean_open *source, ol_error *error)
    OL_NODISCARD;
/* Returns the lowest first offset of all entries, or `otherwise` if that is lower or if the set is
 * empty. */
int64_t ol_clean_open_lowest(const ol_clean_open *open, int64_t otherwise);

/* ---------------------------------------------------------------------------------------- fates */

typedef enum ol_clean_fate {
    OL_CLEAN_COMMITTED,  /* the transaction was committed, or the batch belongs to no transaction */
    OL_CLEAN_ABORTED,
    OL_CLEAN_UNCERTAIN,         /* its values stay and supersede nothing */
} ol_clean_fate;

typedef struct ol_clean_ended {
    int64_t producer_id;
    int64_t first_offset;
    int64_t last_offset;        /* log offset of the marker; INT64_MAX: no marker was met */
    ol_clean_fate fate;
} ol_clean_ended;

/* The fates of the transactions that a walk has read.  Initialise them with ol_clean_fates_init,
 * add the batches in log order, then call ol_clean_fates_seal.  Only after that can
 * ol_clean_fates_find be called.  ol_clean_fates_free frees them. */
typedef struct ol_clean_fates {
    ol_clean_open open;
    ol_clean_ended *ended;      /* the ended transactions that were not committed */
    size_t count;
    size_t capacity;
    int64_t first_uncertain;  /* lowest first offset of all uncertain transactions; INT64_MAX: there
                                 is none */
    int64_t first_open;  /* lowest first offset of all transactions that were open when the fates
                            were sealed; INT64_MAX: there was none */
    bool sealed;
} ol_clean_fates;

void ol_clean_fates_init(ol_clean_fates *fates);
void ol_clean_fates_free(ol_clean_fates *fates);

/* Adds one batch.  If the batch contains data of a transaction that is not open yet, the
 * transaction becomes open, but only if `may_open` is true.  Fails with OL_NO_MEMORY, or as
 * ol_records_next and ol_control_decode do. */
int ol_clean_fates_add(ol_clean_fates *fates, const ol_batch *batch, bool may_open, ol_error *error)
    OL_NODISCARD;

/* Called when bytes were skipped.  Every open transaction may have ended in them, so each becomes
 * uncertain. */
void ol_clean_fates_add_damage(ol_clean_fates *fates);

/* Called after the last batch.  Transactions that are still open become uncertain.  Fails with
 * OL_NO_MEMORY. */
int ol_clean_fates_seal(ol_clean_fates *fates, ol_error *error) OL_NODISCARD;

/* Returns the fate of the data batch at `offset`. */
ol_clean_fate ol_clean_fates_find(const ol_clean_fates *fates, int64_t producer_id, int64_t offset);

/* Returns whether the batch contains data of a transaction.  The rule is the same as when a batch
 * is applied to the state. */
static inline bool ol_clean_is_pending(const ol_batch *batch) {
    return ol_batch_is_transactional(batch) && !ol_batch_is_control(batch) &&
           batch->producer_id >= 0;
}

/* Reads a control batch.  Sets *first to the type of its first record (OL_CONTROL_OTHER if it has
 * none) and *count to the number of its records.  Fails as ol_clean_fates_add does. */
int ol_clean_read_control(const ol_batch *batch, ol_control *first, int32_t *count, ol_error *error)
    OL_NODISCARD;

#endif
