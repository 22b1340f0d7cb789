/* A copy of a table that goes on changing meanwhile (table/copy): it is the table of the moment at which it was finished, byte for
 * byte, whatever changed between two steps. */
#include "ol_test_table_steps.h"
#include "table/copy.h"
#include "table/table_impl.h"

static void check_same(ol_table *table, ol_table *copy) {
    ol_table_section from[OL_TABLE_SECTIONS], to[OL_TABLE_SECTIONS];
    uint8_t numbers[OL_TABLE_NUMBERS_SIZE], copied[OL_TABLE_NUMBERS_SIZE];
    ol_table_sections(table, from);
    ol_table_sections(copy, to);
    for (int i = 0; i < OL_TABLE_SECTIONS; i++) {
        OL_CHECK_INT(to[i].arena->used, from[i].arena->used);
        OL_CHECK(from[i].arena->used == 0 || memcmp(to[i].arena->base, from[i].arena->base, from[i].arena->used) == 0);
    }
    ol_table_put_numbers(table, numbers);
    ol_table_put_numbers(copy, copied);
    OL_CHECK(memcmp(numbers, copied, sizeof numbers) == 0);
    ol_table_verify(copy);
}

static ol_table *begin(ol_table *table, ol_table_copy *copy) {
    ol_error error;
    ol_table *target;
    OL_CHECK_OK(ol_table_create(&target, &error), &error);
    (void)ol_table_copy_measure(table, target, copy);
    OL_CHECK_OK(ol_table_copy_prepare(copy, &error), &error);
    return target;
}

static void change(table_model *model, int count, unsigned remove_weight) {
    for (int i = 0; i < count; i++) {
        if (ol_test_below(6) == 0) {
            put_run(model, ol_test_below(2) == 0 ? MODEL_PARTITIONS : 20);
        } else {
            step(model, MODEL_PARTITIONS, remove_weight);
        }
    }
}

OL_TEST(a_copy_is_the_table_of_the_moment_at_which_it_is_finished) {
    static table_model model;
    ol_table_copy copy;
    ol_error error;
    create_model(&model);
    static const unsigned remove_weights[] = {2, 14, 4, 30};
    for (int round = 0; round < 400; round++) {
        unsigned weight = remove_weights[round / 50 % 4];
        change(&model, 20, weight);
        ol_table *target = begin(model.table, &copy);
        change(&model, (int)ol_test_below(20), weight);      /* it grows, or moves, before the first step */
        OL_CHECK_OK(ol_table_copy_begin(&copy, &error), &error);
        /* Not every copy is finished only when no step is left. */
        int steps = (int)ol_test_below(12);
        while (steps-- > 0 && ol_table_copy_step(&copy)) change(&model, (int)ol_test_below(30), weight);
        change(&model, (int)ol_test_below(30), weight);
        OL_CHECK_OK(ol_table_copy_finish(&copy, &error), &error);
        check_same(model.table, target);
        change(&model, 5, weight);                           /* the table has forgotten the copy */
        OL_CHECK(model.table->copied_pages == 0 && model.table->marks == NULL);
        ol_table_destroy(target);
        model_check(&model);
    }
    empty_model(&model);
    ol_table_destroy(model.table);
}

/* A table of many pages, so that steps have work: positions of one pair, put again and again. */
enum { MANY = 60000 };

static void put_many(ol_table *table, int first, int count, int64_t offset) {
    ol_error error;
    ol_slice group = ol_slice_of("group", 5), topic = ol_slice_of("topic", 5);
    ol_pair_name name = ol_table_name(table, group, ol_table_group_hash(table, group), topic);
    for (int i = 0; i < count; i++) {
        const ol_position_value value = {.offset = offset + i, .log_offset = offset, .expire_timestamp = -1};
        OL_CHECK_OK(ol_table_put(table, &name, (first + i) % MANY, &value, &error), &error);
    }
}

