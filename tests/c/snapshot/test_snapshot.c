/* snapshot/open, encode and blocks: a file with any bytes in it is refused or does no harm. */
#include "base/crc32c.h"
#include "snapshot_fixture.h"

static void repair_checksums(container *file) {
    for (int i = 0; i < OL_SNAPSHOT_SECTIONS; i++) {
        ol_snapshot_section *section = &file->sections[i];
        section->crc = 0;
        for (size_t at = 0; at < section->size; at += OL_SNAPSHOT_BLOCK_SIZE) {
            size_t left = section->size - at;
            uint8_t crc[4];
            ol_store_u32(crc,
                         ol_crc32c(section->data + at,
                                   left < OL_SNAPSHOT_BLOCK_SIZE ? left : OL_SNAPSHOT_BLOCK_SIZE));
            section->crc = ol_crc32c_extend(section->crc, crc, 4);
        }
    }
    ol_snapshot_put_directory(file->sections, file->bytes + file->directory);
}

/* Half of the damage hits sections that are not the table's. */
static size_t random_place(const container *file) {
    const ol_snapshot_section *section;
    do {
        int among = ol_test_below(2) ? OL_SNAPSHOT_OWN_SECTIONS : OL_SNAPSHOT_SECTIONS;
        section = &file->sections[ol_test_below((uint64_t)among)];
    } while (section->size == 0);
    return (size_t)section->position + ol_test_below(section->size);
}

static void use_wildly(const ol_partition_options *options, ol_snapshot *snapshot) {
    ol_partition *partition = open_partition(options, false);
    ol_error error;
    ol_commit_result result;
    if (ol_partition_snapshot_check(partition, snapshot, -1, &error) != OL_OK) {
        ol_snapshot_destroy(snapshot);
        ol_partition_abandon(partition);
        return;
    }
    OL_CHECK_OK(ol_partition_load_from(partition, snapshot, &error), &error);
    (void)digest_of(partition);
    for (int i = 0; i < 12; i++) {
        char name[24];
        snprintf(name, sizeof name, "group-%d", i);
        OL_CHECK_OK(ol_partition_delete_group(partition, text(name), false, &result, &error), &error);
    }
    ol_log_transaction transaction;
    while (ol_partition_transaction_at(partition, 0, &transaction)) {
        OL_CHECK_OK(ol_partition_end_transaction(partition, transaction.producer_id, -1,
                                                 OL_CONTROL_COMMIT, 0, &result, &error),
                    &error);
    }
    (void)digest_of(partition);
    ol_partition_abandon(partition);
}

OL_TEST(a_file_whose_bytes_are_others_is_refused_or_harmless) {
    int wanted = (int)ol_test_depth(400, 8000), used = 0, refused = 0;
    ol_partition_options options = snapshot_options(fresh_directory());
    workload work = {.partition = open_partition(&options, true)};
    container file;
    ol_error error;
    work_some(&work, 700);
    flush_all(work.partition);
    ol_snapshot *snapshot = take_snapshot(work.partition, NULL);
    store_container(snapshot, options.log.directory, &file);
    ol_snapshot_destroy(snapshot);
    ol_partition_abandon(work.partition);
    /* Nothing gets through with wrong checksums. */
    for (int i = 0; i < 200; i++) {
        size_t place = random_place(&file);
        uint8_t bit = (uint8_t)(1u << ol_test_below(8));
        file.bytes[place] ^= bit;
        write_container(&file);
        OL_CHECK(open_container(&file, 1, &snapshot, &error) != OL_OK);
        file.bytes[place] ^= bit;
    }
    for (int round = 0; round < wanted; round++) {
        size_t places[3];
        uint8_t before[3];
        int count = 1 + (int)ol_test_below(3);
        for (int i = 0; i < count; i++) {
            places[i] = random_place(&file);
            before[i] = file.bytes[places[i]];
            file.bytes[places[i]] ^= (uint8_t)(1u << ol_test_below(8));
        }
        repair_checksums(&file);
        write_container(&file);
        if (open_container(&file, 1, &snapshot, &error) == OL_OK) {
            use_wildly(&options, snapshot);
            used++;
        } else {
            OL_CHECK(error.status == OL_CORRUPT || error.status == OL_UNSUPPORTED);
            refused++;
        }
        for (int i = count; i-- > 0;) file.bytes[places[i]] = before[i];
    }
    printf("  %d refused, %d harmless\n", refused, used);
    OL_CHECK(used > 0 && refused > 0);
    free_container(&file);
    remove_fixture();
}

