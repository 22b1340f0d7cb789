/* Ends transactions of producers with markers. */
#include "partition/partition_impl.h"

/* Returns the fields that ol_batch_put_marker wrote, for the log. */
static ol_batch_fields marker_fields(const ol_partition *partition, int64_t offset,
                                     int64_t timestamp, int64_t producer_id,
                                     int16_t producer_epoch) {
    ol_batch_fields fields;
    ol_batch_fields_init(&fields, offset, timestamp);
    fields.leader_epoch = partition->leadership.epoch;
    fields.producer_id = producer_id;
    fields.producer_epoch = producer_epoch;
    fields.base_sequence = -1;
    fields.record_count = 1;
    fields.attributes = OL_ATTRIBUTE_TRANSACTIONAL | OL_ATTRIBUTE_CONTROL;
    return fields;
}

static void apply_marker(ol_partition *partition, const uint8_t *start, int64_t producer_id,
                         ol_control type) {
    int64_t end = ol_log_end(partition->log);
    if (!ol_partition_applies_at_once(partition)) {
        ol_unapplied_keep(&partition->unapplied, start, OL_BATCH_MARKER_SIZE, end - 1, end);
        return;
    }
    pthread_mutex_lock(&partition->table);
    ol_state_end_transaction(&partition->state, producer_id, type);
    ol_partition_set_positions(partition, end, end);
    pthread_mutex_unlock(&partition->table);
}

int ol_partition_append_marker(ol_partition *partition, int64_t producer_id, int16_t producer_epoch,
                               ol_control type, int32_t coordinator_epoch, uint8_t **start,
                               ol_commit_result *result, ol_error *error) {
    int16_t known_epoch = -1;
    int32_t known_coordinator_epoch = -1;
    ol_log_producer(partition->log, producer_id, &known_epoch, &known_coordinator_epoch);
    if (producer_epoch < 0) producer_epoch = known_epoch;
    if (coordinator_epoch < known_coordinator_epoch) coordinator_epoch = known_coordinator_epoch;
    int64_t timestamp = ol_batch_clock_next(&partition->clock).batch, offset;
    int status = ol_log_reserve_end(partition->log, timestamp, start, &offset, error);
    if (status != OL_OK) return status;
    size_t size = ol_batch_put_marker(*start, offset, partition->leadership.epoch, timestamp,
                                      producer_id, producer_epoch, type, coordinator_epoch);
    OL_ASSERT(size == OL_BATCH_MARKER_SIZE);
    ol_batch_fields fields =
        marker_fields(partition, offset, timestamp, producer_id, producer_epoch);
    status = ol_log_publish(partition->log, &fields, size, error);
    if (status != OL_OK) return status;
    ol_batch_clock_record(&partition->clock, timestamp);
    ol_own_transactions_close(&partition->own.open, producer_id);
    *result = (ol_commit_result){.base_offset = offset,
                                 .end_offset = offset + 1,
                                 .timestamp = timestamp,
                                 .written = 1,
                                 .rests_on = -1};
    return OL_OK;
}

int ol_partition_write_marker(ol_partition *partition, int64_t producer_id, int16_t producer_epoch,
                              ol_control type, int32_t coordinator_epoch, ol_commit_result *result,
                              ol_error *error) {
    uint8_t *start;
    int status = ol_partition_append_marker(partition, producer_id, producer_epoch, type,
                                            coordinator_epoch, &start, result, error);
    if (status == OL_OK) apply_marker(partition, start, producer_id, type);
    return status;
}

bool ol_partition_transaction_at(ol_partition *partition, size_t index,
                                 ol_log_transaction *transaction) {
    pthread_mutex_lock(&partition->writer);
    bool there = ol_log_open_transaction_at(partition->log, index, transaction);
    pthread_mutex_unlock(&partition->writer);
    return there;
}

int ol_partition_check_producer(ol_partition *partition, int64_t producer_id,
                                int16_t producer_epoch, ol_error *error) {
    if (producer_id < 0 || producer_id >= OL_OWN_PRODUCER_ID_MIN) {
        return ol_fail(error, OL_TRANSACTION,
                       "producer id %lld is negative or in the range that offsetlog reserves for "
                       "itself",
                       (long long)producer_id);
    }
    ol_log_transaction transaction;
    int16_t known_epoch;
    int32_t coordinator_epoch;
    int status = OL_OK;
    pthread_mutex_lock(&partition->writer);
    if (ol_log_find_transaction(partition->log, producer_id, &transaction)) {
        status = ol_fail(error, OL_TRANSACTION,
                         "producer id %lld has an open transaction since log offset %lld",
                         (long long)producer_id, (long long)transaction.first_offset);
    } else if (ol_log_producer(partition->log, producer_id, &known_epoch, &coordinator_epoch) &&
               producer_epoch < known_epoch) {
        status =
            ol_fail(error, OL_FENCED, "producer epoch %d is older than %d, the newest in the log",
                    producer_epoch, known_epoch);
    }
    pthread_mutex_unlock(&partition->writer);
    return status;
}

static int end_transaction_locked(ol_partition *partition, int64_t producer_id,
                                  int16_t producer_epoch, ol_control type,
                                  int32_t coordinator_epoch, ol_commit_result *result,
                                  ol_error *error) {
    int status = ol_partition_check_writable(partition, true, error);
    if (status != OL_OK) return status;
    ol_log_transaction transaction;
    if (!ol_log_find_transaction(partition->log, producer_id, &transaction)) {
        return ol_fail(error, OL_TRANSACTION, "producer id %lld has no open transaction",
                       (long long)producer_id);
    }
    if (producer_epoch >= 0 && producer_epoch < transaction.producer_epoch) {
        return ol_fail(error, OL_FENCED,
                       "producer epoch %d is older than %d, the epoch of the open transaction",
                       producer_epoch, transaction.producer_epoch);
    }
    status = ol_partition_ensure_ready(partition, error);
    if (status != OL_OK) return status;
    return ol_partition_write_marker(partition, producer_id, producer_epoch, type,
                                     coordinator_epoch, result, error);
}

int ol_partition_end_transaction(ol_partition *partition, int64_t producer_id,
                                 int16_t producer_epoch, ol_control type, int32_t coordinator_epoch,
                                 ol_commit_result *result, ol_error *error) {
    OL_ASSERT(type == OL_CONTROL_COMMIT || type == OL_CONTROL_ABORT);
    pthread_mutex_lock(&partition->writer);
    int status = end_transaction_locked(partition, producer_id, producer_epoch, type,
                                        coordinator_epoch, result, error);
    result->term = partition->term;
    pthread_mutex_unlock(&partition->writer);
    return status;
}
