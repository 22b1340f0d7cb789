/* Any bytes as a checkpoint, a snapshot, an index, a name or partition.metadata: the first byte says as which (fuzz_small_formats.h). */
#include "fuzz_small_formats.h"

#include "fuzz.h"
#include "base/bytes.h"
#include "base/crc32c.h"

enum { SNAPSHOT_FORMAT = 2, SNAPSHOT_BYTES_MIN = 6 };

/* 00, 01: checkpoints of offsets and epochs; 02: a producer snapshot; 03: a transaction index; 04, 05: indexes; 06: names; 07: partition.metadata */
static const char *const seeds[] = {
    "00300a320a5f5f636f6e73756d65725f6f666673657473203020313034320a5f5f636f6e73756d65725f6f66667365747320313220370a",
    "01300a330a3020300a322031370a3920313034320a",
    "02000124de42bf000000010000000000000fa00002000000000000000000000067000000000000018bcfe56800ffffffff0000000000000067",
    "0300000000000000000fa000000000000000670000000000000069000000000000006a"
    "00000000000000000fa0000000000000006b000000000000006d000000000000006e",
    "0400000034000013880000004000002388000000500000338800000000000000000000000000000000",
    "050000018bcfe56800000000310000018bcfe5680100000034000000000000000000000000",
    "065f5f636f6e73756d65725f6f6666736574732d3439",
    "0630303030303030303030303030303030303132332e6c6f672e73776170",
    "0776657273696f6e3a20300a746f7069635f69643a204b5a306d6863723852325359576f5771694b4a447141",
    NULL,
};

const char *const *ol_fuzz_seeds(void) { return seeds; }

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    ol_fuzz_small_formats(data, size);
    if (size <= SNAPSHOT_BYTES_MIN + 1 || data[0] % OL_FUZZ_SMALL_FORMAT_COUNT != SNAPSHOT_FORMAT) return 0;
    /* With its CRC right, so that the code after it is reached. */
    uint8_t *input = malloc(size);
    OL_ASSERT(input != NULL);
    memcpy(input, data, size);
    ol_store_u32(input + 3, ol_crc32c(input + 7, size - 7));
    ol_fuzz_small_formats(input, size);
    free(input);
    return 0;
}
