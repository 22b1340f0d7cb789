/* Reads and writes the two slots of the sidecar, and reads the `ol.flushed` header of a batch. */
#include "log/files/flush_sidecar.h"

#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/crc32c.h"

enum {
    AT_MAGIC = 0,
    AT_VERSION = 4,
    AT_SEQUENCE = 8,
    AT_OFFSET = 16,
    AT_SEGMENT_BASE = 24,
    AT_POSITION = 32,
    AT_LEADER_EPOCH = 40,
    AT_CRC = 60,
    VERSION = 1,
};
#define FLUSHED_MAGIC 0x4f4c4642u       /* "OLFB" */
/* Each store increments the sequence, so this limit is never reached. */
#define SEQUENCE_MAX (INT64_MAX / 2)

static void encode_slot(uint8_t bytes[OL_FLUSH_SIDECAR_SLOT_SIZE], int64_t sequence,
                        const ol_flush_sidecar_bound *bound) {
    memset(bytes, 0, OL_FLUSH_SIDECAR_SLOT_SIZE);
    ol_store_u32(bytes + AT_MAGIC, FLUSHED_MAGIC);
    ol_store_u16(bytes + AT_VERSION, VERSION);
    ol_store_i64(bytes + AT_SEQUENCE, sequence);
    ol_store_i64(bytes + AT_OFFSET, bound->offset);
    ol_store_i64(bytes + AT_SEGMENT_BASE, bound->segment_base);
    ol_store_i64(bytes + AT_POSITION, bound->position);
    ol_store_i32(bytes + AT_LEADER_EPOCH, bound->leader_epoch);
    ol_store_u32(bytes + AT_CRC, ol_crc32c(bytes, AT_CRC));
}

static bool decode_slot(const uint8_t *slot, int64_t *sequence, ol_flush_sidecar_bound *bound) {
    if (ol_load_u32(slot + AT_MAGIC) != FLUSHED_MAGIC ||
        ol_load_u16(slot + AT_VERSION) != VERSION) {
        return false;
    }
    if (ol_load_u32(slot + AT_CRC) != ol_crc32c(slot, AT_CRC)) return false;
    *sequence = ol_load_i64(slot + AT_SEQUENCE);
    bound->offset = ol_load_i64(slot + AT_OFFSET);
    bound->segment_base = ol_load_i64(slot + AT_SEGMENT_BASE);
    bound->position = ol_load_i64(slot + AT_POSITION);
    bound->leader_epoch = ol_load_i32(slot + AT_LEADER_EPOCH);
    bool is_counted = *sequence > 0 && *sequence <= SEQUENCE_MAX;
    return is_counted && bound->offset >= 0 && bound->segment_base >= 0 && bound->position >= 0;
}

/* Decodes the newer of two slots; false when neither is whole. */
static bool decode(const uint8_t *data, int64_t *sequence, ol_flush_sidecar_found *found) {
    int whole = 0;
    for (int i = 0; i < 2; i++) {
        int64_t slot_sequence;
        ol_flush_sidecar_bound slot;
        if (!decode_slot(data + i * OL_FLUSH_SIDECAR_SLOT_SIZE, &slot_sequence, &slot)) continue;
        whole++;
        if (whole == 2 && slot_sequence <= *sequence) continue;
        *sequence = slot_sequence;
        found->bound = slot;
    }
    found->is_half = whole == 1;
    return whole > 0;
}

int ol_flush_sidecar_load(ol_fs *fs, const char *path, ol_flush_sidecar_found *found,
                          ol_error *error) {
    uint8_t *data = NULL;
    size_t size = 0;
    int status = ol_fs_read_file(fs, path, OL_FLUSH_SIDECAR_FILE_SIZE, &data, &size, error);
    if (status == OL_LIMIT) {
        (void)ol_fail(error, OL_CORRUPT, "the file is too large for a record of the flushed bound");
        return ol_error_at(error, path, -1);
    }
    if (status != OL_OK) return status;
    int64_t sequence;
    if (size != OL_FLUSH_SIDECAR_FILE_SIZE || !decode(data, &sequence, found)) {
        (void)ol_fail(error, OL_CORRUPT, "neither slot of the flushed bound is intact");
        status = ol_error_at(error, path, 0);
    }
    free(data);
    return status;
}

