/* Decides which segments of a topic must be removed, by Kafka's rules: first those below the log
 * start, then those that exceed retention.bytes, then those that are too old.  Each rule starts at
 * the oldest segment left and stops at the first one that it keeps.  The active segment is removed
 * last, after a new one is begun.
 *
 * Closed segments are inspected without the writer's lock, so that producers do not wait. */
#include "topic/topic_log_impl.h"

typedef struct sweep {
    ol_topic_log *topic;
    const ol_retention_rules *rules;
    size_t next;                /* index of the first segment that stays so far */
    int64_t start;              /* its base, or the log start */
    int64_t surplus;            /* bytes that are too many */
    int64_t active_base;        /* of an active segment that would be removed; -1 none */
} sweep;

/* Returns whether one of the rules removes a segment. */
typedef int (*rule)(sweep *work, const ol_log_segment_info *segment, int64_t end, bool *goes,
                    ol_error *error);

static int is_below_start(sweep *work, const ol_log_segment_info *segment, int64_t end, bool *goes,
                          ol_error *error) {
    (void)segment;
    (void)error;
    *goes = end <= work->start;
    return OL_OK;
}

static int is_surplus(sweep *work, const ol_log_segment_info *segment, int64_t end, bool *goes,
                      ol_error *error) {
    (void)end;
    (void)error;
    *goes = work->surplus >= segment->size;
    if (*goes) work->surplus -= segment->size;
    return OL_OK;
}

static int is_expired(sweep *work, const ol_log_segment_info *segment, int64_t end, bool *goes,
                      ol_error *error) {
    (void)end;
    ol_log *log = work->topic->log;
    ol_log_segment_files files;
    int status = ol_log_segment_files_at(log, segment->base_offset, &files, error);
    int64_t newest = files.largest_timestamp;
    /* The time index of the active segment does not have its newest batches yet. */
    if (segment->active) {
        int64_t greatest = ol_log_active_timestamp(log);
        newest = greatest >= 0 ? greatest : files.modified_ms;
    }
    const ol_retention_rules *rules = work->rules;
    *goes = status == OL_OK && newest < rules->now_ms &&
            rules->now_ms - newest > rules->retention_ms;
    return status;
}

/* Counts closed segments as long as the rule applies.  If the active one is next, it is only named,
 * because only the writer may read its facts. */
static int apply(sweep *work, rule goes_by, ol_error *error) {
    ol_log *log = work->topic->log;
    ol_log_segment_info segment, following;
    for (; ol_log_segment_at(log, work->next, &segment); work->next++) {
        bool is_closed = ol_log_segment_at(log, work->next + 1, &following);
        if (!is_closed) {
            work->active_base = segment.base_offset;
            return OL_OK;
        }
        bool goes = false;
        if (following.base_offset > work->rules->below) return OL_OK;
        int status = goes_by(work, &segment, following.base_offset, &goes, error);
        if (status != OL_OK || !goes) return status;
        if (following.base_offset > work->start) work->start = following.base_offset;
    }
    return OL_OK;
}

/* Called when all closed segments are removed.  Takes the writer's lock, so that nothing is
 * appended meanwhile. */
static int close_active(sweep *work, rule goes_by, ol_error *error) {
    ol_log *log = work->topic->log;
    ol_log_segment_info active, following;
    int64_t end = ol_log_end(log);
    bool goes = false;
    bool is_last = ol_log_segment_at(log, work->next, &active) &&
                   active.base_offset == work->active_base &&
                   !ol_log_segment_at(log, work->next + 1, &following);
    if (!is_last || active.size == 0 || end > work->rules->below) return OL_OK;
    int status = goes_by(work, &active, end, &goes, error);
    if (status != OL_OK || !goes) return status;
    status = ol_log_roll_active(log, error);
    if (status != OL_OK) return status;
    work->next++;
    if (end > work->start) work->start = end;
    return OL_OK;
}

static int take(sweep *work, rule goes_by, ol_error *error) {
    work->active_base = -1;
    int status = apply(work, goes_by, error);
    if (status != OL_OK || work->active_base < 0) return status;
    pthread_mutex_lock(&work->topic->writer);
    status = close_active(work, goes_by, error);
    pthread_mutex_unlock(&work->topic->writer);
    return status;
}

int ol_topic_log_retained_from(ol_topic_log *topic, const ol_retention_rules *rules, int64_t *start,
                               ol_error *error) {
    ol_log *log = topic->log;
    sweep work = {.topic = topic, .rules = rules, .start = ol_log_start(log), .surplus = -1};
    *start = work.start;
    int status = take(&work, is_below_start, error);
    int64_t size = ol_log_size_bytes(log);
    for (size_t i = 0; i < work.next; i++) {
        ol_log_segment_info gone;
        if (ol_log_segment_at(log, i, &gone)) size -= gone.size;
    }
    if (rules->retention_bytes >= 0) work.surplus = size - rules->retention_bytes;
    if (status == OL_OK && work.surplus >= 0) status = take(&work, is_surplus, error);
    if (status == OL_OK && rules->retention_ms >= 0) status = take(&work, is_expired, error);
    int64_t flushed;
    if (status == OL_OK && work.next > 0) status = ol_log_flush_unasked(log, &flushed, error);
    if (status == OL_OK) *start = work.start;
    return status;
}
