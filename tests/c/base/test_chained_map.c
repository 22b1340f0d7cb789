/* base/chained_map: beside an array that says which entries are there, with hashes that are the same; memory that runs out. */
#include "base/chained_map.h"

#include "fault_memory.h"
#include "ol_test.h"

enum { ENTRIES = 300, STEPS = 20000 };

typedef struct entry {
    ol_chained_entry link;
    int number;
    bool is_there;
} entry;

static entry entries[ENTRIES];

/* Few hashes, so that many entries share one; of some only the low bits are the same. */
static void make_entries(void) {
    for (int i = 0; i < ENTRIES; i++) {
        uint64_t hash = ol_test_below(40);
        if (ol_test_below(2) == 0) hash |= ol_test_random() << 32;
        entries[i] = (entry){.link.hash = hash, .number = i};
    }
}

static bool is_found(const ol_chained_map *map, const entry *wanted) {
    size_t times = 0;
    for (ol_chained_entry *each = ol_chained_map_first(map, wanted->link.hash); each != NULL; each = each->next) {
        if (each->hash == wanted->link.hash && ((entry *)each)->number == wanted->number) times++;
    }
    OL_CHECK(times <= 1);
    return times == 1;
}

static void check_all(const ol_chained_map *map) {
    size_t count = 0;
    for (int i = 0; i < ENTRIES; i++) {
        OL_CHECK_INT(is_found(map, &entries[i]), entries[i].is_there);
        count += entries[i].is_there;
    }
    OL_CHECK_INT(map->count, count);
    OL_CHECK((map->bucket_count & (map->bucket_count - 1)) == 0 && map->bucket_count >= map->count);
}

OL_TEST(entries_come_and_go) {
    ol_chained_map map = {0};
    ol_error error;
    make_entries();
    check_all(&map);
    for (int step = 0; step < STEPS; step++) {
        entry *each = &entries[ol_test_below(ENTRIES)];
        if (each->is_there) {
            ol_chained_map_remove(&map, &each->link);
        } else {
            OL_CHECK_OK(ol_chained_map_reserve(&map, &error), &error);
            ol_chained_map_add(&map, &each->link);
        }
        each->is_there = !each->is_there;
        OL_CHECK_INT(is_found(&map, each), each->is_there);
        if (step % 500 == 0) check_all(&map);
    }
    check_all(&map);
    ol_chained_map_free(&map);
    OL_CHECK(map.count == 0 && ol_chained_map_first(&map, 1) == NULL);
}

OL_TEST(growth_that_finds_no_memory_changes_nothing) {
    ol_chained_map map = {0};
    ol_error error;
    make_entries();
    int refused = 0;
    for (int i = 0; i < ENTRIES; i++) {
        fault_memory_at(1);
        int status = ol_chained_map_reserve(&map, &error);
        fault_memory_at(0);
        if (status != OL_OK) {
            OL_CHECK_INT(status, OL_NO_MEMORY);
            check_all(&map);
            refused++;
            OL_CHECK_OK(ol_chained_map_reserve(&map, &error), &error);
        }
        ol_chained_map_add(&map, &entries[i].link);
        entries[i].is_there = true;
    }
    OL_CHECK_INT(refused, 6);       /* 16, 32, 64, 128, 256, 512 buckets */
    check_all(&map);
    ol_chained_map_free(&map);
}

OL_TEST_MAIN()
