/* testing/fault_crash: that the states which a power loss may leave are those of the model in testing/fault_fs.h, each of them, and no other. */
#include "testing/fault_disk.h"
#include "ol_test.h"
#include "ol_test_directory.h"

enum { DRAWS = 400 };

static char directory[256];
static char target[256];
static ol_error error;

/* Makes the file `size` bytes long, all of them `letter`. */
static void fill(const char *name, char letter, size_t size) {
    char *bytes = malloc(size + 1);
    memset(bytes, letter, size);
    ol_test_write_file(ol_test_path(directory, name), bytes, size);
    free(bytes);
}

static ol_fault_node *add_file(ol_fault_disk *disk, const char *name, char letter, size_t size) {
    ol_file *reader;
    fill(name, letter, size);
    OL_CHECK_OK(disk->real->open(disk->real, ol_test_path(directory, name), OL_OPEN_READ, &reader, &error), &error);
    ol_fault_node *node = ol_fault_disk_add_node(disk, false, reader);
    ol_fault_disk_link(disk, disk->root, name, node);
    return node;
}

static ol_fault_node *add_durable(ol_fault_disk *disk, const char *name, char letter, size_t size) {
    ol_fault_node *node = add_file(disk, name, letter, size);
    OL_CHECK_OK(ol_fault_node_flush(disk, node, &error), &error);
    ol_fault_disk_flush_all_names(disk);
    return node;
}

static void begin(ol_fault_disk *disk) {
    ol_test_directory_make(directory);
    ol_fault_disk_open(disk, ol_fs_posix());
}

static void end(ol_fault_disk *disk) {
    ol_fault_disk_close(disk);
    ol_test_directory_remove(directory);
}

/* One letter a page, '0' for zeros and '?' for a page of more than one; "-" where there is no such file. */
static void draw(const ol_fault_disk *disk, uint64_t seed, bool everything, const char *name, char state[16]) {
    uint8_t *bytes = NULL;
    size_t size = 0;
    ol_test_directory_make(target);
    OL_CHECK_OK(ol_fault_disk_materialize(disk, target, seed, everything, &error), &error);
    int status = ol_fs_read_file(ol_fs_posix(), ol_test_path(target, name), 1 << 20, &bytes, &size, &error);
    size_t length = 0;
    if (status == OL_OK) {
        for (size_t at = 0; at < size; at += OL_FAULT_PAGE) {
            char letter = bytes[at] == 0 ? '0' : (char)bytes[at];
            for (size_t i = at; i < size && i < at + OL_FAULT_PAGE; i++) letter = bytes[i] == bytes[at] ? letter : '?';
            state[length++] = letter;
        }
    } else {
        OL_CHECK_INT(status, OL_NO_SUCH_FILE);
        state[length++] = '-';
    }
    state[length] = '\0';
    free(bytes);
    ol_test_directory_remove(target);
}

/* Every one of the states is drawn, and nothing else is. */
static void check_states(const ol_fault_disk *disk, const char *name, const char *const *states, size_t count) {
    bool seen[16] = {false};
    for (uint64_t seed = 0; seed < DRAWS; seed++) {
        char state[16];
        size_t at = 0;
        draw(disk, seed, false, name, state);
        while (at < count && strcmp(states[at], state) != 0) at++;
        if (at == count) fprintf(stderr, "%s became \"%s\"\n", name, state);
        OL_CHECK(at < count);
        seen[at] = true;
    }
    for (size_t i = 0; i < count; i++) {
        if (!seen[i]) fprintf(stderr, "%s never became \"%s\"\n", name, states[i]);
        OL_CHECK(seen[i]);
    }
}

#define CHECK_STATES(disk, name, ...) \
    do { \
        static const char *const states[] = {__VA_ARGS__}; \
        check_states(disk, name, states, sizeof states / sizeof *states); \
    } while (0)

static void capture(ol_fault_disk *disk) { OL_CHECK_OK(ol_fault_disk_capture(disk, &error), &error); }

OL_TEST(what_was_flushed_is_there_in_every_state) {
    ol_fault_disk disk;
    begin(&disk);
    add_durable(&disk, "f", 'a', 2 * OL_FAULT_PAGE);
    capture(&disk);
    CHECK_STATES(&disk, "f", "aa");
    end(&disk);
}

OL_TEST(each_page_that_was_written_is_kept_or_lost_for_itself) {
    ol_fault_disk disk;
    begin(&disk);
    add_durable(&disk, "f", 'a', 2 * OL_FAULT_PAGE);
    fill("f", 'b', 2 * OL_FAULT_PAGE);
    capture(&disk);
    CHECK_STATES(&disk, "f", "aa", "ab", "ba", "bb");
    end(&disk);
}

OL_TEST(growth_that_is_lost_takes_its_pages_along) {
    ol_fault_disk disk;
    begin(&disk);
    add_durable(&disk, "f", 'a', OL_FAULT_PAGE);
    fill("f", 'a', 3 * OL_FAULT_PAGE);
    capture(&disk);
    CHECK_STATES(&disk, "f", "a", "a00", "aa0", "a0a", "aaa");
    end(&disk);
}

