/* Finds records by time.  The log finds the batch, and the functions here find the record in it. */
#include "log/offset_for_time.h"
#include "topic/topic_log.h"

static int find_record(const ol_batch *batch, const ol_decompressor *decompressor,
                       int64_t from_time, ol_timed_record *found, ol_error *error) {
    ol_records records;
    ol_record record;
    int status = ol_records_open(&records, batch, decompressor, error);
    if (status != OL_OK) return status;
    while ((status = ol_records_next(&records, &record, error)) == OL_OK) {
        if (record.timestamp < from_time) continue;
        *found = (ol_timed_record){record.offset, record.timestamp, batch->leader_epoch};
        break;
    }
    ol_records_close(&records);
    return status == OL_END ? OL_OK : status;
}

/* Finds the first record of that time or later in the batches from `offset` on.  If a cleaner
 * removed records, a header may name a greater timestamp than the remaining ones have; the search
 * then continues with the next batch. */
static int walk_from(ol_log *log, const ol_decompressor *decompressor, int64_t from_time,
                     int64_t offset, int64_t until, ol_timed_record *found, ol_error *error) {
    enum { PIECE_BYTES = 1 << 20 };
    ol_log_reader *reader;
    ol_log_piece piece;
    int status = ol_log_reader_open(log, offset, &reader, error);
    if (status != OL_OK) return status;
    while (found->offset < 0 && ol_log_reader_offset(reader) < until) {
        status = ol_log_reader_next(reader, PIECE_BYTES, &piece, error);
        if (status != OL_OK) break;
        for (size_t at = 0; status == OL_OK && at < piece.size && found->offset < 0;) {
            ol_batch batch;
            status = ol_batch_parse(piece.data + at, piece.size - at, &batch, error);
            if (status != OL_OK) break;
            at += batch.size;
            if (batch.max_timestamp < from_time || ol_batch_is_control(&batch)) continue;
            status = find_record(&batch, decompressor, from_time, found, error);
        }
        if (status != OL_OK) break;
    }
    ol_log_reader_close(reader);
    return status == OL_END ? OL_OK : status;
}

int ol_topic_log_find_time(ol_log *log, const ol_decompressor *decompressor, int64_t from_time,
                           int64_t until, ol_timed_record *found, ol_error *error) {
    int64_t offset;
    *found = (ol_timed_record){.offset = -1, .timestamp = -1, .leader_epoch = -1};
    /* The prefix in which everything is older ends where the first record that is not older
     * begins. */
    int64_t before = from_time == INT64_MIN ? INT64_MIN : from_time - 1;
    int status = ol_log_offset_for_time(log, before, until, &offset, error);
    if (status != OL_OK || offset >= until) return status;
    status = walk_from(log, decompressor, from_time, offset, until, found, error);
    if (found->offset >= until) *found = (ol_timed_record){-1, -1, -1};
    return status;
}

/* Finds the greatest time of a batch, 0 if there is none.  Each step halves the range of times, and
 * with the time indexes hardly any of the log is read. */
static int find_greatest_time(ol_log *log, int64_t until, int64_t *greatest, ol_error *error) {
    int64_t low = 0, high = INT64_MAX;
    int64_t offset;
    while (low < high) {
        int64_t middle = low + (high - low) / 2;
        int status = ol_log_offset_for_time(log, middle, until, &offset, error);
        if (status != OL_OK) return status;
        if (offset < until) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    *greatest = low;
    return OL_OK;
}

int ol_topic_log_find_newest(ol_log *log, const ol_decompressor *decompressor, int64_t until,
                             ol_timed_record *found, ol_error *error) {
    int64_t greatest;
    *found = (ol_timed_record){.offset = -1, .timestamp = -1, .leader_epoch = -1};
    int status = find_greatest_time(log, until, &greatest, error);
    if (status != OL_OK) return status;
    return ol_topic_log_find_time(log, decompressor, greatest, until, found, error);
}
