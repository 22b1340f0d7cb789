/* base/pages.c: anonymous mappings. */
#include "base/pages.h"

#include <sys/mman.h>
#include <unistd.h>

void *ol_pages_allocate(size_t size) {
    OL_ASSERT(size > 0);
    void *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return memory == MAP_FAILED ? NULL : memory;
}

void *ol_pages_reserve(size_t size) {
    OL_ASSERT(size > 0);
    void *memory = mmap(NULL, size, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) return NULL;
    /* With huge pages, a store of a hundred bytes could make the kernel zero 2 MiB. */
    (void)madvise(memory, size, MADV_NOHUGEPAGE);
    if (madvise(memory, size, MADV_DONTFORK) == 0) return memory;
    munmap(memory, size);
    return NULL;
}

size_t ol_pages_give_back(void *memory, size_t size) {
    size -= size % (size_t)sysconf(_SC_PAGESIZE);
    if (size > 0) (void)madvise(memory, size, MADV_DONTNEED);
    return size;
}

void ol_pages_free(void *memory, size_t size) {
    if (memory != NULL) munmap(memory, size);
}