/* An older engine's snapshot: its table lies otherwise in memory, and checksums do not tell. */
OL_TEST(another_version_or_layout_is_not_supported) {
    enum { VERSION_AT = 8, LAYOUT_AT = 12 };
    ol_partition_options options = snapshot_options(fresh_directory());
    workload work = {.partition = open_partition(&options, true)};
    container file;
    ol_error error;
    work_some(&work, 50);
    ol_snapshot *snapshot = take_snapshot(work.partition, NULL);
    store_container(snapshot, options.log.directory, &file);
    ol_snapshot_destroy(snapshot);
    static const int places[] = {VERSION_AT, LAYOUT_AT, LAYOUT_AT + 7};
    for (int i = 0; i < 3; i++) {
        uint8_t *byte = file.bytes + file.sections[0].position + places[i];
        *byte ^= 1;
        repair_checksums(&file);
        write_container(&file);
        OL_CHECK_INT(open_container(&file, 1, &snapshot, &error), OL_UNSUPPORTED);
        *byte ^= 1;
    }
    repair_checksums(&file);
    write_container(&file);
    OL_CHECK_OK(open_container(&file, 1, &snapshot, &error), &error);
    ol_snapshot_destroy(snapshot);
    free_container(&file);
    close_partition(work.partition);
    remove_fixture();
}

static void check_directory(container *file, int expected) {
    ol_snapshot *snapshot;
    ol_error error;
    ol_snapshot_put_directory(file->sections, file->bytes + file->directory);
    write_container(file);
    OL_CHECK_INT(open_container(file, 1, &snapshot, &error), expected);
    if (expected == OL_OK) ol_snapshot_destroy(snapshot);
}

OL_TEST(sections_that_lie_elsewhere_are_refused) {
    ol_partition_options options = snapshot_options(fresh_directory());
    workload work = {.partition = open_partition(&options, true)};
    container file;
    work_some(&work, 2500);
    ol_snapshot *snapshot = take_snapshot(work.partition, NULL);
    store_container(snapshot, options.log.directory, &file);
    ol_snapshot_destroy(snapshot);
    for (int i = 0; i < OL_SNAPSHOT_SECTIONS; i++) {
        ol_snapshot_section whole = file.sections[i], *section = &file.sections[i];
        static const int64_t positions[] = {-1, -4096, INT64_MAX, INT64_MAX - 4095};
        for (size_t k = 0; k < sizeof positions / sizeof *positions; k++) {
            section->position = positions[k];
            check_directory(&file, OL_CORRUPT);
        }
        section->position = (int64_t)file.size - (int64_t)whole.size + 4096;
        check_directory(&file, OL_CORRUPT);
        section->position = whole.position + 8;
        if (whole.size != 0) check_directory(&file, OL_CORRUPT);
        *section = whole;
        section->size = SIZE_MAX;
        check_directory(&file, OL_CORRUPT);
        section->size = whole.size + 1;
        check_directory(&file, OL_CORRUPT);
        *section = whole;
    }
    check_directory(&file, OL_OK);
    free_container(&file);
    close_partition(work.partition);
    remove_fixture();
}

OL_TEST(a_file_that_is_cut_or_ends_otherwise_is_refused) {
    ol_partition_options options = snapshot_options(fresh_directory());
    workload work = {.partition = open_partition(&options, true)};
    container file;
    ol_error error;
    work_some(&work, 100);
    ol_snapshot *snapshot = take_snapshot(work.partition, NULL);
    store_container(snapshot, options.log.directory, &file);
    ol_snapshot_destroy(snapshot);
    size_t whole = file.size;
    for (size_t size = 0; size < whole; size += size < whole - 1200 ? 1 + size / 8 : 1) {
        file.size = size;
        write_container(&file);
        OL_CHECK_INT(open_container(&file, 1, &snapshot, &error), OL_CORRUPT);
    }
    file.size = whole;
    for (size_t at = file.directory; at < whole; at++) {
        bool is_read = at < file.directory + OL_SNAPSHOT_DIRECTORY_SIZE ||
                       at >= file.directory + OL_SNAPSHOT_DIRECTORY_SIZE + 11;
        file.bytes[at] ^= 0x55;
        write_container(&file);
        int status = open_container(&file, 1, &snapshot, &error);
        if (is_read) OL_CHECK(status == OL_CORRUPT || status == OL_UNSUPPORTED);
        if (status == OL_OK) ol_snapshot_destroy(snapshot);
        file.bytes[at] ^= 0x55;
    }
    unlink(file.path);
    OL_CHECK_INT(open_container(&file, 1, &snapshot, &error), OL_NO_SUCH_FILE);
    free_container(&file);
    close_partition(work.partition);
    remove_fixture();
}

OL_TEST_MAIN()
