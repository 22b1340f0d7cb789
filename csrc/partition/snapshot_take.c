/* Takes snapshots of a partition, checks them against its log and puts their files in place. */
#include "partition/snapshot_take.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "partition/partition_impl.h"
#include "table/copy.h"

/* Returns the number of the log partition, which is in the name of its directory; -1 for a name of
 * another form. */
static int32_t partition_number(const ol_partition *partition) {
    const char *dash = strrchr(partition->options.log.directory, '-');
    if (dash == NULL || dash[1] < '0' || dash[1] > '9') return -1;
    char *end;
    long number = strtol(dash + 1, &end, 10);
    return *end == 0 && number >= 0 && number < INT32_MAX ? (int32_t)number : -1;
}

static ol_snapshot_source source_of(const ol_partition *partition) {
    return (ol_snapshot_source){
        .log = partition->log,
        .decompressor = partition->options.log.decompressor,
        .number = partition_number(partition),
        .term = partition->term,
    };
}

int ol_partition_snapshot_begin(ol_partition *partition, ol_snapshot **snapshot, ol_error *error) {
    ol_snapshot_source source = source_of(partition);
    return ol_snapshot_begin(&source, snapshot, error);
}

int ol_partition_snapshot_advance(ol_partition *partition, ol_snapshot *snapshot, int64_t up_to,
                                  const atomic_bool *stop, ol_error *error) {
    ol_snapshot_source source = source_of(partition);
    int status = ol_snapshot_advance(snapshot, &source, up_to, stop, error);
    if (status == OL_OK && partition->term != source.term) {
        status = ol_fail(error, OL_WOULD_BLOCK,
                         "the log was cleaned or truncated while the snapshot was taken");
    }
    return status;
}

int ol_partition_snapshot_borrow(ol_partition *partition, ol_snapshot **snapshot, ol_error *error) {
    ol_positions positions;
    ol_partition_positions(partition, &positions);
    if (partition->options.replicated || partition->read_only ||
        ol_partition_role(partition) != OL_ROLE_ACTIVE || partition->problems.count > 0 ||
        positions.flushed != positions.written || positions.applied != positions.written) {
        return ol_fail(error, OL_INVALID,
                       "the last snapshot can be written without a copy only if the partition is "
                       "active, undamaged, flushed, and not replicated");
    }
    int64_t max_timestamp = partition->clock.newest;
    ol_snapshot_source source = source_of(partition);
    return ol_snapshot_borrow(&source, &partition->state, &partition->own.open, positions.written,
                              max_timestamp, snapshot, error);
}

/* --------------------------------------------------------------- a copy of a state that changes */

enum {
    AT_ONCE_SIZE_MAX = 8 << 20,         /* bytes that are copied under the locks: a millisecond */
    LAST_SIZE_MAX = 4 * AT_ONCE_SIZE_MAX,   /* with what has come since they were measured */
    PAUSE_NS = 50000,                   /* between two steps, for threads that wait for the lock */
};

/* An active partition is loaded.  Under writer or table. */
static int check_copyable(const ol_partition *partition, ol_error *error) {
    if (partition->options.replicated || partition->read_only ||
        ol_partition_role(partition) != OL_ROLE_ACTIVE || partition->problems.count > 0) {
        return ol_fail(error, OL_INVALID,
                       "only an undamaged, active partition without replicas can be copied");
    }
    return OL_OK;
}

/* Returns the size of the memory that is copied at once, without the table.  Under writer or
 * table. */
static size_t size_of_rest(const ol_partition *partition) {
    return ol_pending_memory_usage(partition->state.pending) +
           ol_group_records_memory_usage(partition->state.group_records);
}

static int measure(ol_partition *partition, ol_table *target, ol_table_copy *copy,
                   ol_error *error) {
    pthread_mutex_lock(&partition->table);
    int status = check_copyable(partition, error);
    size_t size = 0;
    if (status == OL_OK) {
        size = ol_table_copy_measure(partition->state.table, target, copy) +
               size_of_rest(partition);
    }
    pthread_mutex_unlock(&partition->table);
    if (status == OL_OK && size > AT_ONCE_SIZE_MAX) {
        status = ol_fail(error, OL_LIMIT,
                         "the copy of %zu bytes in one step would delay commits for too long",
                          size);
    }
    return status;
}

static int copy_cells(ol_partition *partition, ol_table_copy *copy, const atomic_bool *stop,
                      ol_error *error) {
    const struct timespec pause = {0, PAUSE_NS};
    for (bool more = true; more; nanosleep(&pause, NULL)) {
        if (stop != NULL && atomic_load_explicit(stop, memory_order_relaxed)) {
            return ol_fail(error, OL_CLOSED, "the snapshot was stopped");
        }
        pthread_mutex_lock(&partition->table);
        more = ol_table_copy_step(copy);
        pthread_mutex_unlock(&partition->table);
    }
    return OL_OK;
}

/* Under the locks that finish_copy holds. */
static int check_left(const ol_partition *partition, const ol_table_copy *copy, ol_error *error) {
    size_t size = ol_table_copy_left(copy) + size_of_rest(partition);
    if (size <= LAST_SIZE_MAX) return OL_OK;
    return ol_fail(error, OL_LIMIT,
                   "the state changed by %zu bytes while it was copied, too many for the last step",
                   size);
}

static int finish_copy(ol_partition *partition, ol_table_copy *copy, ol_snapshot *snapshot,
                       ol_error *error) {
    pthread_mutex_lock(&partition->writer);
    pthread_mutex_lock(&partition->table);
    int status = check_copyable(partition, error);
    if (status == OL_OK) status = check_left(partition, copy, error);
    if (status == OL_OK) status = ol_table_copy_finish(copy, error);
    if (status == OL_OK) {
        ol_snapshot_source source = source_of(partition);
        status = ol_snapshot_keep_rest(snapshot, &source, &partition->state, &partition->own.open,
                                       partition->applied, partition->clock.newest, error);
    }
    pthread_mutex_unlock(&partition->table);
    pthread_mutex_unlock(&partition->writer);
    return status;
}

