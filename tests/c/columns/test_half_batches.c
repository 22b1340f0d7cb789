/* Batches of which a part is cut, with a right checksum: no row of them is returned, in blocks of any size. */
#include "memory_scan.h"
#include "stored_codec.h"

/* The length of the second record passes the end of its batch. */
static void write_half_a_batch(void) {
    memory_log_clear(&the_log);
    memory_log_commits(&the_log, -1, 1);
    memory_log_commits(&the_log, -1, 2);
    uint8_t *records = memory_log_start(&the_log, 1) + OL_BATCH_AT_RECORDS;
    records[(memory_log_bits(&the_log, 1) / 8 - OL_BATCH_OVERHEAD) / 2] += 2;
    memory_log_renew_crc(&the_log, 1);
}

OL_TEST(half_a_batch_becomes_no_row) {
    write_half_a_batch();
    check_stop_of_every_way(OL_CORRUPT, 1, 1, 1);
}

/* Reads block after block of so many rows until damage ends it; the rows and what counted are those of the first batch. */
static void check_blocks(size_t capacity) {
    memory_scan s;
    size_t rows = 0;
    int status;
    begin_scan(&s, OL_VIEW_COMMITS, false, NULL);
    s.rows.capacity = capacity;
    while ((status = fill(&s)) == OL_OK) {
        rows += s.rows.count;
        ol_record_block_clear(&s.rows);
    }
    OL_CHECK_INT(status, OL_CORRUPT);
    OL_CHECK(!s.refused);
    OL_CHECK_INT(rows + s.rows.count, 1);
    OL_CHECK_INT(s.work.present, 1);
    OL_CHECK_INT(s.work.next_offset, 1);
    OL_CHECK_INT(s.file_scan.position, the_log.starts[1]);
    ol_record_block_clear(&s.rows);
    check_stop(&s, OL_CORRUPT, 1, 0, 1);
    end_scan(&s);
}

/* The rows before it are not returned, whether they are all in a block or in several. */
OL_TEST(damage_in_the_last_record_takes_the_rows_of_its_batch_back) {
    memory_log_clear(&the_log);
    memory_log_commits(&the_log, -1, 1);
    memory_log_commits(&the_log, -1, 4);
    uint8_t *records = memory_log_start(&the_log, 1) + OL_BATCH_AT_RECORDS;
    records[(memory_log_bits(&the_log, 1) / 8 - OL_BATCH_OVERHEAD) / 4 * 3] += 2;
    memory_log_renew_crc(&the_log, 1);
    for (size_t capacity = 1; capacity <= 7; capacity++) check_blocks(capacity);
}

/* The header says one record less than there are: what is left after the last one is damage. */
OL_TEST(bytes_after_the_last_record_take_the_rows_of_its_batch_back) {
    memory_log_clear(&the_log);
    memory_log_commits(&the_log, -1, 1);
    memory_log_commits(&the_log, -1, 4);
    ol_store_i32(memory_log_start(&the_log, 1) + OL_BATCH_AT_RECORD_COUNT, 3);
    memory_log_renew_crc(&the_log, 1);
    for (size_t capacity = 1; capacity <= 7; capacity++) check_blocks(capacity);
}

/* A record that cannot be decoded is reported alone only where its batch is whole. */
OL_TEST(a_refused_record_of_half_a_batch_is_not_reported) {
    memory_log_clear(&the_log);
    memory_log_commits(&the_log, -1, 1);
    memory_log_put_commit(&the_log, 0);
    memory_log_put(&the_log, ol_slice_null(), ol_slice_of("v", 1));
    memory_log_put_commit(&the_log, 1);
    memory_log_put_commit(&the_log, 2);
    memory_log_seal(&the_log, -1, 0);
    ol_store_i32(memory_log_start(&the_log, 1) + OL_BATCH_AT_RECORD_COUNT, 3);
    memory_log_renew_crc(&the_log, 1);
    for (size_t capacity = 1; capacity <= 7; capacity++) check_blocks(capacity);
}

OL_TEST(a_block_of_half_a_batch_is_released) {
    memory_scan s;
    stored_codec stored;
    ol_decompressor port = stored_port(&stored);
    write_half_a_batch();
    memory_log_compress(&the_log);
    begin_scan(&s, OL_VIEW_COMMITS, false, NULL);
    check_stop(&s, OL_UNSUPPORTED, 1, 1, 1);
    s.work.decompressor = &port;
    check_stop(&s, OL_CORRUPT, 1, 1, 1);
    OL_CHECK_INT(stored.held, 0);
    end_scan(&s);
}

OL_TEST_MAIN()
