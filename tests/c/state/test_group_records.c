#include "state/group_records.h"
#include "base/arena.h"
#include "ol_test.h"

enum { KEYS = 200, GROUPS = 7, GROUP_SIZE = 4 };

typedef struct stored {
    bool present;
    char value[64];
    int64_t log_offset;
} stored;

static ol_slice group_of(int group, char *text) {
    snprintf(text, 64, "g%03d", group);
    return ol_slice_of(text, GROUP_SIZE);
}

/* The group stands in the middle of the key, as it does in those of a log. */
static ol_slice key_in(int group, int number, char *text) {
    snprintf(text, 64, "k:g%03d:%d", group, number);
    return ol_slice_of(text, strlen(text));
}

static ol_slice key_of(int number, char *text) { return key_in(number % GROUPS, number, text); }

static ol_group_record record_of(ol_slice key, ol_slice value, int64_t log_offset) {
    return (ol_group_record){key, value, log_offset, log_offset + 5, ol_slice_of(key.data + 2, GROUP_SIZE)};
}

static void put(ol_group_records *records, ol_slice key, ol_slice value, int64_t log_offset) {
    ol_error error;
    ol_group_record record = record_of(key, value, log_offset);
    OL_CHECK_OK(ol_group_records_put(records, &record, &error), &error);
}

static ol_group_records *create(void) {
    ol_group_records *records;
    ol_error error;
    OL_CHECK_OK(ol_group_records_create(&records, &error), &error);
    return records;
}

/* The records of a group, each of which must be of it and be what a get of its key finds. */
static int64_t count_of_group(const ol_group_records *records, int group) {
    char text[64];
    ol_slice name = group_of(group, text);
    ol_group_record record, found;
    int64_t count = 0;
    size_t cursor = 0;
    for (; ol_group_records_next_of_group(records, name, &cursor, &record); count++) {
        OL_CHECK(record.group.size == name.size && memcmp(record.group.data, name.data, name.size) == 0);
        OL_CHECK(record.group.data == record.key.data + 2);
        OL_CHECK(ol_group_records_get(records, record.key, &found) && found.value.data == record.value.data);
    }
    OL_CHECK(!ol_group_records_next_of_group(records, name, &cursor, &record));
    return count;
}

static void check_all(const ol_group_records *records, const stored *model) {
    uint64_t count = 0, walked = 0;
    char text[64];
    ol_group_record record;
    for (int i = 0; i < KEYS; i++) {
        bool found = ol_group_records_get(records, key_of(i, text), &record);
        OL_CHECK_INT(found, model[i].present);
        if (!found) continue;
        count++;
        OL_CHECK(record.value.size == strlen(model[i].value));
        OL_CHECK(memcmp(record.value.data, model[i].value, record.value.size) == 0);
        OL_CHECK_INT(record.log_offset, model[i].log_offset);
    }
    OL_CHECK_INT(ol_group_records_count(records), count);
    size_t cursor = 0;
    while (ol_group_records_next(records, &cursor, &record)) walked++;
    OL_CHECK_INT(walked, count);
    for (int group = 0; group <= GROUPS; group++) {
        int64_t expected = 0;
        for (int i = group; i < KEYS && group < GROUPS; i += GROUPS) expected += model[i].present;
        OL_CHECK_INT(count_of_group(records, group), expected);
    }
    ol_group_records_verify(records);
}

OL_TEST(random_puts_and_removes_agree_with_the_model) {
    ol_group_records *records = create();
    static stored model[KEYS];
    for (int i = 0; i < 20000; i++) {
        char text[64];
        int at = (int)ol_test_below(KEYS);
        ol_slice key = key_of(at, text);
        if (ol_test_below(3) != 0) {
            snprintf(model[at].value, sizeof model[at].value, "%.*s%d", (int)ol_test_below(30), "..............................", i);
            put(records, key, ol_slice_of(model[at].value, strlen(model[at].value)), i);
            model[at].present = true;
            model[at].log_offset = i;
        } else {
            OL_CHECK_INT(ol_group_records_remove(records, key), model[at].present);
            model[at].present = false;
        }
        if (i % 500 == 0) check_all(records, model);
    }
    OL_CHECK(ol_group_records_memory_usage(records) < 100000);
    ol_group_records_destroy(records);
}

/* The sanitizer's allocator tells of every allocation; in a build without it none is seen, and nothing is checked. */
int __sanitizer_install_malloc_and_free_hooks(void (*allocated)(const volatile void *, size_t), void (*freed)(const volatile void *))
    __attribute__((weak));
static int64_t allocations;
static void count_allocation(const volatile void *block OL_UNUSED, size_t size OL_UNUSED) { allocations++; }
static void count_no_free(const volatile void *block OL_UNUSED) {}

/* A call that cannot fail must not ask for memory, neither of an arena nor of the heap. */
static int64_t begin_without_memory(void) {
    static bool installed;
    if (!installed && __sanitizer_install_malloc_and_free_hooks != NULL) {
        OL_CHECK(__sanitizer_install_malloc_and_free_hooks(count_allocation, count_no_free) > 0);
    }
    installed = true;
    ol_arena_fail_after(0);
    return allocations;
}