/* Reads the sequence of an existing file, to continue it. */
static int read_sequence(ol_fs *fs, ol_file *file, int64_t *sequence, ol_error *error) {
    uint8_t data[OL_FLUSH_SIDECAR_FILE_SIZE];
    size_t got = 0;
    ol_flush_sidecar_found ignored;
    int status = fs->read(file, 0, data, sizeof data, &got, error);
    if (status != OL_OK) return status;
    if (got != sizeof data || !decode(data, sequence, &ignored)) *sequence = 0;
    return OL_OK;
}

int ol_flush_sidecar_open(ol_flush_sidecar *flushed, ol_fs *fs, const char *path, ol_error *error) {
    ol_file *file = NULL;
    int64_t size = -1, sequence = 0;
    int status = fs->open(fs, path, OL_OPEN_CREATE, &file, error);
    if (status != OL_OK) return status;
    status = fs->size(file, &size, error);
    if (status == OL_OK && size > OL_FLUSH_SIDECAR_FILE_SIZE) {
        status = fs->truncate(file, 0, error);
        size = 0;
    }
    if (status == OL_OK && size < OL_FLUSH_SIDECAR_FILE_SIZE) {
        status = fs->extend(file, size, OL_FLUSH_SIDECAR_FILE_SIZE, OL_GROW_WRITTEN, error);
    }
    if (status == OL_OK) status = read_sequence(fs, file, &sequence, error);
    if (status != OL_OK) {
        fs->close(file);
        /* A file without a slot would count as damaged. */
        ol_error removal;
        int removed = size == 0 ? fs->remove(fs, path, &removal) : OL_OK;
        (void)removed;
        return status;
    }
    *flushed = (ol_flush_sidecar){.fs = fs, .file = file, .sequence = sequence};
    return OL_OK;
}

void ol_flush_sidecar_close(ol_flush_sidecar *flushed) {
    if (flushed->file != NULL) flushed->fs->close(flushed->file);
    flushed->file = NULL;
}

int ol_flush_sidecar_store(ol_flush_sidecar *flushed, const ol_flush_sidecar_bound *bound,
                           ol_error *error) {
    uint8_t slot[OL_FLUSH_SIDECAR_SLOT_SIZE];
    int64_t sequence = flushed->sequence + 1;
    int64_t at = (sequence & 1) * OL_FLUSH_SIDECAR_SLOT_SIZE;
    encode_slot(slot, sequence, bound);
    int status = flushed->fs->write(flushed->file, at, slot, sizeof slot, error);
    /* After a failure the next attempt writes the same slot again: the other one is intact. */
    if (status == OL_OK) flushed->sequence = sequence;
    return status;
}

int ol_flush_sidecar_lower(ol_flush_sidecar *flushed, const ol_flush_sidecar_bound *bound,
                           ol_error *error) {
    int status = ol_flush_sidecar_store(flushed, bound, error);
    if (status == OL_OK) status = ol_flush_sidecar_store(flushed, bound, error);
    if (status == OL_OK) status = flushed->fs->flush(flushed->file, error);
    return status;
}

int64_t ol_flush_sidecar_record(const ol_batch *batch) {
    static const char key_text[] = "ol.flushed";
    ol_records records;
    ol_record record;
    ol_error ignored;
    int64_t found = -1;
    if (batch->magic < 2 || ol_batch_codec(batch) != OL_CODEC_NONE || batch->record_count == 0) {
        return -1;
    }
    if (ol_records_open(&records, batch, NULL, &ignored) != OL_OK) return -1;
    if (ol_records_next(&records, &record, &ignored) == OL_OK && record.header_count > 0) {
        const uint8_t *cursor = record.headers.data;
        const uint8_t *limit = cursor + record.headers.size;
        ol_slice key, value;
        while (ol_record_header_next(&cursor, limit, &key, &value, &ignored) == OL_OK) {
            bool is_note = ol_slice_equal(key, ol_slice_of(key_text, sizeof key_text - 1));
            if (is_note && value.data != NULL && value.size == 8) found = ol_load_i64(value.data);
        }
    }
    ol_records_close(&records);
    /* A header states the flushed bound before its batch; anything else is not ours. */
    return found <= batch->base_offset ? found : -1;
}