static int copy_state(ol_partition *partition, ol_snapshot *snapshot, const atomic_bool *stop,
                      ol_error *error) {
    ol_table_copy copy = {0};
    int status = measure(partition, ol_snapshot_copied_table(snapshot), &copy, error);
    if (status == OL_OK) status = ol_table_copy_prepare(&copy, error);
    if (status == OL_OK) {
        pthread_mutex_lock(&partition->table);
        status = ol_table_copy_begin(&copy, error);
        pthread_mutex_unlock(&partition->table);
        if (status == OL_OK) status = copy_cells(partition, &copy, stop, error);
        if (status == OL_OK) status = finish_copy(partition, &copy, snapshot, error);
    }
    pthread_mutex_lock(&partition->table);
    ol_table_copy_cancel(&copy);
    pthread_mutex_unlock(&partition->table);
    return status;
}

int ol_partition_snapshot_copy(ol_partition *partition, const atomic_bool *stop,
                               ol_snapshot **snapshot, ol_error *error) {
    ol_snapshot_source source = source_of(partition);
    ol_snapshot *created;
    int status = ol_snapshot_begin(&source, &created, error);
    if (status != OL_OK) return status;
    status = copy_state(partition, created, stop, error);
    if (status == OL_OK) status = ol_snapshot_find_log(created, &source, error);
    if (status != OL_OK) {
        ol_snapshot_destroy(created);
        return status;
    }
    *snapshot = created;
    return OL_OK;
}

/* Damage may be above the snapshot.  If records below the snapshot are missing, its state has
 * them. */
static bool is_damaged(const ol_partition *partition) {
    ol_problem problem;
    for (size_t i = 0; ol_partition_problem_at(partition, i, &problem); i++) {
        if (problem.kind == OL_PROBLEM_DAMAGE) return true;
    }
    return false;
}

int ol_partition_snapshot_check(ol_partition *partition, const ol_snapshot *snapshot,
                                int64_t cleaned_to, ol_error *error) {
    if (is_damaged(partition)) return ol_fail(error, OL_INVALID, "the log is damaged");
    ol_snapshot_source source = source_of(partition);
    return ol_snapshot_check(snapshot, &source, cleaned_to, error);
}

/* ------------------------------------------------------------------------ the file in its place */

static int snapshot_path(const ol_partition *partition, char path[OL_PATH_MAX], ol_error *error) {
    return ol_path_join(path, OL_PATH_MAX, partition->options.log.directory, OL_SNAPSHOT_FILE,
                        error);
}

int ol_partition_snapshot_publish(ol_partition *partition, const ol_snapshot *snapshot,
                                  const char *temporary, ol_error *error) {
    ol_fs *fs = partition->options.log.fs;
    ol_snapshot_facts facts;
    char path[OL_PATH_MAX];
    ol_snapshot_report(snapshot, &facts);
    int status = snapshot_path(partition, path, error);
    if (status != OL_OK) return status;
    pthread_mutex_lock(&partition->snapshot.lock);
    if (partition->term != ol_snapshot_term(snapshot) ||
        ol_log_flushed(partition->log) < facts.offset || partition->watermark < facts.offset) {
        status = ol_fail(error, OL_WOULD_BLOCK,
                         "the log was truncated while the snapshot was taken, or the snapshot's "
                         "log offset is not yet flushed and replicated");
    } else {
        status = fs->rename(fs, temporary, path, error);
    }
    if (status == OL_OK) partition->snapshot.offset = facts.offset;
    pthread_mutex_unlock(&partition->snapshot.lock);
    if (status == OL_OK) return fs->flush_directory(fs, partition->options.log.directory, error);
    ol_error ignored;
    (void)!fs->remove(fs, temporary, &ignored);
    return status;
}

int ol_partition_snapshot_remove(ol_partition *partition, ol_error *error) {
    pthread_mutex_lock(&partition->snapshot.lock);
    int status = ol_partition_drop_snapshot(partition, error);
    pthread_mutex_unlock(&partition->snapshot.lock);
    return status;
}

int ol_partition_drop_snapshot(ol_partition *partition, ol_error *error) {
    ol_fs *fs = partition->options.log.fs;
    char path[OL_PATH_MAX];
    int status = snapshot_path(partition, path, error);
    if (status != OL_OK) return status;
    status = fs->remove(fs, path, error);
    if (status == OL_NO_SUCH_FILE) return OL_OK;
    if (status == OL_OK) partition->snapshot.offset = -1;
    return status != OL_OK ? status
                           : fs->flush_directory(fs, partition->options.log.directory, error);
}

int64_t ol_partition_snapshot_offset(const ol_partition *partition) {
    return partition->snapshot.offset;
}

int64_t ol_partition_snapshot_tail_bytes(const ol_partition *partition) {
    const ol_log *log = partition->log;
    int64_t from = partition->snapshot.offset, bytes = 0;
    ol_log_segment_info info, next;
    bool there = ol_log_segment_at(log, 0, &info);
    for (size_t i = 1; there; i++, info = next) {
        bool follows = ol_log_segment_at(log, i, &next);
        int64_t end = follows ? next.base_offset : ol_log_end(log);
        if (from <= info.base_offset) {
            bytes += info.size;
        } else if (from < end) {
            double share = (double)info.size * (double)(end - from);
            bytes += (int64_t)(share / (double)(end - info.base_offset));
        }
        there = follows;
    }
    return bytes;
}
