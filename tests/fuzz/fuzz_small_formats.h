/* One entry for fuzzers over the parsers of the small files: the first byte of the input chooses the format, the rest is the
 * file.  A file that parses must come out again as the same state.  Works with any driver that calls it with bytes; the
 * input is copied, so that a sanitizer sees any read past its end. */
#ifndef OL_FUZZ_SMALL_FORMATS_H
#define OL_FUZZ_SMALL_FORMATS_H

#include <stdlib.h>
#include <string.h>

#include "log/files/checkpoint.h"
#include "log/files/offset_index.h"
#include "log/files/leader_epochs.h"
#include "log/files/names.h"
#include "log/files/partition_metadata.h"
#include "log/files/producers.h"
#include "log/files/transaction_index.h"

enum { OL_FUZZ_SMALL_FORMAT_COUNT = 8 };

static void ol_fuzz_offset_checkpoint(ol_slice bytes) {
    ol_error error;
    ol_offset_checkpoint first = {0}, second = {0};
    char *text;
    size_t size;
    if (ol_offset_checkpoint_parse(&first, bytes, &error) == OL_OK) {
        OL_ASSERT(ol_offset_checkpoint_format(&first, &text, &size, &error) == OL_OK);
        OL_ASSERT(ol_offset_checkpoint_parse(&second, ol_slice_of(text, size), &error) == OL_OK);
        OL_ASSERT(first.count == second.count);
        for (size_t i = 0; i < first.count; i++) {
            OL_ASSERT(strcmp(first.entries[i].topic, second.entries[i].topic) == 0);
            OL_ASSERT(first.entries[i].partition == second.entries[i].partition);
            OL_ASSERT(first.entries[i].offset == second.entries[i].offset);
        }
        free(text);
    }
    ol_offset_checkpoint_free(&first);
    ol_offset_checkpoint_free(&second);
}

static void ol_fuzz_epoch_checkpoint(ol_slice bytes) {
    ol_error error;
    ol_leader_epoch *first, *second;
    size_t first_count, second_count, size;
    char *text;
    if (ol_epoch_checkpoint_parse(bytes, &first, &first_count, &error) != OL_OK) return;
    OL_ASSERT(ol_epoch_checkpoint_format(first, first_count, &text, &size, &error) == OL_OK);
    OL_ASSERT(ol_epoch_checkpoint_parse(ol_slice_of(text, size), &second, &second_count, &error) == OL_OK);
    OL_ASSERT(first_count == second_count);
    for (size_t i = 0; i < first_count; i++) {
        OL_ASSERT(first[i].epoch == second[i].epoch && first[i].start_offset == second[i].start_offset);
    }
    free(text);
    free(first);
    free(second);
}

static void ol_fuzz_snapshot(ol_slice bytes) {
    ol_error error;
    ol_producers first = {0}, second = {0};
    uint8_t *encoded, *again;
    size_t size, again_size;
    if (ol_producers_decode(&first, bytes, &error) == OL_OK) {
        OL_ASSERT(ol_producers_encode(&first, &encoded, &size, &error) == OL_OK);
        OL_ASSERT(size == bytes.size);
        OL_ASSERT(ol_producers_decode(&second, ol_slice_of(encoded, size), &error) == OL_OK);
        OL_ASSERT(ol_producers_encode(&second, &again, &again_size, &error) == OL_OK);
        OL_ASSERT(again_size == size && memcmp(encoded, again, size) == 0);
        free(encoded);
        free(again);
    }
    ol_producers_free(&first);
    ol_producers_free(&second);
}

static void ol_fuzz_transaction_index(ol_slice bytes) {
    ol_error error;
    size_t count = bytes.size / OL_TRANSACTION_INDEX_ENTRY_SIZE;
    ol_aborted_transaction *entries = malloc((count + 1) * sizeof *entries);
    OL_ASSERT(entries != NULL);
    if (ol_transaction_index_parse(bytes, 0, entries, &error) == OL_OK) {
        uint8_t encoded[OL_TRANSACTION_INDEX_ENTRY_SIZE];
        for (size_t i = 0; i < count; i++) {
            ol_transaction_index_encode(encoded, &entries[i]);
            OL_ASSERT(memcmp(encoded, bytes.data + i * sizeof encoded, sizeof encoded) == 0);
        }
    }
    free(entries);
}

static void ol_fuzz_names(ol_slice bytes) {
    ol_error error;
    ol_directory_name parsed;
    int64_t offset;
    const char *suffix;
    char *name = malloc(bytes.size + 1);
    OL_ASSERT(name != NULL);
    if (bytes.size > 0) memcpy(name, bytes.data, bytes.size);
    name[bytes.size] = '\0';
    if (ol_directory_name_parse(name, &parsed) && parsed.kind == OL_DIRECTORY_PARTITION) {
        char formatted[OL_NAME_SIZE_MAX + 1];
        OL_ASSERT(ol_directory_name_format(formatted, parsed.kind, parsed.topic, parsed.partition, NULL, &error) == OL_OK);
        OL_ASSERT(strcmp(formatted, name) == 0);
    }
    if (ol_file_name_parse(name, &offset, &suffix)) OL_ASSERT(offset >= 0 && suffix == name + OL_OFFSET_DIGITS);
    free(name);
}

static void ol_fuzz_metadata(ol_slice bytes) {
    ol_error error;
    ol_uuid first, second;
    char text[OL_PARTITION_METADATA_SIZE];
    if (ol_partition_metadata_parse(bytes, &first, &error) != OL_OK) return;
    ol_partition_metadata_format(&first, text);
    OL_ASSERT(ol_partition_metadata_parse(ol_slice_of(text, sizeof text), &second, &error) == OL_OK);
    OL_ASSERT(memcmp(&first, &second, sizeof first) == 0);
}

/* libFuzzer's form: always 0. */
static inline int ol_fuzz_small_formats(const uint8_t *data, size_t size) {
    ol_error error;
    if (size == 0) return 0;
    uint8_t *file = malloc(size == 1 ? 1 : size - 1);
    OL_ASSERT(file != NULL);
    memcpy(file, data + 1, size - 1);
    ol_slice bytes = ol_slice_of(file, size - 1);
    switch (data[0] % OL_FUZZ_SMALL_FORMAT_COUNT) {
        case 0: ol_fuzz_offset_checkpoint(bytes); break;
        case 1: ol_fuzz_epoch_checkpoint(bytes); break;
        case 2: ol_fuzz_snapshot(bytes); break;
        case 3: ol_fuzz_transaction_index(bytes); break;
        case 4: (void)!ol_index_check_bytes(OL_INDEX_OFFSET, bytes, 100, INT64_MAX, INT64_MAX, &error); break;
        case 5: (void)!ol_index_check_bytes(OL_INDEX_TIME, bytes, 100, INT64_MAX, INT64_MAX, &error); break;
        case 6: ol_fuzz_names(bytes); break;
        default: ol_fuzz_metadata(bytes); break;
    }
    free(file);
    return 0;
}

#endif
