/* ol_test: a table of named C tests with a seed; one executable per module under test.
 *
 *     OL_TEST(parses_the_golden_batch) { ... OL_CHECK(condition); OL_CHECK_INT(actual, expected); }
 *     OL_TEST_MAIN()
 *
 * Run without arguments: every test.  With a name: those whose name contains it.  OL_SEED=n sets the
 * seed (default 1), which is printed.  OFFSETLOG_DEPTH=long makes tests that draw go to full depth.
 * A failed check prints file, line and both values, and ends the process with a non-zero code, so
 * that sanitizer reports and core files point at the place.
 */
#ifndef OL_TEST_H
#define OL_TEST_H

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "base/status.h"

typedef struct ol_test_case {
    const char *name;
    void (*run)(void);
    struct ol_test_case *next;
} ol_test_case;

OL_UNUSED static ol_test_case *ol_test_first;
OL_UNUSED static uint64_t ol_test_seed = 1;

#define OL_TEST(test_name) \
    static void test_name(void); \
    static ol_test_case test_name##_case = {#test_name, test_name, NULL}; \
    __attribute__((constructor)) static void test_name##_register(void) { \
        ol_test_case **link = &ol_test_first; \
        while (*link != NULL) link = &(*link)->next; \
        *link = &test_name##_case; \
    } \
    static void test_name(void)

#define OL_CHECK(condition) \
    do { \
        if (!(condition)) { \
            fprintf(stderr, "%s:%d: failed: %s\n", __FILE__, __LINE__, #condition); \
            exit(1); \
        } \
    } while (0)

#define OL_CHECK_INT(actual, expected) \
    do { \
        int64_t actual_value = (int64_t)(actual), expected_value = (int64_t)(expected); \
        if (actual_value != expected_value) { \
            fprintf(stderr, "%s:%d: %s is %" PRId64 ", expected %" PRId64 "\n", __FILE__, __LINE__, #actual, actual_value, \
                    expected_value); \
            exit(1); \
        } \
    } while (0)

#define OL_CHECK_OK(call, error) \
    do { \
        int status_value = (call); \
        if (status_value != OL_OK) { \
            fprintf(stderr, "%s:%d: %s: %s: %s (%s, position %" PRId64 ")\n", __FILE__, __LINE__, #call, \
                    ol_status_name(status_value), (error)->reason, (error)->path, (error)->position); \
            exit(1); \
        } \
    } while (0)

/* splitmix64: the one random source of the C tests, seeded by OL_SEED. */
static uint64_t ol_test_random_state;
OL_UNUSED static uint64_t ol_test_random(void) {
    uint64_t z = (ol_test_random_state += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}
OL_UNUSED static uint64_t ol_test_below(uint64_t bound) { return ol_test_random() % bound; }

/* A number that the caller of the test may set in the environment, to repeat one case. */
OL_UNUSED static int64_t ol_test_setting(const char *name, int64_t otherwise) {
    const char *given = getenv(name);
    return given != NULL ? strtoll(given, NULL, 10) : otherwise;
}

/* How often a test draws: `gate` times, or with OFFSETLOG_DEPTH=long `full` times. */
OL_UNUSED static int64_t ol_test_depth(int64_t gate, int64_t full) {
    const char *depth = getenv("OFFSETLOG_DEPTH");
    return depth != NULL && strcmp(depth, "long") == 0 ? full : gate;
}

/* Hexadecimal text to malloc'ed bytes, exactly as large as the text says, so that a sanitizer sees any read past them.
 * */
OL_UNUSED static uint8_t *ol_test_unhex(const char *text, size_t *size) {
    size_t digits = strlen(text);
    OL_CHECK(digits % 2 == 0);
    *size = digits / 2;
    uint8_t *bytes = malloc(*size ? *size : 1);
    for (size_t i = 0; i < *size; i++) {
        unsigned value;
        OL_CHECK(sscanf(text + 2 * i, "%2x", &value) == 1);
        bytes[i] = (uint8_t)value;
    }
    return bytes;
}

#define OL_TEST_MAIN() \
    int main(int argc, char **argv) { \
        const char *seed = getenv("OL_SEED"); \
        if (seed != NULL) ol_test_seed = strtoull(seed, NULL, 10); \
        int count = 0; \
        for (ol_test_case *test = ol_test_first; test != NULL; test = test->next) { \
            if (argc > 1 && strstr(test->name, argv[1]) == NULL) continue; \
            ol_test_random_state = ol_test_seed; \
            printf("%s\n", test->name); \
            fflush(stdout); \
            test->run(); \
            count++; \
        } \
        printf("%d passed, 0 failed (seed %" PRIu64 ")\n", count, ol_test_seed); \
        return count == 0; \
    }

#endif
