#include "log/batch_walk.h"

#include <string.h>

#include "base/bytes.h"

enum { PIECE_BYTES = 512 << 10 };       /* stays in the cache between checking and decoding */

int ol_batch_walk_open(ol_batch_walk *walk, ol_log *log, int64_t from, int64_t until, bool checks_crc, ol_error *error) {
    memset(walk, 0, sizeof *walk);
    walk->log = log;
    walk->next_offset = from;
    walk->until = until;
    walk->segment_base = -1;
    walk->checks_crc = checks_crc;
    /* What a truncation took meanwhile is not there to be read. */
    int64_t end = ol_log_end(log);
    return ol_log_reader_open(log, from < end ? from : end, &walk->reader, error);
}

void ol_batch_walk_close(ol_batch_walk *walk) {
    ol_log_reader_close(walk->reader);
    walk->reader = NULL;
}

/* Goes on behind bytes that cannot be read. */
static int pass_over(ol_batch_walk *walk, int64_t file_position, ol_error *error) {
    bool is_end = false;
    int status = ol_log_reader_skip(walk->reader, file_position, &is_end, error);
    if (status != OL_OK) return status;
    walk->passed_over++;
    walk->piece.size = walk->position = 0;
    /* In somebody else's file nothing behind counts; in ours nothing is behind. */
    if (is_end) walk->ended = true;
    return OL_OK;
}

static int64_t segment_limit(ol_batch_walk *walk) {
    if (walk->segment_base == walk->piece.segment_base) return walk->segment_limit;
    ol_log_segment_info info;
    walk->segment_base = walk->piece.segment_base;
    walk->segment_limit = INT64_MAX;
    for (size_t i = 0; ol_log_segment_at(walk->log, i, &info); i++) {
        if (info.base_offset <= walk->segment_base) continue;
        walk->segment_limit = info.base_offset;
        break;
    }
    return walk->segment_limit;
}

/* Whether the batch behind this one, in the same piece, begins below where this one ends although it fits what came before. */
static bool is_above_successor(const ol_batch_walk *walk, const ol_batch *batch) {
    const uint8_t *behind = batch->data + batch->size;
    size_t left = walk->piece.size - (size_t)(behind - walk->piece.data);
    if (left < sizeof(int64_t)) return false;
    int64_t successor = ol_load_i64(behind + OL_BATCH_AT_BASE_OFFSET);
    return successor >= walk->next_offset && successor <= batch->last_offset;
}

/* No CRC covers the offsets. */
static int check_offsets(ol_batch_walk *walk, const ol_batch *batch, ol_error *error) {
    bool wrong = batch->last_offset >= segment_limit(walk) || batch->last_offset == INT64_MAX ||
                 batch->last_offset - walk->piece.segment_base > INT32_MAX;
    if (batch->base_offset > walk->next_offset && batch->magic == 2) wrong = wrong || is_above_successor(walk, batch);
    if (batch->base_offset < walk->next_offset) wrong = wrong || walk->begun;
    return wrong ? ol_fail(error, OL_CORRUPT, "the offsets of the batch at %lld do not fit", (long long)batch->base_offset) : OL_OK;
}

/* Takes the next batch of the piece. */
static int take(ol_batch_walk *walk, ol_batch *batch, ol_error *error) {
    int status = ol_batch_parse(walk->piece.data + walk->position, walk->piece.size - walk->position, batch, error);
    if (OL_LIKELY(status == OL_OK) && walk->checks_crc) status = ol_batch_check_crc(batch, error);
    if (OL_UNLIKELY(status != OL_OK)) return status;
    walk->last_position = walk->position;
    /* Found again by offset in a segment that was cleaned meanwhile, a piece may begin with what was given before. */
    if (batch->last_offset < walk->next_offset) return OL_OK;
    return check_offsets(walk, batch, error);
}

/* A bad batch: in a file that somebody else writes to the bytes may be right by now. */
static int meet_damage(ol_batch_walk *walk, ol_error *error) {
    int64_t file_position = walk->piece.position + (int64_t)walk->position;
    if (!ol_log_is_writable(walk->log)) {
        int status = ol_log_reader_retry(walk->reader, file_position, &walk->piece, error);
        if (status == OL_OK) walk->position = 0;
        if (status != OL_END) return status;
    }
    return pass_over(walk, file_position, error);
}

int ol_batch_walk_refuse(ol_batch_walk *walk, ol_error *error) {
    walk->next_offset = walk->previous_offset;
    return pass_over(walk, walk->piece.position + (int64_t)walk->last_position, error);
}

static int next_piece(ol_batch_walk *walk, ol_error *error) {
    int status = ol_log_reader_next(walk->reader, PIECE_BYTES, &walk->piece, error);
    walk->position = 0;
    if (status == OL_OK) return OL_OK;
    walk->piece.size = 0;
    if (status != OL_CORRUPT) return status;
    return pass_over(walk, error->position, error);
}

/* Whether a batch lies behind what was asked for. */
static bool is_behind(const ol_batch_walk *walk, const ol_batch *batch) {
    bool is_set = batch->magic < 2 && ol_batch_codec(batch) != OL_CODEC_NONE;
    return batch->base_offset >= walk->until && !is_set;
}

int ol_batch_walk_next(ol_batch_walk *walk, ol_batch *batch, ol_error *error) {
    while (!walk->ended && walk->next_offset < walk->until) {
        int status = OL_OK;
        if (walk->position >= walk->piece.size) {
            status = next_piece(walk, error);
            if (status != OL_OK) return status;
            continue;
        }
        status = take(walk, batch, error);
        if (OL_UNLIKELY(status != OL_OK)) {
            status = meet_damage(walk, error);
            if (status != OL_OK) return status;
            continue;
        }
        if (is_behind(walk, batch)) break;
        walk->position += batch->size;
        if (batch->last_offset < walk->next_offset) continue;
        walk->previous_offset = walk->next_offset;
        walk->next_offset = batch->last_offset + 1;
        walk->begun = true;
        return OL_OK;
    }
    walk->ended = true;
    return OL_END;
}
