#include "ol_group_records.h"
#include "ol_arena.h"
#include "ol_test.h"

enum { KEYS = 200 };

typedef struct stored {
    bool present;
    char value[64];
    int64_t log_offset;
} stored;

static ol_slice key_of(int number, char *text) {
    snprintf(text, 64, "key-%d", number);
    return ol_slice_of(text, strlen(text));
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
}

OL_TEST(random_puts_and_removes_agree_with_the_model) {
    ol_group_records *records;
    ol_error error;
    static stored model[KEYS];
    OL_CHECK_OK(ol_group_records_create(&records, &error), &error);
    for (int i = 0; i < 20000; i++) {
        char text[64];
        int at = (int)ol_test_below(KEYS);
        ol_slice key = key_of(at, text);
        if (ol_test_below(3) != 0) {
            snprintf(model[at].value, sizeof model[at].value, "%.*s%d", (int)ol_test_below(30), "..............................", i);
            ol_group_record record = {key, ol_slice_of(model[at].value, strlen(model[at].value)), i, i + 5};
            OL_CHECK_OK(ol_group_records_put(records, &record, &error), &error);
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

OL_TEST(failed_allocations_change_nothing) {
    ol_group_records *records;
    ol_error error;
    OL_CHECK_OK(ol_group_records_create(&records, &error), &error);
    for (int i = 0; i < 1000; i++) {
        char text[64];
        ol_group_record record = {key_of(i, text), ol_slice_of("v", 1), i, i};
        for (int64_t allowed = 0;; allowed++) {
            ol_arena_fail_after(allowed);
            int status = ol_group_records_put(records, &record, &error);
            ol_arena_fail_after(-1);
            if (status == OL_OK) break;
            OL_CHECK_INT(status, OL_NO_MEMORY);
            OL_CHECK_INT(ol_group_records_count(records), i);
        }
    }
    ol_group_records_destroy(records);
}

OL_TEST(empty_key_and_empty_value) {
    ol_group_records *records;
    ol_error error;
    ol_group_record record = {ol_slice_of("", 0), ol_slice_of("", 0), 1, 2}, found;
    OL_CHECK_OK(ol_group_records_create(&records, &error), &error);
    OL_CHECK_OK(ol_group_records_put(records, &record, &error), &error);
    OL_CHECK(ol_group_records_get(records, record.key, &found) && found.timestamp == 2 && found.value.data != NULL);
    OL_CHECK(ol_group_records_remove(records, record.key));
    ol_group_records_destroy(records);
}

OL_TEST_MAIN()
