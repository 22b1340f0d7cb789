/* base/pages.c: anonymous mappings. */
#include "base/pages.h"

#include <sys/mman.h>

void *ol_pages_allocate(size_t size) {
    OL_ASSERT(size > 0);
    void *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return memory == MAP_FAILED ? NULL : memory;
}

void ol_pages_free(void *memory, size_t size) {
    if (memory != NULL) munmap(memory, size);
}
