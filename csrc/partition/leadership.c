/* Changes leadership (docs/architecture.md §7).  Every change carries its leader epoch. */
#include "partition/partition_impl.h"

static int refuse_failed(const ol_partition *partition, ol_error *error) {
    if (partition->role != OL_ROLE_FAILED && !ol_log_has_failed(partition->log)) return OL_OK;
    return ol_partition_refuse(partition, OL_FAILED, error,
                               "the partition failed and must be opened again");
}

int ol_partition_check_replicated(const ol_partition *partition, ol_error *error) {
    if (!partition->options.replicated) {
        return ol_partition_refuse(partition, OL_INVALID, error, "the partition is not replicated");
    }
    return refuse_failed(partition, error);
}

int ol_partition_check_epoch(const ol_partition *partition, int32_t leader_epoch,
                             ol_error *error) {
    int32_t known = partition->leadership.epoch;
    if (OL_LIKELY(leader_epoch == known)) return OL_OK;
    if (leader_epoch < known) {
        return ol_partition_refuse(partition, OL_FENCED_LEADER_EPOCH, error,
                                   "leader epoch %d is older than %d", leader_epoch, known);
    }
    return ol_partition_refuse(partition, OL_UNKNOWN_LEADER_EPOCH, error,
                               "leader epoch %d is newer than %d, the newest leader epoch that "
                               "this replica knows",
                               leader_epoch, known);
}

/* -------------------------------------------------------------------- open transactions of ours */

typedef struct own_search {
    int64_t producer_id;
    bool is_own;
} own_search;

/* Inspects the first record of the producer's first batch. */
static int find_header(ol_partition *partition, const ol_batch *batch, void *context,
                       ol_error *error) {
    own_search *search = context;
    if (batch->producer_id != search->producer_id || ol_batch_is_control(batch)) return OL_OK;
    ol_records records;
    ol_record record;
    int status = ol_records_open(&records, batch, partition->options.log.decompressor, error);
    if (status != OL_OK) return status == OL_NO_MEMORY ? status : OL_END;
    search->is_own =
        ol_records_next(&records, &record, error) == OL_OK && ol_own_transactions_marks(&record);
    ol_records_close(&records);
    return OL_END;
}

/* Ends with ABORT the store's own transactions that an earlier leader left open
 * (docs/architecture.md §7): those with a producer id of the reserved range and the store's header.
 * A leader writes such a transaction under one hold of the writer lock, so one that is open here
 * will never be ended by its writer.  The function uses the list of open transactions in the log,
 * because a truncation corrects that list.  It would not correct a list that is made while records
 * are applied. */
static int abort_own(ol_partition *partition, ol_error *error) {
    ol_log_transaction transaction;
    ol_commit_result result;
    for (size_t i = 0; ol_log_open_transaction_at(partition->log, i, &transaction);) {
        own_search search = {transaction.producer_id, false};
        int status = OL_OK;
        if (transaction.producer_id >= OL_OWN_PRODUCER_ID_MIN) {
            status = ol_partition_for_each_batch(partition, transaction.first_offset,
                                                 ol_log_end(partition->log), find_header, &search,
                                                 error);
        }
        if (status != OL_OK) return status;
        if (!search.is_own) {
            i++;
            continue;
        }
        status = ol_partition_write_marker(partition, transaction.producer_id, -1, OL_CONTROL_ABORT,
                                           0, &result, error);
        if (status != OL_OK) return status;
        partition->load.aborted_own++;      /* the next open one moves to `i` */
    }
    return OL_OK;
}

int ol_partition_activate(ol_partition *partition, ol_error *error) {
    int loading = OL_ROLE_LOADING;
    if (partition->role != loading || !partition->leadership.leads || partition->load_runs ||
        partition->applied < partition->leadership.elected_end) {
        return OL_OK;
    }
    /* A group with unreadable records would look as if it had never committed. */
    if (partition->read_only) {
        return ol_partition_refuse(partition, OL_READ_ONLY, error,
                                   "a damaged partition cannot have a leader");
    }
    int status = abort_own(partition, error);
    /* A flush that failed meanwhile made it FAILED: it stays so. */
    if (status == OL_OK) atomic_compare_exchange_strong(&partition->role, &loading, OL_ROLE_ACTIVE);
    return status;
}

/* ---------------------------------------------------------------------------------- the changes */

/* A role that a failed flush has set to FAILED stays so. */
static int change_role(ol_partition *partition, ol_role to, ol_error *error) {
    int role = partition->role;
    if (role != OL_ROLE_FAILED && atomic_compare_exchange_strong(&partition->role, &role, to)) {
        return OL_OK;
    }
    return ol_partition_refuse(partition, OL_FAILED, error,
                               "the partition failed and must be opened again");
}

