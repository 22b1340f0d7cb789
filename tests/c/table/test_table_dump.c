/* A table as bytes and back (table/dump, ol_table_validate, table/validate/hash_index, ol_partition_map_validate, base/parallel): what was dumped goes on as if it never was, and
 * no byte of a dump that is another one does harm. */
#include <unistd.h>

#include "table/dump.h"
#include "ol_test_table_steps.h"

typedef struct dump {
    uint8_t numbers[OL_TABLE_NUMBERS_SIZE];
    uint8_t *bytes[OL_TABLE_SECTIONS];
    size_t sizes[OL_TABLE_SECTIONS];
    ol_reservation held[MODEL_RESERVATIONS];
    size_t held_count;
} dump;

static void dump_table(ol_table *table, dump *into) {
    ol_table_section sections[OL_TABLE_SECTIONS];
    ol_table_put_numbers(table, into->numbers);
    ol_table_sections(table, sections);
    for (int i = 0; i < OL_TABLE_SECTIONS; i++) {
        into->sizes[i] = sections[i].arena->used;
        into->bytes[i] = malloc(into->sizes[i] + 1);
        if (into->sizes[i] != 0) memcpy(into->bytes[i], sections[i].arena->base, into->sizes[i]);
    }
    into->held_count = 0;
}

static void hold_model(const table_model *model, dump *into) {
    for (int i = 0; i < MODEL_RESERVATIONS; i++) {
        if (model->reservations[i].used) into->held[into->held_count++] = model->reservations[i].reservation;
    }
}

static void free_dump(dump *of) {
    for (int i = 0; i < OL_TABLE_SECTIONS; i++) free(of->bytes[i]);
}

static void fill(ol_arena *arena, const uint8_t *bytes, size_t size) {
    ol_error error;
    if (size == 0) return;
    OL_CHECK_OK(ol_arena_extend(arena, size, &error), &error);
    memcpy(arena->base, bytes, size);
}

static ol_table *restore(const dump *from, unsigned threads, int *status) {
    ol_error error;
    ol_table *table;
    ol_table_section sections[OL_TABLE_SECTIONS];
    OL_CHECK_OK(ol_table_create(&table, &error), &error);
    ol_table_sections(table, sections);
    for (int i = 0; i < OL_TABLE_SECTIONS; i++) fill(sections[i].arena, from->bytes[i], from->sizes[i]);
    *status = ol_table_restore(table, from->numbers, from->held, from->held_count, threads, &error);
    if (*status == OL_OK) return table;
    OL_CHECK(*status == OL_CORRUPT);
    ol_table_destroy(table);
    return NULL;
}

static void replace_by_its_dump(table_model *model, unsigned threads) {
    dump whole;
    int status;
    dump_table(model->table, &whole);
    hold_model(model, &whole);
    ol_table *table = restore(&whole, threads, &status);
    OL_CHECK_INT(status, OL_OK);
    ol_table_destroy(model->table);
    model->table = table;
    free_dump(&whole);
}

OL_TEST(what_is_restored_goes_on_as_if_it_never_was_dumped) {
    static table_model model;
    create_model(&model);
    static const unsigned remove_weights[] = {2, 14, 4, 30};
    for (int i = 0; i < 12000; i++) {
        if (i % 60 == 0) replace_by_its_dump(&model, 1 + (unsigned)i / 60 % 3);
        if (ol_test_below(8) == 0) {
            put_run(&model, i % 5000 < 2500 ? MODEL_PARTITIONS : 20);
        } else {
            step(&model, MODEL_PARTITIONS, remove_weights[i / 1000 % 4]);
        }
        if (i % 97 == 0) model_check(&model);
        if (i % 97 == 0) model_check_walk(&model);
        if (i % 97 == 0) check_reservations(&model);
    }
    empty_model(&model);
    replace_by_its_dump(&model, 1);
    model_check(&model);
    ol_table_memory memory;
    ol_table_memory_usage(model.table, &memory);
    OL_CHECK_INT(memory.string_bytes, 0);
    ol_table_destroy(model.table);
}

/* ------------------------------------------------------------------------------------------------ larger tables */

static char wide_group[32], wide_topic[32], wide_metadata[64];

static ol_pair_name wide_name(const ol_table *table, int number) {
    snprintf(wide_group, sizeof wide_group, "group-%d", number / 7);
    snprintf(wide_topic, sizeof wide_topic, "topic-%d", number % 7 + number / 2000);
    return name_pair(table, wide_group, wide_topic);
}

