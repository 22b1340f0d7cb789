/* fault_memory: one counter before libc's allocations. */
#include "fault_memory.h"

#include <errno.h>
#include <stdatomic.h>

static _Atomic int64_t calls, failing;
static _Atomic bool paused;

void fault_memory_at(int64_t at) {
    atomic_store(&calls, 0);
    atomic_store(&failing, at);
}

int64_t fault_memory_calls(void) { return atomic_load(&calls); }

void fault_memory_pause(bool is_paused) { atomic_store(&paused, is_paused); }

static bool fails(void) {
    if (atomic_load(&paused)) return false;
    if (atomic_fetch_add(&calls, 1) + 1 != atomic_load(&failing)) return false;
    errno = ENOMEM;
    return true;
}

void *fault_malloc(size_t size) { return fails() ? NULL : malloc(size); }

void *fault_calloc(size_t count, size_t size) { return fails() ? NULL : calloc(count, size); }

void *fault_realloc(void *memory, size_t size) { return fails() ? NULL : realloc(memory, size); }

void *fault_aligned_alloc(size_t alignment, size_t size) { return fails() ? NULL : aligned_alloc(alignment, size); }

char *fault_strdup(const char *string) { return fails() ? NULL : strdup(string); }

char *fault_strndup(const char *string, size_t size) { return fails() ? NULL : strndup(string, size); }

void *fault_mmap(void *address, size_t size, int protection, int flags, int descriptor, off_t offset) {
    return fails() ? MAP_FAILED : mmap(address, size, protection, flags, descriptor, offset);
}

void *fault_mremap(void *memory, size_t size, size_t new_size, int flags, void *address) {
    return fails() ? MAP_FAILED : mremap(memory, size, new_size, flags, address);
}
