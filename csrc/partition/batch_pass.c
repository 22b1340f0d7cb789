/* Visits the batches of a part of the log: those that a leader still has in memory
 * (partition/unapplied), or those in the log's files. */
#include "partition/partition_impl.h"

enum { REPLAY_PIECE_BYTES = 1 << 20 };

typedef struct pass {
    ol_partition *partition;
    int64_t from;
    int64_t to;
    ol_batch_function function;
    void *context;
} pass;

/* Visits the batches of one piece; `piece` says where the bytes come from in a file, NULL for bytes
 * of our own.  OL_END: a batch reaches `to`, or the function wants no more. */
static int pass_piece(const pass *all, ol_slice bytes, const ol_log_piece *piece,
                      ol_error *error) {
    for (size_t position = 0; position < bytes.size;) {
        ol_batch batch;
        int status = ol_batch_parse(bytes.data + position, bytes.size - position, &batch, error);
        if (status == OL_OK && piece != NULL) status = ol_batch_check_crc(&batch, error);
        if (status != OL_OK) {
            OL_ASSERT(piece != NULL);
            return ol_error_at(error, piece->path, piece->position + (int64_t)position);
        }
        if (batch.last_offset >= all->to) return OL_END;
        if (batch.last_offset >= all->from) {
            status = all->function(all->partition, &batch, all->context, error);
            if (status != OL_OK) return status;
        }
        position += batch.size;
    }
    return OL_OK;
}

static int pass_files(const pass *all, ol_error *error) {
    ol_log_reader *reader;
    int status = ol_log_reader_open(all->partition->log, all->from, &reader, error);
    if (status != OL_OK) return status;
    while (status == OL_OK) {
        ol_log_piece piece;
        status = ol_log_reader_next(reader, REPLAY_PIECE_BYTES, &piece, error);
        if (status != OL_OK) break;
        status = pass_piece(all, ol_slice_of(piece.data, piece.size), &piece, error);
    }
    ol_log_reader_close(reader);
    return status;
}

int ol_partition_for_each_batch(ol_partition *partition, int64_t from, int64_t to,
                                ol_batch_function function, void *context, ol_error *error) {
    if (from >= to) return OL_OK;
    const pass all = {partition, from, to, function, context};
    ol_slice kept = ol_unapplied_find(&partition->unapplied, from, to);
    int status = kept.size > 0 ? pass_piece(&all, kept, NULL, error) : pass_files(&all, error);
    return status == OL_END ? OL_OK : status;
}

int ol_partition_for_each_stored_batch(ol_partition *partition, int64_t from, int64_t to,
                                       ol_batch_function function, void *context,
                                       ol_error *error) {
    if (from >= to) return OL_OK;
    const pass all = {partition, from, to, function, context};
    int status = pass_files(&all, error);
    return status == OL_END ? OL_OK : status;
}