static void put_wide(ol_table *table, int number, int32_t partition, int64_t log_offset) {
    static const uint8_t ids[2][16] = {"aaaaaaaaaaaaaaa", "bbbbbbbbbbbbbbb"};
    ol_error error;
    snprintf(wide_metadata, sizeof wide_metadata, "metadata of %d", number);
    ol_position_value value = {
        .offset = number,
        .log_offset = log_offset,
        .commit_timestamp = 7,
        .expire_timestamp = number % 11 == 0 ? 99 : -1,
        .leader_epoch = -1,
        .metadata = number % 3 == 0 ? text(wide_metadata) : text(""),
        .topic_id = number % 13 == 0 ? ids[partition % 2] : NULL,
    };
    ol_pair_name name = wide_name(table, number);
    OL_CHECK_OK(ol_table_put(table, &name, partition, &value, &error), &error);
}

/* One pair has a tree of arrays. */
enum { FAR_APART_PAIR = 17, FAR_APART = 8009 };

/* Several pieces of every hash, arrays of every form and size, holes everywhere. */
static ol_table *wide_table(int pairs) {
    ol_error error;
    ol_table *table;
    OL_CHECK_OK(ol_table_create(&table, &error), &error);
    for (int i = 0; i < pairs; i++) {
        put_wide(table, i, 0, i);
        if (i % 5 == 0) put_wide(table, i, 9, i);
        if (i % 50 == 0) {
            for (int32_t p = 0; p < 40; p++) put_wide(table, i, p * (i % 100 == 0 ? 7001 : 1), i);
        }
        if (i % 1000 == 0) {
            for (int32_t p = 0; p < 600; p++) put_wide(table, i, p, i);
        }
        if (i == FAR_APART_PAIR) {
            for (int32_t p = 0; p < 2500; p++) put_wide(table, i, p * 50021 % 2500 * FAR_APART, i);
        }
    }
    for (int i = 0; i < pairs; i += 4) {
        ol_pair_name name = wide_name(table, i);
        ol_table_remove(table, &name, i % 8 == 0 ? 0 : 9, pairs + i);
    }
    return table;
}

static void check_same(const ol_table *a, const ol_table *b) {
    ol_hash128 digest = ol_table_digest(a, true), other = ol_table_digest(b, true);
    OL_CHECK(digest.low == other.low && digest.high == other.high);
    OL_CHECK_INT(ol_table_count(a), ol_table_count(b));
}

OL_TEST(a_large_table_is_the_same_and_grows) {
    ol_table *table = wide_table(9000);
    dump whole;
    int status;
    dump_table(table, &whole);
    for (unsigned threads = 1; threads <= 5; threads += 2) {
        ol_table *restored = restore(&whole, threads, &status);
        OL_CHECK_INT(status, OL_OK);
        ol_table_verify(restored);
        check_same(restored, table);
        for (int i = 0; i < 20000; i++) put_wide(restored, i, 3, 100000 + i);
        for (int i = 0; i < 20000; i += 3) {
            ol_pair_name name = wide_name(restored, i);
            ol_table_remove(restored, &name, 3, 200000 + i);
        }
        ol_table_verify(restored);
        ol_table_memory memory;
        ol_table_memory_usage(restored, &memory);
        OL_CHECK(memory.cells > whole.sizes[0]);
        ol_table_destroy(restored);
    }
    ol_table_destroy(table);
    free_dump(&whole);
}

OL_TEST(an_empty_table_is_dumped_too) {
    ol_error error;
    ol_table *table;
    dump whole;
    int status;
    OL_CHECK_OK(ol_table_create(&table, &error), &error);
    dump_table(table, &whole);
    ol_table_destroy(table);
    table = restore(&whole, 2, &status);
    OL_CHECK_INT(status, OL_OK);
    put_wide(table, 1, 1, 1);
    ol_table_verify(table);
    ol_table_destroy(table);
    free_dump(&whole);
    OL_CHECK(ol_table_layout() == ol_table_layout() && ol_table_layout() != 0);
}

/* ------------------------------------------------------------------------------------------------ hostile bytes */

/* Whatever was let in has to bear everything that can be done to it. */
static void use_wildly(ol_table *table, const dump *from, int pairs) {
    ol_table_verify(table);
    for (size_t i = 0; i < from->held_count; i++) {
        ol_position_value value = {.offset = 1, .log_offset = INT64_MAX - 1, .expire_timestamp = -1};
        if (i % 3 == 0) ol_table_install(table, &from->held[i], &value);
        if (i % 3 == 1) ol_table_install_if_newer(table, &from->held[i], &value);
        if (i % 3 == 2) ol_table_release(table, &from->held[i]);
    }
    for (int i = 0; i < 200; i++) {
        int number = (int)ol_test_below((uint64_t)pairs);
        put_wide(table, number, (int32_t)ol_test_below(50), 1000000 + i);
        ol_pair_name name = wide_name(table, number);
        ol_table_remove(table, &name, (int32_t)ol_test_below(12), 2000000 + i);
    }
    for (int i = 0; i < 400 && pairs > FAR_APART_PAIR; i++) {
        put_wide(table, FAR_APART_PAIR, (int32_t)ol_test_below(2600) * FAR_APART + i % 5, 3000000 + i);
        ol_pair_name name = wide_name(table, FAR_APART_PAIR);
        ol_table_remove(table, &name, (int32_t)ol_test_below(2600) * FAR_APART, 4000000 + i);
    }
    for (;;) {
        ol_table_cursor cursor = {0};
        ol_table_row row;
        if (!ol_table_next(table, &cursor, &row) || ol_test_below(200) == 0) break;
        ol_pair_name name = ol_table_name(table, row.group, ol_table_group_hash(table, row.group), row.topic);
        ol_position_value value;
        /* A pair of the same name may stand before it. */
        if (!ol_table_get(table, &name, row.partition, &value)) break;
        ol_table_remove(table, &name, row.partition, INT64_MAX);
    }
    ol_table_cursor cursor = {0};
    ol_slice group;
    uint64_t positions;
    while (ol_table_next_group(table, &cursor, &group, &positions)) continue;
    (void)ol_table_digest(table, true);
    ol_table_verify(table);
}