/* An epoch has one leader: even a process that led in it before cannot know whether another process
 * has led since. */
static int check_election(const ol_partition *partition, int32_t leader_epoch, ol_error *error) {
    int status = ol_partition_check_replicated(partition, error);
    if (status != OL_OK) return status;
    if (leader_epoch <= partition->leadership.epoch) {
        return ol_partition_refuse(partition, OL_FENCED_LEADER_EPOCH, error,
                                   "leader epoch %d is not above %d", leader_epoch,
                                   partition->leadership.epoch);
    }
    if (partition->read_only) {
        return ol_partition_refuse(partition, OL_READ_ONLY, error,
                                   "the partition is open read-only");
    }
    return OL_OK;
}

static void step_down(ol_partition *partition, int32_t leader_epoch) {
    bool led = partition->leadership.leads;
    partition->leadership.epoch = leader_epoch;
    partition->leadership.leads = false;
    partition->leadership.alone = false;
    partition->leadership.ready = false;
    ol_partition_drop_overlay(partition);
    ol_log_release_ends(partition->log);
    if (led) ol_partition_wake(partition, true);
}

/* The election ends the previous leadership, even if the election fails.  A leader that continued
 * would write in its old epoch at offsets where the list of epochs may say that the new one has
 * begun. */
static void give_up(ol_partition *partition) {
    ol_error ignored;
    if (ol_partition_is_loaded(partition)) {
        (void)!change_role(partition, OL_ROLE_FOLLOWER, &ignored);
    }
    step_down(partition, partition->leadership.epoch);
}

static int hold_election(ol_partition *partition, int32_t leader_epoch, bool alone,
                         ol_error *error) {
    int status = OL_OK;
    if (ol_partition_is_loaded(partition) && !alone) {
        status = ol_partition_read_in_flight(partition, error);
    }
    if (status == OL_OK) status = ol_log_assign_epoch(partition->log, leader_epoch, error);
    if (status != OL_OK) give_up(partition);
    return status;
}

static int lead_locked(ol_partition *partition, int32_t leader_epoch, bool alone,
                       ol_error *error) {
    bool leads_already = partition->leadership.leads &&
                         partition->leadership.epoch == leader_epoch &&
                         partition->leadership.alone == alone;
    if (leads_already) return ol_partition_check_replicated(partition, error);
    int status = check_election(partition, leader_epoch, error);
    if (status == OL_OK) status = hold_election(partition, leader_epoch, alone, error);
    if (status != OL_OK) return status;
    partition->leadership.epoch = leader_epoch;
    partition->leadership.ready = true;
    partition->leadership.leads = true;
    partition->leadership.alone = alone;
    partition->leadership.elected_end = ol_log_end(partition->log);
    /* Without the space, the ends are written like other batches. */
    ol_error ignored;
    (void)!ol_log_keep_ends(partition->log, &ignored);
    if (!ol_partition_is_loaded(partition)) return OL_OK;        /* the end of the load continues */
    status = change_role(partition, OL_ROLE_LOADING, error);
    if (status != OL_OK) return status;
    status = ol_partition_move_watermark(partition, 0, error);
    if (partition->role == OL_ROLE_FAILED) return status;
    return OL_OK;           /* else it leads, and the next ol_partition_advance tries again */
}

int ol_partition_become_leader(ol_partition *partition, int32_t leader_epoch, bool alone,
                               ol_error *error) {
    pthread_mutex_lock(&partition->writer);
    int status = lead_locked(partition, leader_epoch, alone, error);
    pthread_mutex_unlock(&partition->writer);
    ol_partition_wake(partition, false);
    return status;
}

static int follow_locked(ol_partition *partition, int32_t leader_epoch, ol_error *error) {
    int status = ol_partition_check_replicated(partition, error);
    if (status != OL_OK) return status;
    if (leader_epoch < partition->leadership.epoch) {
        return ol_partition_check_epoch(partition, leader_epoch, error);
    }
    if (ol_partition_is_loaded(partition)) {
        status = change_role(partition, OL_ROLE_FOLLOWER, error);
        if (status != OL_OK) return status;
    }
    step_down(partition, leader_epoch);
    return OL_OK;
}

int ol_partition_become_follower(ol_partition *partition, int32_t leader_epoch, ol_error *error) {
    pthread_mutex_lock(&partition->writer);
    int status = follow_locked(partition, leader_epoch, error);
    pthread_mutex_unlock(&partition->writer);
    return status;
}