static void end_without_memory(int64_t before) {
    ol_arena_fail_after(-1);
    OL_CHECK_INT(allocations, before);
}

static ol_group_reservation *reserve(ol_group_records *records, ol_slice key, const char *value) {
    ol_error error;
    ol_group_reservation *reservation;
    ol_group_record record = record_of(key, ol_slice_of(value, strlen(value)), -1);
    OL_CHECK_OK(ol_group_records_reserve(records, &record, &reservation, &error), &error);
    return reservation;
}

/* As a batch does it: all is reserved, then each is applied, tombstones between them; some keys come more than once. */
OL_TEST(what_was_reserved_is_put_without_memory) {
    enum { BATCH = 40 };
    ol_group_records *records = create();
    static stored model[KEYS];
    memset(model, 0, sizeof model);
    for (int64_t i = 0; i < 4000; i++) {
        ol_group_reservation *reserved[BATCH];
        int keys[BATCH];
        char text[64], values[BATCH][24];
        size_t count = ol_test_below(BATCH + 1);
        for (size_t k = 0; k < count; k++) {
            keys[k] = (int)ol_test_below(KEYS);
            snprintf(values[k], sizeof values[k], "%" PRId64 ":%zu", i, k);
            reserved[k] = ol_test_below(4) == 0 ? NULL : reserve(records, key_of(keys[k], text), values[k]);
        }
        if (i % 100 == 0) check_all(records, model);        /* nothing of it is seen yet */
        bool is_given_up = ol_test_below(5) == 0;
        for (size_t k = 0; k < count; k++) {
            stored *now = &model[keys[k]];
            if (is_given_up) {
                if (reserved[k] != NULL) ol_group_records_release(records, reserved[k]);
            } else if (reserved[k] == NULL) {
                OL_CHECK_INT(ol_group_records_remove(records, key_of(keys[k], text)), now->present);
                now->present = false;
            } else {
                int64_t before = begin_without_memory();
                ol_group_records_install(records, reserved[k], i, i + 5);
                end_without_memory(before);
                *now = (stored){.present = true, .log_offset = i};
                memcpy(now->value, values[k], sizeof values[k]);
            }
        }
        if (i % 100 == 0) check_all(records, model);
    }
    check_all(records, model);
    ol_group_records_destroy(records);
}

OL_TEST(a_reservation_is_accounted_for_and_leaves_nothing) {
    ol_group_records *records = create();
    char text[64], value[3000];
    memset(value, 'v', sizeof value);
    value[sizeof value - 1] = '\0';
    put(records, key_in(1, 1, text), ol_slice_of("v", 1), 1);
    uint64_t before = ol_group_records_memory_usage(records);
    ol_group_reservation *reserved = reserve(records, key_in(2, 2, text), value);
    OL_CHECK(ol_group_records_memory_usage(records) > before + 3000);
    OL_CHECK(ol_group_records_count(records) == 1 && count_of_group(records, 2) == 0);
    OL_CHECK(!ol_group_records_remove(records, key_in(2, 2, text)));
    ol_group_records_verify(records);
    ol_group_records_release(records, reserved);
    OL_CHECK_INT(ol_group_records_memory_usage(records), before);
    ol_group_records_verify(records);
    ol_group_records_destroy(records);
}

/* A leader's records: in flight until they are put from their bytes. */
OL_TEST(what_was_promised_is_put_without_memory) {
    ol_group_records *records = create();
    char text[64];
    enum { COUNT = 500 };
    for (int i = 0; i < COUNT; i++) {
        ol_group_reservation *reserved = reserve(records, key_in(i % GROUPS, i % 400, text), "value");
        ol_group_records_promise(records, reserved, 10 * i);
    }
    OL_CHECK_INT(ol_group_records_count(records), 0);
    int64_t before = begin_without_memory();
    for (int i = 0; i < COUNT / 2; i++) put(records, key_in(i % GROUPS, i % 400, text), ol_slice_of("value", 5), 10 * i);
    end_without_memory(before);
    OL_CHECK_INT(ol_group_records_count(records), COUNT / 2);
    /* Another record than what was promised, one between, and some that never come: theirs is given back. */
    int at = COUNT / 2;
    put(records, key_in(at % GROUPS, at, text), ol_slice_of("other", 5), 10 * at);
    put(records, key_in(0, 999, text), ol_slice_of("value", 5), 10 * at + 5);
    put(records, key_in((at + 5) % GROUPS, at + 5, text), ol_slice_of("value", 5), 10 * (at + 5));
    OL_CHECK_INT(ol_group_records_count(records), COUNT / 2 + 3);
    ol_group_records_verify(records);
    uint64_t most = ol_group_records_memory_usage(records);
    ol_group_records_release_promised(records);
    OL_CHECK(ol_group_records_memory_usage(records) < most);
    ol_group_records_verify(records);
    OL_CHECK_INT(ol_group_records_count(records), COUNT / 2 + 3);
    ol_group_records_promise(records, reserve(records, key_in(0, 0, text), "v"), 7);    /* destroyed with them */
    ol_group_records_destroy(records);
}

