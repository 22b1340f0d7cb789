#include "testing/fault_disk.h"
#include "ol_test.h"
#include "ol_test_directory.h"

static char directory[256];
static char target[256];
static ol_error error;

static bool in_target(const char *name) { return access(ol_test_path(target, name), F_OK) == 0; }

static ol_fault_node *add_file(ol_fault_disk *disk, const char *name, const char *text) {
    ol_file *reader;
    const char *path = ol_test_path(directory, name);
    ol_test_write_file(path, text, strlen(text));
    OL_CHECK_OK(disk->real->open(disk->real, path, OL_OPEN_READ, &reader, &error), &error);
    ol_fault_node *node = ol_fault_disk_add_node(disk, false, reader);
    ol_fault_disk_link(disk, disk->root, name, node);
    return node;
}

OL_TEST(a_flushed_directory_leaves_the_journal) {
    ol_fault_disk disk;
    ol_test_directory_make(directory);
    ol_fault_disk_open(&disk, ol_fs_posix());
    ol_fault_node *inner = ol_fault_disk_add_node(&disk, true, NULL);
    add_file(&disk, "a", "text");
    ol_fault_disk_link(&disk, disk.root, "inner", inner);
    OL_CHECK_OK(ol_fault_disk_rename(&disk, disk.root, "a", inner, "b", &error), &error);
    OL_CHECK_INT(disk.journal_count, 3);
    OL_CHECK(ol_fault_disk_find(&disk, disk.root, "a", 1) == NULL);
    OL_CHECK(ol_fault_disk_find(&disk, inner, "b", 1) != NULL);
    OL_CHECK(ol_fault_disk_find(&disk, inner, "bc", 1) != NULL);
    ol_fault_disk_flush_directory(&disk, disk.root);
    OL_CHECK_INT(disk.journal_count, 1);    /* the rename ends in the other directory */
    OL_CHECK_INT(disk.durable.count, 2);
    ol_fault_disk_flush_all_names(&disk);
    OL_CHECK_INT(disk.journal_count, 0);
    OL_CHECK_OK(ol_fault_disk_unlink(&disk, inner, "b", &error), &error);
    OL_CHECK_INT(disk.durable.count, 2);
    OL_CHECK_INT(disk.current.count, 1);
    ol_fault_disk_close(&disk);
    ol_test_directory_remove(directory);
}

OL_TEST(equal_seeds_give_equal_states) {
    ol_fault_disk disk;
    ol_test_directory_make(directory);
    ol_fault_disk_open(&disk, ol_fs_posix());
    char name[2] = "a";
    for (; name[0] < 'k'; name[0]++) OL_CHECK_OK(ol_fault_node_flush(&disk, add_file(&disk, name, name), &error), &error);
    OL_CHECK_OK(ol_fault_disk_capture(&disk, &error), &error);
    unsigned different = 0;
    for (uint64_t seed = 0; seed < 30; seed++) {
        size_t counts[2] = {0, 0};
        for (int again = 0; again < 2; again++) {
            ol_test_directory_make(target);
            OL_CHECK_OK(ol_fault_disk_materialize(&disk, target, seed, false, &error), &error);
            /* A prefix of the journal: no name without those before it. */
            for (name[0] = 'a'; name[0] < 'k' && in_target(name); name[0]++) counts[again]++;
            for (; name[0] < 'k'; name[0]++) OL_CHECK(!in_target(name));
            ol_test_directory_remove(target);
        }
        OL_CHECK_INT(counts[0], counts[1]);
        different |= 1u << counts[0];
    }
    OL_CHECK(__builtin_popcount(different) > 5);
    ol_test_directory_make(target);
    OL_CHECK_OK(ol_fault_disk_materialize(&disk, target, 1, true, &error), &error);
    OL_CHECK(in_target("a") && in_target("j"));
    ol_test_directory_remove(target);
    ol_fault_disk_close(&disk);
    ol_test_directory_remove(directory);
}

OL_TEST_MAIN()
