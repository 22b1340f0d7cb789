/* stored_codec: a decompressor for tests, whose compressed form is 'S' and the bytes themselves.  It hands out memory of exactly
 * the size of the content, so that a sanitizer sees a read past it, and counts unreturned memory. */
#ifndef OL_TEST_STORED_CODEC_H
#define OL_TEST_STORED_CODEC_H

#include <stdlib.h>
#include <string.h>

#include "format/batch.h"

typedef struct stored_codec {
    int held;               /* outputs that were not released */
    ol_codec last_codec;
    int last_magic;
} stored_codec;

OL_UNUSED static int stored_decompress(void *context, ol_codec codec, int magic, ol_slice input, size_t limit, ol_slice *output,
                                       ol_error *error) {
    stored_codec *stored = context;
    if (input.size < 1 || input.data[0] != 'S') return ol_fail(error, OL_CORRUPT, "not a stored block");
    if (input.size - 1 > limit) return ol_fail(error, OL_LIMIT, "a stored block over the limit");
    uint8_t *copy = malloc(input.size - 1 ? input.size - 1 : 1);
    memcpy(copy, input.data + 1, input.size - 1);
    *output = ol_slice_of(copy, input.size - 1);
    stored->held++;
    stored->last_codec = codec;
    stored->last_magic = magic;
    return OL_OK;
}

OL_UNUSED static void stored_release(void *context, ol_slice output) {
    stored_codec *stored = context;
    stored->held--;
    free((void *)(uintptr_t)output.data);
}

OL_UNUSED static ol_decompressor stored_port(stored_codec *stored) {
    memset(stored, 0, sizeof *stored);
    return (ol_decompressor){stored_decompress, stored_release, stored, OL_DECOMPRESSED_LIMIT_DEFAULT};
}

#endif
