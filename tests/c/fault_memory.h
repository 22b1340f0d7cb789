/* fault_memory: the engine's allocations are counted, and one of them finds no memory.
 *
 * The Makefile has every source of csrc but tools see this header first, so that their calls of malloc and its like come through
 * here; those of libc, of the test and of its tools do not.
 *
 * Thread-safe.  The memory is libc's, and is freed as such. */
#ifndef FAULT_MEMORY_H
#define FAULT_MEMORY_H

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/types.h>

/* The at-th allocation from now on, counted from 1, fails with ENOMEM, and no other; 0: none. */
void fault_memory_at(int64_t at);
/* How many there were since the last call of fault_memory_at. */
int64_t fault_memory_calls(void);
/* While it is paused nothing is counted and nothing fails: for what a test asks the engine itself. */
void fault_memory_pause(bool is_paused);

void *fault_malloc(size_t size);
void *fault_calloc(size_t count, size_t size);
void *fault_realloc(void *memory, size_t size);
void *fault_aligned_alloc(size_t alignment, size_t size);
char *fault_strdup(const char *string);
char *fault_strndup(const char *string, size_t size);
void *fault_mmap(void *address, size_t size, int protection, int flags, int descriptor, off_t offset);
void *fault_mremap(void *memory, size_t size, size_t new_size, int flags, void *address);

#ifdef FAULT_MEMORY_REPLACES_LIBC
#undef strdup
#undef strndup
#define malloc(size) fault_malloc(size)
#define calloc(count, size) fault_calloc(count, size)
#define realloc(memory, size) fault_realloc(memory, size)
#define aligned_alloc(alignment, size) fault_aligned_alloc(alignment, size)
#define strdup(string) fault_strdup(string)
#define strndup(string, size) fault_strndup(string, size)
#define mmap(address, size, protection, flags, descriptor, offset) \
    fault_mmap(address, size, protection, flags, descriptor, offset)
/* The address is there with MREMAP_FIXED alone. */
#define FAULT_MREMAP(memory, size, new_size, flags, address, ...) fault_mremap(memory, size, new_size, flags, address)
#define mremap(...) FAULT_MREMAP(__VA_ARGS__, NULL, NULL)
#endif

#endif
