#include "table/string_pool.h"
#include "ol_test.h"

enum { NAMES = 300 };

static void make_name(int number, char *name) {
    static const char filler[] = "abcdefghijklmnopqrstuvwxyzabcdefghijklmnopqrstuvwxyz";
    snprintf(name, 80, "%d%.*s", number, number % 50, filler);
}

static void verify(const ol_string_pool *strings, const uint32_t *numbers, const uint32_t *counts) {
    uint32_t *references = calloc(strings->arena.used + 4, 1);
    ol_string_pool_verify(strings, references);
    for (int i = 0; i < NAMES; i++) {
        if (counts[i] != 0) OL_CHECK_INT(references[numbers[i]], counts[i]);
    }
    free(references);
}

OL_TEST(the_empty_string_is_nowhere) {
    ol_string_pool strings;
    ol_error error;
    uint32_t number = 7;
    ol_string_pool_init(&strings, 1);
    OL_CHECK_OK(ol_string_pool_intern(&strings, ol_slice_of(NULL, 0), NULL, &number, &error), &error);
    OL_CHECK_INT(number, 0);
    OL_CHECK_INT(ol_string_pool_get(&strings, 0).size, 0);
    ol_string_pool_retain(&strings, 0);
    ol_string_pool_release(&strings, 0);
    OL_CHECK_INT(ol_string_pool_resident(&strings), 0);
}

OL_TEST(equal_strings_are_one_and_ids_tell_them_apart) {
    ol_string_pool strings;
    ol_error error;
    uint32_t plain, again, with_id, other_id, own, only_id;
    uint8_t id[16] = {1}, other[16] = {2};
    ol_slice name = ol_slice_of("orders", 6);
    ol_string_pool_init(&strings, 1);
    OL_CHECK_OK(ol_string_pool_intern(&strings, name, NULL, &plain, &error), &error);
    OL_CHECK_OK(ol_string_pool_intern(&strings, name, NULL, &again, &error), &error);
    OL_CHECK_OK(ol_string_pool_intern(&strings, name, id, &with_id, &error), &error);
    OL_CHECK_OK(ol_string_pool_intern(&strings, name, other, &other_id, &error), &error);
    OL_CHECK_OK(ol_string_pool_intern(&strings, ol_slice_of("", 0), id, &only_id, &error), &error);
    OL_CHECK_OK(ol_string_pool_add(&strings, name, &own, &error), &error);
    OL_CHECK(plain == again && plain != with_id && with_id != other_id && own != plain && only_id != 0);
    OL_CHECK(ol_string_pool_topic_id(&strings, plain) == NULL);
    OL_CHECK(memcmp(ol_string_pool_topic_id(&strings, other_id), other, 16) == 0);
    OL_CHECK(ol_string_pool_equal(&strings, other_id, name));
    OL_CHECK_INT(strings.count, 5);
    OL_CHECK_INT(strings.bytes, 4 * 6 + 3 * 16);
    ol_string_pool_release(&strings, plain);
    ol_string_pool_release(&strings, own);
    OL_CHECK_INT(strings.count, 4);
    ol_string_pool_release(&strings, again);
    OL_CHECK_INT(strings.count, 3);
    ol_string_pool_free_all(&strings);
}

OL_TEST(sizes_up_to_the_limit) {
    ol_string_pool strings;
    ol_error error;
    uint32_t number;
    uint8_t *bytes = calloc(1, OL_STRING_BYTES_MAX + 1);
    ol_string_pool_init(&strings, 1);
    OL_CHECK_OK(ol_string_pool_intern(&strings, ol_slice_of(bytes, OL_STRING_BYTES_MAX), bytes, &number, &error), &error);
    OL_CHECK_INT(ol_string_pool_get(&strings, number).size, OL_STRING_BYTES_MAX);
    ol_string_pool_release(&strings, number);
    OL_CHECK_INT(ol_string_pool_intern(&strings, ol_slice_of(bytes, OL_STRING_BYTES_MAX + 1), NULL, &number, &error), OL_TOO_LARGE);
    free(bytes);
    ol_string_pool_free_all(&strings);
}

OL_TEST(random_references_and_memory_that_is_used_again) {
    ol_string_pool strings;
    ol_error error;
    static uint32_t numbers[NAMES], counts[NAMES];
    char name[80];
    size_t used_early = 0;
    ol_string_pool_init(&strings, ol_test_random());
    for (int i = 0; i < 100000; i++) {
        int at = (int)ol_test_below(NAMES);
        make_name(at, name);
        if (ol_test_below(2) == 0) {
            uint32_t number;
            OL_CHECK_OK(ol_string_pool_intern(&strings, ol_slice_of(name, strlen(name)), NULL, &number, &error), &error);
            OL_CHECK(counts[at] == 0 || number == numbers[at]);
            numbers[at] = number;
            counts[at]++;
        } else if (counts[at] != 0) {
            OL_CHECK(ol_string_pool_equal(&strings, numbers[at], ol_slice_of(name, strlen(name))));
            ol_string_pool_release(&strings, numbers[at]);
            counts[at]--;
        }
        if (i % 1000 == 0) verify(&strings, numbers, counts);
        if (i == 50000) used_early = strings.arena.used;
    }
    OL_CHECK(strings.arena.used <= used_early + used_early / 10);
    for (int i = 0; i < NAMES; i++) {
        while (counts[i] != 0) ol_string_pool_release(&strings, numbers[i]), counts[i]--;
    }
    verify(&strings, numbers, counts);
    OL_CHECK_INT(strings.count, 0);
    ol_string_pool_free_all(&strings);
}

/* The bytes may be those of a string of the same arena, which moves while it grows. */
OL_TEST(a_borrowed_slice_can_be_added) {
    ol_string_pool strings;
    ol_error error;
    ol_string_pool_init(&strings, 1);
    uint32_t first, number;
    OL_CHECK_OK(ol_string_pool_intern(&strings, ol_slice_of("a name that is borrowed", 23), NULL, &first, &error), &error);
    for (int i = 0; i < 5000; i++) {
        OL_CHECK_OK(ol_string_pool_add(&strings, ol_string_pool_get(&strings, first), &number, &error), &error);
        OL_CHECK(ol_string_pool_equal(&strings, number, ol_slice_of("a name that is borrowed", 23)));
    }
    ol_string_pool_free_all(&strings);
}

OL_TEST_MAIN()