static uint8_t *byte_of(dump *of, uint64_t at) {
    if (at < sizeof of->numbers) return &of->numbers[at];
    at -= sizeof of->numbers;
    for (int i = 0; i < OL_TABLE_SECTIONS; i++) {
        if (at < of->sizes[i]) return &of->bytes[i][at];
        at -= of->sizes[i];
    }
    return NULL;
}

/* Half of the damage hits the numbers and the small sections, where it does most. */
static uint64_t random_place(const dump *of) {
    uint64_t total = sizeof of->numbers, skip = sizeof of->numbers;
    for (int i = 0; i < OL_TABLE_SECTIONS; i++) total += of->sizes[i];
    if (ol_test_below(2) == 0) return ol_test_below(total);
    int section = (int)ol_test_below(OL_TABLE_SECTIONS + 1) - 1;
    if (section < 0 || of->sizes[section] == 0) return ol_test_below(sizeof of->numbers);
    for (int i = 0; i < section; i++) skip += of->sizes[i];
    return skip + ol_test_below(of->sizes[section]);
}

static void fuzz(dump *whole, int pairs, int rounds, int *accepted, int *refused) {
    static const uint8_t likely[] = {0, 1, 0xff, 0x7f, 0x80};
    for (int round = 0; round < rounds; round++) {
        uint64_t places[4];
        uint8_t before[4];
        int count = 1 + (int)ol_test_below(4), status;
        for (int i = 0; i < count; i++) {
            places[i] = i != 0 && ol_test_below(2) == 0 ? places[i - 1] + 1 : random_place(whole);
            uint8_t *byte = byte_of(whole, places[i]);
            if (byte == NULL) byte = byte_of(whole, places[i] = 0);
            before[i] = *byte;
            uint8_t flipped = (uint8_t)(*byte ^ (1u << ol_test_below(8)));
            *byte = ol_test_below(2) ? flipped : likely[ol_test_below(sizeof likely)];
        }
        ol_table *table = restore(whole, 1, &status);
        if (table != NULL) {
            use_wildly(table, whole, pairs);
            ol_table_destroy(table);
        }
        *(status == OL_OK ? accepted : refused) += 1;
        for (int i = count; i-- > 0;) *byte_of(whole, places[i]) = before[i];
    }
}

OL_TEST(changed_bytes_are_refused_or_harmless) {
    int wanted = (int)ol_test_depth(3000, 60000), accepted = 0, refused = 0;
    static table_model model;
    dump whole;
    create_model(&model);
    for (int i = 0; i < 3000; i++) step(&model, MODEL_PARTITIONS, 8);
    dump_table(model.table, &whole);
    hold_model(&model, &whole);
    OL_CHECK(whole.held_count > 3);
    fuzz(&whole, 40, wanted, &accepted, &refused);
    free_dump(&whole);
    ol_table_destroy(model.table);
    ol_table *table = wide_table(3000);
    dump_table(table, &whole);
    fuzz(&whole, 3000, wanted / 10, &accepted, &refused);
    free_dump(&whole);
    ol_table_destroy(table);
    printf("  %d refused, %d harmless\n", refused, accepted);
    OL_CHECK(accepted > 0 && refused > accepted / 2);
}

/* Sections that are cut off, or claim more bytes than there are. */
OL_TEST(sections_of_other_sizes_are_refused) {
    ol_table *table = wide_table(2000);
    dump whole;
    int status;
    dump_table(table, &whole);
    for (int i = 0; i < OL_TABLE_SECTIONS; i++) {
        size_t size = whole.sizes[i];
        if (size == 0) continue;
        for (size_t cut = 0; cut < size; cut += 1 + cut * 2) {
            whole.sizes[i] = cut;
            OL_CHECK(restore(&whole, 1, &status) == NULL);
        }
        whole.sizes[i] = size - 1;
        OL_CHECK(restore(&whole, 1, &status) == NULL);
        whole.sizes[i] = size;
    }
    free_dump(&whole);
    ol_table_destroy(table);
}

OL_TEST_MAIN()