OL_TEST(what_changes_between_steps_is_copied_again) {
    ol_error error;
    ol_table *table;
    ol_table_copy copy;
    OL_CHECK_OK(ol_table_create(&table, &error), &error);
    put_many(table, 0, MANY, 1);
    for (int each_step = 0; each_step <= MANY; each_step = each_step * 7 + 100) {
        ol_table *target = begin(table, &copy);
        OL_CHECK_OK(ol_table_copy_begin(&copy, &error), &error);
        int steps = 0, at = 0;
        while (ol_table_copy_step(&copy)) {
            put_many(table, at, each_step, 1000 + steps);
            at = (at + 7919) % MANY;
            OL_CHECK(++steps < 1000);                        /* also where all changes between two steps */
        }
        OL_CHECK(steps >= MANY * 32 / (256 << 10));
        OL_CHECK_OK(ol_table_copy_finish(&copy, &error), &error);
        check_same(table, target);
        ol_table_destroy(target);
    }
    ol_table_destroy(table);
}

OL_TEST(a_copy_can_be_left) {
    ol_error error;
    ol_table *table;
    ol_table_copy copy;
    OL_CHECK_OK(ol_table_create(&table, &error), &error);
    put_many(table, 0, MANY, 1);
    for (int calls = 0; calls < 3; calls++) {
        ol_table *target = begin(table, &copy);
        OL_CHECK_OK(ol_table_copy_begin(&copy, &error), &error);
        for (int i = 0; i < calls; i++) (void)ol_table_copy_step(&copy);
        ol_table_copy_cancel(&copy);
        ol_table_copy_cancel(&copy);
        ol_table_destroy(target);
        put_many(table, 0, MANY, 5);
    }
    /* The memory is there in one of its arenas only. */
    ol_table *target;
    OL_CHECK_OK(ol_table_create(&target, &error), &error);
    OL_CHECK(ol_table_copy_measure(table, target, &copy) > 0);
    ol_arena_fail_after(1);
    OL_CHECK_INT(ol_table_copy_prepare(&copy, &error), OL_NO_MEMORY);
    ol_arena_fail_after(-1);
    ol_table_copy_cancel(&copy);
    ol_table_destroy(target);
    ol_table_verify(table);
    ol_table_destroy(table);
}

OL_TEST(a_second_copy_of_a_table_is_refused_and_disturbs_nothing) {
    ol_error error;
    ol_table *table;
    ol_table_copy copy, other;
    OL_CHECK_OK(ol_table_create(&table, &error), &error);
    put_many(table, 0, MANY, 1);
    ol_table *target = begin(table, &copy), *other_target = begin(table, &other);
    OL_CHECK_OK(ol_table_copy_begin(&copy, &error), &error);
    OL_CHECK(ol_table_copy_step(&copy));
    put_many(table, 0, 1000, 5);
    OL_CHECK_INT(ol_table_copy_begin(&other, &error), OL_WOULD_BLOCK);
    ol_table_copy_cancel(&other);
    OL_CHECK_OK(ol_table_copy_finish(&copy, &error), &error);
    check_same(table, target);
    ol_table_destroy(target);
    ol_table_destroy(other_target);
    ol_table_destroy(table);
}

static size_t all_bytes(ol_table *table) {
    ol_table_section sections[OL_TABLE_SECTIONS];
    size_t sum = 0;
    ol_table_sections(table, sections);
    for (int i = 0; i < OL_TABLE_SECTIONS; i++) sum += sections[i].arena->used;
    return sum;
}

OL_TEST(what_is_left_to_copy_is_counted) {
    enum { STEP = 256 << 10, PAGE = 4096 };
    ol_error error;
    ol_table *table;
    ol_table_copy copy;
    OL_CHECK_OK(ol_table_create(&table, &error), &error);
    put_many(table, 0, MANY, 1);
    ol_table *target = begin(table, &copy);
    OL_CHECK_OK(ol_table_copy_begin(&copy, &error), &error);
    OL_CHECK_INT(ol_table_copy_left(&copy), all_bytes(table));
    OL_CHECK(ol_table_copy_step(&copy));
    OL_CHECK_INT(ol_table_copy_left(&copy), all_bytes(table) - STEP);
    put_many(table, 0, 1, 7);                                /* a page that was copied, once or twice */
    put_many(table, 0, 1, 8);
    OL_CHECK_INT(ol_table_copy_left(&copy), all_bytes(table) - STEP + PAGE);
    put_many(table, MANY - 1, 1, 9);                         /* and one that was not */
    OL_CHECK_INT(ol_table_copy_left(&copy), all_bytes(table) - STEP + PAGE);
    OL_CHECK_OK(ol_table_copy_finish(&copy, &error), &error);
    check_same(table, target);
    ol_table_destroy(target);
    ol_table_destroy(table);
}

OL_TEST_MAIN()
