/* state/batch_applier.c: applies plain positions on a fast path, and all other batches on a general
 * path. */
#include "state/batch_applier.h"

void ol_batch_applier_init(ol_batch_applier *applier, ol_state *state, ol_own_transactions *own,
                           const ol_decompressor *decompressor, ol_refusal refused) {
    applier->state = state;
    applier->own = own;
    applier->decompressor = decompressor;
    applier->refused = refused;
    applier->max_timestamp = -1;
    applier->batches = 0;
    applier->records = 0;
    ol_prefetch_window_init(&applier->window, state);
}

static void refuse(ol_batch_applier *applier, const ol_batch *batch, ol_error *error) {
    if (error->offset < 0) error->offset = batch->base_offset;
    applier->refused.report(applier->refused.context, batch, error);
}

/* Applies a record that is not a plain position, or that must be applied alone; reports one that
 * cannot be decoded. */
static int apply_alone(ol_batch_applier *applier, const ol_batch *batch, const ol_record *record,
                       ol_error *error) {
    ol_change change;
    int status = ol_change_decode(applier->state, batch, record, NULL, &change, error);
    if (OL_UNLIKELY(status != OL_OK)) {
        refuse(applier, batch, error);
        return OL_OK;
    }
    applier->records++;
    status = ol_prefetch_window_apply(&applier->window, error);
    return status != OL_OK ? status : ol_state_apply(applier->state, &change, error);
}

static int apply_control(ol_batch_applier *applier, const ol_batch *batch, ol_error *error) {
    int status = ol_state_apply_batch(applier->state, batch, applier->decompressor, NULL, error);
    ol_own_transactions_close(applier->own, batch->producer_id);
    applier->records += batch->record_count > 0 ? batch->record_count : 0;
    return status;
}

/* The fast path, for batches that hold only plain positions and fit the window: one walk decodes
 * and checks.  *done: the batch was applied; otherwise nothing has changed, and `records` is used
 * up. */
static int apply_plain(ol_batch_applier *applier, ol_records *records, bool *done,
                       ol_error *error) {
    ol_prefetch_window *window = &applier->window;
    *done = false;
    if ((uint32_t)records->remaining > ol_prefetch_window_room(window)) {
        int status = ol_prefetch_window_apply(window, error);
        if (status != OL_OK) return status;
    }
    ol_prefetch_mark mark = window->filled;
    ol_record record;
    ol_error ignored;
    int status;
    while ((status = ol_records_next(records, &record, &ignored)) == OL_OK) {
        if (OL_UNLIKELY(ol_prefetch_window_room(window) == 0 ||
                        !ol_prefetch_window_add(window, &record))) {
            break;
        }
    }
    *done = status == OL_END;
    if (*done) {
        applier->records += window->filled.row_count - mark.row_count;
    } else {
        ol_prefetch_window_take_back(window, mark);
    }
    return OL_OK;
}

/* The general path, for every batch: checks the structure first, because half a batch is never
 * applied, and then applies each record. */
static int apply_any(ol_batch_applier *applier, const ol_batch *batch, ol_records *records,
                     ol_error *error) {
    int status = ol_records_check(records, error);
    if (OL_UNLIKELY(status != OL_OK)) {
        refuse(applier, batch, error);
        return OL_OK;
    }
    bool transactional = ol_batch_is_transactional(batch);
    bool own = transactional && batch->producer_id >= OL_OWN_PRODUCER_ID_MIN;
    ol_record record;
    while ((status = ol_records_next(records, &record, error)) == OL_OK) {
        if (ol_prefetch_window_room(&applier->window) == 0) {
            status = ol_prefetch_window_apply(&applier->window, error);
        }
        if (OL_UNLIKELY(own) && status == OL_OK && ol_own_transactions_marks(&record)) {
            status = ol_own_transactions_open(applier->own, batch->producer_id, error);
        }
        if (OL_UNLIKELY(status != OL_OK)) return status;
        if (!transactional && ol_prefetch_window_add(&applier->window, &record)) {
            applier->records++;
            continue;
        }
        status = apply_alone(applier, batch, &record, error);
        if (status != OL_OK) return status;
    }
    return status == OL_END ? OL_OK : status;
}

static int apply_data(ol_batch_applier *applier, const ol_batch *batch, ol_error *error) {
    ol_records records;
    int status = ol_records_open(&records, batch, applier->decompressor, error);
    if (OL_UNLIKELY(ol_state_is_no_damage(status))) return status;
    if (OL_UNLIKELY(status != OL_OK)) {
        refuse(applier, batch, error);
        return OL_OK;
    }
    bool done = false;
    if (batch->magic == 2 && !ol_batch_is_transactional(batch) &&
        (uint32_t)batch->record_count <= OL_PREFETCH_WINDOW_ROWS) {
        ol_records walk = records;      /* the same bytes, with a cursor of its own */
        status = apply_plain(applier, &walk, &done, error);
    }
    if (status == OL_OK && !done) status = apply_any(applier, batch, &records, error);
    /* Records of a compressed batch borrow from memory that is released here. */
    if (records.inflated.data != NULL && status == OL_OK) {
        status = ol_prefetch_window_apply(&applier->window, error);
    }
    ol_records_close(&records);
    return status;
}

int ol_batch_applier_apply(ol_batch_applier *applier, const ol_batch *batch, ol_error *error) {
    applier->batches++;
    if (batch->max_timestamp > applier->max_timestamp) {
        applier->max_timestamp = batch->max_timestamp;
    }
    if (OL_LIKELY(!ol_batch_is_control(batch))) return apply_data(applier, batch, error);
    int status = ol_prefetch_window_apply(&applier->window, error);
    if (status != OL_OK) return status;
    status = apply_control(applier, batch, error);
    if (status == OL_OK || ol_state_is_no_damage(status)) return status;
    refuse(applier, batch, error);
    return OL_OK;
}

int ol_batch_applier_flush(ol_batch_applier *applier, ol_error *error) {
    return ol_prefetch_window_apply(&applier->window, error);
}
