/* Appends batches.  It checks a batch, compares it with what the producer sent before, copies it to
 * its place in the log, and publishes it. */
#include <stdlib.h>
#include <string.h>

#include "format/batch_write.h"
#include "topic/topic_log_impl.h"

/* A crash may have lost records that consumers had read.  Later records therefore carry another
 * epoch, by which clients notice the loss. */
static int begin_epoch(ol_topic_log *topic, int32_t leader_epoch, bool was_stopped_cleanly,
                       ol_error *error) {
    topic->leader_epoch = ol_log_leader_epoch(topic->log);
    if (!ol_log_is_writable(topic->log)) return OL_OK;
    if (!was_stopped_cleanly && leader_epoch <= topic->leader_epoch) {
        leader_epoch = topic->leader_epoch + 1;
    }
    if (topic->leader_epoch >= leader_epoch) return OL_OK;
    topic->leader_epoch = leader_epoch;
    return ol_log_assign_epoch(topic->log, leader_epoch, error);
}

int ol_topic_log_open(const ol_log_options *options, int32_t leader_epoch, ol_topic_log **opened,
                      ol_log_recovery *recovery, ol_error *error) {
    ol_topic_log *topic = calloc(1, sizeof *topic);
    if (topic == NULL) return ol_fail(error, OL_NO_MEMORY, "no memory for a partition's log");
    ol_log_options own = *options;
    own.config.given_producer_id_max = OL_GIVEN_PRODUCER_ID_MAX;
    int status = ol_log_open(&own, &topic->log, recovery, error);
    if (status != OL_OK) {
        free(topic);
        return status;
    }
    pthread_mutex_init(&topic->writer, NULL);
    status = begin_epoch(topic, leader_epoch, !recovery->recovered, error);
    if (status != OL_OK) {
        ol_topic_log_abandon(topic);
        return status;
    }
    *opened = topic;
    return OL_OK;
}

static void free_rest(ol_topic_log *topic) {
    ol_recent_batches_free(&topic->recent);
    pthread_mutex_destroy(&topic->writer);
    free(topic);
}

int ol_topic_log_close(ol_topic_log *topic, int64_t *end, ol_error *error) {
    *end = ol_log_end(topic->log);
    int status = ol_log_close(topic->log, error);
    free_rest(topic);
    return status;
}

void ol_topic_log_abandon(ol_topic_log *topic) {
    ol_log_abandon(topic->log);
    free_rest(topic);
}

void ol_topic_log_swap_recent(ol_topic_log *topic, ol_recent_batches *recent) {
    pthread_mutex_lock(&topic->writer);
    ol_recent_batches mine = topic->recent;
    topic->recent = *recent;
    *recent = mine;
    pthread_mutex_unlock(&topic->writer);
}

ol_log *ol_topic_log_log(const ol_topic_log *topic) { return topic->log; }

/* ------------------------------------------------------------ appending */

static void answer_duplicate(const ol_recent_batch *known, ol_appended *appended) {
    appended->base_offset = known->base_offset;
    appended->next_offset = known->last_offset + 1;
    appended->log_append_time = known->timestamp;
    appended->is_duplicate = true;
}

static void fill_fields(const ol_produced_batch *produced, int64_t base_offset,
                        int32_t leader_epoch, int64_t max_timestamp, ol_batch_fields *fields) {
    const ol_batch *batch = &produced->batch;
    ol_batch_fields_init(fields, base_offset, batch->base_timestamp);
    fields->max_timestamp = max_timestamp;
    fields->producer_id = batch->producer_id;
    fields->producer_epoch = batch->producer_epoch;
    fields->base_sequence = batch->base_sequence;
    fields->leader_epoch = leader_epoch;
    fields->last_offset_delta = (int32_t)batch->last_offset;
    fields->record_count = batch->record_count;
    fields->attributes = batch->attributes;
}

static int append(ol_topic_log *topic, const ol_produced_batch *produced, int64_t append_time,
                  ol_appended *appended, ol_error *error) {
    size_t size = produced->batch.size;
    int64_t max_timestamp = append_time >= 0 ? append_time : produced->max_timestamp;
    ol_batch_fields fields;
    uint8_t *start;
    int64_t base_offset;
    int status = ol_log_reserve(topic->log, size, (int32_t)produced->batch.last_offset,
                                max_timestamp, &start, &base_offset, error);
    if (status != OL_OK) return status;
    ol_produced_batch_put(start, produced, base_offset, topic->leader_epoch, append_time);
    fill_fields(produced, base_offset, topic->leader_epoch, max_timestamp, &fields);
    status = ol_log_publish(topic->log, &fields, size, error);
    if (status != OL_OK) return status;
    if (produced->batch.producer_id >= 0) {
        ol_recent_batches_add(&topic->recent, produced, base_offset, max_timestamp);
    }
    appended->base_offset = base_offset;
    appended->next_offset = base_offset + produced->batch.last_offset + 1;
    appended->log_append_time = append_time;
    return OL_OK;
}

static int append_or_recognise(ol_topic_log *topic, ol_produced_batch *produced,
                               int64_t append_time, ol_appended *appended, ol_error *error) {
    const ol_recent_batch *known = NULL;
    if (produced->batch.producer_id >= 0) {
        int status =
            ol_recent_batches_check(&topic->recent, topic->log, produced, &known, error);
        if (status != OL_OK) return status;
    }
    if (known == NULL) return append(topic, produced, append_time, appended, error);
    answer_duplicate(known, appended);
    return OL_OK;
}

int ol_topic_log_produce(ol_topic_log *topic, ol_slice bytes, const ol_produce_rules *rules,
                         ol_appended *appended, ol_error *error) {
    *appended = (ol_appended){.base_offset = -1, .next_offset = -1, .log_append_time = -1};
    int status = ol_produced_batch_check(bytes, rules, &appended->produced, error);
    if (status != OL_OK) return status;
    pthread_mutex_lock(&topic->writer);
    status = append_or_recognise(topic, &appended->produced, rules->log_append_time, appended,
                                 error);
    pthread_mutex_unlock(&topic->writer);
    return status;
}

int64_t ol_topic_log_first_unstable(ol_topic_log *topic) {
    pthread_mutex_lock(&topic->writer);
    int64_t offset = ol_log_first_unstable(topic->log);
    pthread_mutex_unlock(&topic->writer);
    return offset;
}

int64_t ol_topic_log_highest_producer_id(ol_topic_log *topic) {
    pthread_mutex_lock(&topic->writer);
    int64_t highest = ol_log_highest_producer_id(topic->log);
    pthread_mutex_unlock(&topic->writer);
    return highest;
}

int ol_topic_log_stable(ol_topic_log *topic, ol_topic_stable *stable, ol_error *error) {
    *stable = (ol_topic_stable){0};
    pthread_mutex_lock(&topic->writer);
    stable->log_end = ol_log_end(topic->log);
    stable->first_unstable = ol_log_first_unstable(topic->log);
    int status = ol_log_producers_copy(topic->log, &stable->producers, &stable->producer_count,
                                       error);
    pthread_mutex_unlock(&topic->writer);
    return status;
}

void ol_topic_log_options(ol_topic_log *topic, ol_log_options *options) {
    pthread_mutex_lock(&topic->writer);
    ol_log_options_of(topic->log, options);
    pthread_mutex_unlock(&topic->writer);
}

int ol_topic_log_change_config(ol_topic_log *topic, const ol_log_config *config,
                               ol_error *error) {
    pthread_mutex_lock(&topic->writer);
    int status = ol_log_change_config(topic->log, config, error);
    pthread_mutex_unlock(&topic->writer);
    return status;
}