OL_TEST(failed_reservations_change_nothing) {
    ol_group_records *records = create();
    ol_error error;
    for (int i = 0; i < 1000; i++) {
        char text[64];
        ol_group_reservation *reservation;
        ol_group_record record = record_of(key_in(i, i, text), ol_slice_of("v", 1), -1);
        for (int64_t allowed = 0;; allowed++) {
            ol_arena_fail_after(allowed);
            int status = ol_group_records_reserve(records, &record, &reservation, &error);
            ol_arena_fail_after(-1);
            if (status == OL_OK) break;
            OL_CHECK_INT(status, OL_NO_MEMORY);
        }
        int64_t before = begin_without_memory();
        ol_group_records_install(records, reservation, i, i);
        end_without_memory(before);
        if (i % 100 == 0) ol_group_records_verify(records);
    }
    OL_CHECK_INT(ol_group_records_count(records), 1000);
    ol_group_records_destroy(records);
}

OL_TEST(failed_allocations_change_nothing) {
    ol_group_records *records = create();
    ol_error error;
    for (int i = 0; i < 1000; i++) {
        char text[64];
        ol_group_record record = record_of(key_in(i, i, text), ol_slice_of("v", 1), i);
        for (int64_t allowed = 0;; allowed++) {
            ol_arena_fail_after(allowed);
            int status = ol_group_records_put(records, &record, &error);
            ol_arena_fail_after(-1);
            if (status == OL_OK) break;
            OL_CHECK_INT(status, OL_NO_MEMORY);
            OL_CHECK_INT(ol_group_records_count(records), i);
            OL_CHECK_INT(count_of_group(records, i), 0);
            if (i < 100) ol_group_records_verify(records);
        }
    }
    ol_group_records_verify(records);
    ol_group_records_destroy(records);
}

OL_TEST(empty_key_and_empty_value) {
    ol_group_records *records = create();
    ol_error error;
    ol_slice empty = ol_slice_of("", 0);
    ol_group_record record = {empty, empty, 1, 2, empty}, found;
    OL_CHECK_OK(ol_group_records_put(records, &record, &error), &error);
    size_t cursor = 0;
    OL_CHECK(ol_group_records_next_of_group(records, empty, &cursor, &found) && found.log_offset == 1);
    OL_CHECK(ol_group_records_get(records, record.key, &found) && found.timestamp == 2 && found.value.data != NULL);
    OL_CHECK(ol_group_records_remove(records, record.key));
    cursor = 0;
    OL_CHECK(!ol_group_records_next_of_group(records, empty, &cursor, &found));
    ol_group_records_verify(records);
    ol_group_records_destroy(records);
}

/* Possible logs: very many groups, or one with very many records, which go in any order.  A step that looked at a
 * whole group or at all groups would take hours here. */
OL_TEST(many_groups_and_a_large_one) {
    enum { COUNT = 300000, STEP = 7919 };       /* prime, and no divisor of COUNT: every number once */
    ol_group_records *records = create();
    char text[64];
    for (int i = 0; i < COUNT; i++) put(records, key_in(0, i, text), ol_slice_of("v", 1), i);
    OL_CHECK_INT(count_of_group(records, 0), COUNT);
    for (int64_t i = 0; i < COUNT; i++) OL_CHECK(ol_group_records_remove(records, key_in(0, (int)(i * STEP % COUNT), text)));
    OL_CHECK_INT(count_of_group(records, 0), 0);
    for (int i = 0; i < COUNT; i++) {
        snprintf(text, sizeof text, "k:%04x:%x", i & 0xffff, i >> 16);
        put(records, ol_slice_of(text, strlen(text)), ol_slice_of("v", 1), i);
    }
    ol_group_records_verify(records);
    OL_CHECK_INT(ol_group_records_count(records), COUNT);
    for (int64_t i = 0; i < 65536; i++) {
        ol_group_record record;
        size_t cursor = 0, found = 0;
        snprintf(text, sizeof text, "%04x", (int)(i * STEP % 65536));
        while (ol_group_records_next_of_group(records, ol_slice_of(text, 4), &cursor, &record)) found++;
        OL_CHECK(found == 4 || found == 5);
    }
    ol_group_records_destroy(records);
}

static uint64_t memory_of(int count, bool one_group) {
    ol_group_records *records = create();
    char text[64];
    for (int i = 0; i < count; i++) {
        snprintf(text, sizeof text, "k:%04x:%04x", one_group ? 0 : i, i);
        put(records, ol_slice_of(text, strlen(text)), ol_slice_of("v", 1), i);
    }
    uint64_t bytes = ol_group_records_memory_usage(records);
    ol_group_records_destroy(records);
    return bytes;
}

OL_TEST(a_group_costs_a_slot) {
    enum { COUNT = 60000 };
    uint64_t bytes = memory_of(COUNT, false) - memory_of(COUNT, true);
    OL_CHECK(bytes > COUNT * 4 && bytes < COUNT * 7);
}

OL_TEST_MAIN()