/* Cut to one page and grown to three: the old bytes come back only where the cut itself is lost, and then none of the new ones are there. */
OL_TEST(bytes_that_were_cut_do_not_come_back_between_newer_ones) {
    ol_fault_disk disk;
    begin(&disk);
    ol_fault_node *node = add_durable(&disk, "f", 'a', 2 * OL_FAULT_PAGE);
    fill("f", 'a', OL_FAULT_PAGE);
    ol_fault_node_cut(node, OL_FAULT_PAGE);
    char *bytes = malloc(3 * OL_FAULT_PAGE);
    memset(bytes, 'a', OL_FAULT_PAGE);
    memset(bytes + OL_FAULT_PAGE, 'b', 2 * OL_FAULT_PAGE);
    ol_test_write_file(ol_test_path(directory, "f"), bytes, 3 * OL_FAULT_PAGE);
    free(bytes);
    capture(&disk);
    CHECK_STATES(&disk, "f", "aa", "a", "a00", "ab0", "a0b", "abb");
    end(&disk);
}

OL_TEST(names_that_no_flush_covers_survive_as_a_prefix) {
    ol_fault_disk disk;
    begin(&disk);
    add_durable(&disk, "old", 'a', OL_FAULT_PAGE);
    OL_CHECK_OK(ol_fault_disk_rename(&disk, disk.root, "old", disk.root, "new", &error), &error);
    OL_CHECK_OK(ol_fault_node_flush(&disk, add_file(&disk, "late", 'c', OL_FAULT_PAGE), &error), &error);
    OL_CHECK_OK(ol_fault_disk_unlink(&disk, disk.root, "new", &error), &error);
    capture(&disk);
    CHECK_STATES(&disk, "old", "a", "-");
    CHECK_STATES(&disk, "new", "a", "-");
    CHECK_STATES(&disk, "late", "c", "-");
    for (uint64_t seed = 0; seed < DRAWS; seed++) {
        char old[16], new[16], late[16];
        draw(&disk, seed, false, "old", old);
        draw(&disk, seed, false, "new", new);
        draw(&disk, seed, false, "late", late);
        /* None of the three steps, one, two or all. */
        OL_CHECK(strcmp(old, "a") != 0 || (strcmp(new, "-") == 0 && strcmp(late, "-") == 0));
        OL_CHECK(strcmp(old, "-") != 0 || strcmp(new, "a") == 0 || strcmp(late, "c") == 0);
    }
    end(&disk);
}

OL_TEST(files_are_drawn_apart_whatever_other_files_there_are) {
    char alone[64][16], beside[64][16];
    for (int more = 0; more < 2; more++) {
        ol_fault_disk disk;
        begin(&disk);
        add_durable(&disk, "f", 'a', 3 * OL_FAULT_PAGE);
        if (more) add_durable(&disk, "g", 'a', OL_FAULT_PAGE);
        fill("f", 'b', 3 * OL_FAULT_PAGE);
        if (more) fill("g", 'b', OL_FAULT_PAGE);
        capture(&disk);
        for (uint64_t seed = 0; seed < 64; seed++) draw(&disk, seed, false, "f", more ? beside[seed] : alone[seed]);
        end(&disk);
    }
    for (int seed = 0; seed < 64; seed++) OL_CHECK(strcmp(alone[seed], beside[seed]) == 0);
}

OL_TEST(a_killed_process_leaves_everything_directories_included) {
    ol_fault_disk disk;
    char state[16];
    begin(&disk);
    add_durable(&disk, "f", 'a', OL_FAULT_PAGE);
    fill("f", 'b', 2 * OL_FAULT_PAGE);
    ol_fault_node *inner = ol_fault_disk_add_node(&disk, true, NULL);
    ol_fault_disk_link(&disk, disk.root, "inner", inner);
    add_file(&disk, "g", 'c', OL_FAULT_PAGE);
    OL_CHECK_OK(ol_fault_disk_rename(&disk, disk.root, "g", inner, "h", &error), &error);
    capture(&disk);
    draw(&disk, 1, true, "f", state);
    OL_CHECK(strcmp(state, "bb") == 0);
    draw(&disk, 1, true, "g", state);
    OL_CHECK(strcmp(state, "-") == 0);
    draw(&disk, 1, true, "inner/h", state);
    OL_CHECK(strcmp(state, "c") == 0);
    end(&disk);
}

OL_TEST(a_target_that_is_not_empty_is_refused) {
    ol_fault_disk disk;
    begin(&disk);
    add_durable(&disk, "f", 'a', OL_FAULT_PAGE);
    capture(&disk);
    ol_test_directory_make(target);
    ol_test_write_file(ol_test_path(target, "f"), "x", 1);
    OL_CHECK(ol_fault_disk_materialize(&disk, target, 1, true, &error) != OL_OK);
    ol_test_directory_remove(target);
    end(&disk);
}

OL_TEST_MAIN()
