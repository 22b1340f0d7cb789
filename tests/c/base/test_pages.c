/* Buffers of pages of their own: zeroed, of any size, and given back. */
#include <stdint.h>
#include <string.h>

#include "base/pages.h"
#include "ol_test.h"

OL_TEST(pages_are_zeroed_and_hold_the_requested_size) {
    static const size_t sizes[] = {1, 4095, 4096, 4097, 1 << 20, (4 << 20) + 1};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        uint8_t *memory = ol_pages_allocate(sizes[i]);
        OL_CHECK(memory != NULL);
        for (size_t at = 0; at < sizes[i]; at++) OL_CHECK_INT(memory[at], 0);
        memset(memory, 0xa5, sizes[i]);
        ol_pages_free(memory, sizes[i]);
    }
}

OL_TEST(freeing_nothing_is_fine) { ol_pages_free(NULL, 4096); }

OL_TEST(more_than_there_is_gives_null) { OL_CHECK(ol_pages_allocate(SIZE_MAX / 4) == NULL); }

OL_TEST_MAIN()
