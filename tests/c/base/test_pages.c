/* Buffers of pages of their own: zeroed, of any size, and given back. */
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>

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

static size_t resident(uint8_t *memory, size_t size) {
    unsigned char pages[1024];
    size_t count = 0;
    OL_CHECK(size / 4096 <= sizeof pages && mincore(memory, size, pages) == 0);
    for (size_t i = 0; i < size / 4096; i++) count += pages[i] & 1;
    return count;
}

OL_TEST(reserved_pages_cost_what_is_in_use) {
    size_t size = (size_t)1 << 36, used = 4 << 20;
    uint8_t *memory = ol_pages_reserve(size);
    OL_CHECK(memory != NULL);
    OL_CHECK_INT(resident(memory, used), 0);
    memory[5000] = 1;
    OL_CHECK_INT(resident(memory, used), 1);
    memset(memory, 1, used);
    OL_CHECK_INT(resident(memory, used), 1024);
    OL_CHECK_INT(ol_pages_give_back(memory, 4095), 0);
    OL_CHECK_INT(ol_pages_give_back(memory, used - 1), used - 4096);
    OL_CHECK_INT(resident(memory, used), 1);
    OL_CHECK_INT(memory[0], 0);
    OL_CHECK_INT(memory[used - 1], 1);
    ol_pages_free(memory, size);
}

OL_TEST(freeing_nothing_is_fine) { ol_pages_free(NULL, 4096); }

OL_TEST(more_than_there_is_gives_null) { OL_CHECK(ol_pages_allocate(SIZE_MAX / 4) == NULL); }

OL_TEST_MAIN()
