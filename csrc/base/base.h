/* base/base: included by every other header: integer types, assertions, compiler hints.
 *
 * Assertions (OL_ASSERT) check invariants of our own code.  They never check the input.  They stay
 * on in every build, because a store that continues after a broken invariant writes wrong bytes.
 * Checks that cost more than O(1) use OL_VERIFY, which only the test builds switch on.
 */
#ifndef OL_BASE_BASE_H
#define OL_BASE_BASE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#if !defined(__linux__)
#error "offsetlog needs Linux: open file description locks, mremap, MADV_DONTFORK"
#endif

#define OL_LIKELY(condition) __builtin_expect(!!(condition), 1)
#define OL_UNLIKELY(condition) __builtin_expect(!!(condition), 0)
#define OL_PRINTF(format_index, first_argument) \
    __attribute__((format(printf, format_index, first_argument)))
#define OL_NODISCARD __attribute__((warn_unused_result))
#define OL_NOINLINE __attribute__((noinline))
#define OL_UNUSED __attribute__((unused))

_Noreturn void ol_assert_failed(const char *condition, const char *file, int line);

#define OL_ASSERT(condition) \
    do { \
        if (OL_UNLIKELY(!(condition))) ol_assert_failed(#condition, __FILE__, __LINE__); \
    } while (0)

#ifdef OL_ENABLE_VERIFY
#define OL_VERIFY(condition) OL_ASSERT(condition)
#else
#define OL_VERIFY(condition) ((void)0)
#endif

/* A run of bytes that belong to someone else.  If `data` is NULL, the slice is a null value, which
 * Kafka writes as the length -1.  A null value is not the same as a run of length 0. */
typedef struct ol_slice {
    const uint8_t *data;
    size_t size;
} ol_slice;

static inline ol_slice ol_slice_of(const void *data, size_t size) {
    return (ol_slice){(const uint8_t *)data, size};
}

static inline ol_slice ol_slice_null(void) {
    return (ol_slice){NULL, 0};
}

#endif
