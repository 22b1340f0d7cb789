/* Lists the segments of a read-only log again, after another process has rolled or cleaned it. */
#include "log/log_impl.h"

int ol_log_list_again(ol_log *log, ol_error *error) {
    ol_log_options options;
    ol_log_options_of(log, &options);
    options.clean = options.being_written = options.replicated = true;
    options.recovery_point = ol_log_flushed(log);
    options.decompressor = NULL;
    ol_log *fresh = NULL;
    ol_log_recovery recovery;
    int status = ol_log_open(&options, &fresh, &recovery, error);
    if (status != OL_OK) return status;
    pthread_mutex_lock(&log->list.lock);
    ol_segment **segments = log->list.segments;
    size_t count = log->list.count, capacity = log->list.capacity;
    log->list.segments = fresh->list.segments;
    log->list.count = fresh->list.count;
    log->list.capacity = fresh->list.capacity;
    fresh->list.segments = segments;
    fresh->list.count = count;
    fresh->list.capacity = capacity;
    pthread_mutex_unlock(&log->list.lock);
    int64_t end = ol_log_end(fresh);
    if (end > ol_log_end(log)) atomic_store(&log->shared.end, end);
    ol_log_abandon(fresh);
    return OL_OK;
}
