/* Torn or corrupt (ol_log_open, log/recover): the rule of docs/durability.md. */
#include "log/files/flush_sidecar.h"
#include "recovery_fixture.h"

/* Ten batches, the first five flushed, which the sixth notes; then killed. */
static void leave_ten_batches(place *p) {
    place_make(p);
    ol_log *log = fixture_open(&p->options, NULL);
    append_many(log, 5, 100);
    flush(log);
    fixture_batch noted = fixture_plain(100, 5);
    noted.flushed_note = ol_log_take_flushed_record(log);
    OL_CHECK_INT(noted.flushed_note, 5);
    fixture_append(log, noted);
    OL_CHECK_INT(ol_log_take_flushed_record(log), -1);
    append_many(log, 4, 100);
    ol_log_abandon(log);
}

/* The same with damage at batch `damaged`; what the next open says. */
static ol_log *open_damaged(place *p, int damaged, bool keep_sidecar, bool replicated, ol_log_recovery *recovery) {
    leave_ten_batches(p);
    fixture_batch plain = fixture_plain(100, 0);
    flip_byte(p->path, FIRST_LOG, damaged * (int64_t)fixture_batch_size(&plain) + 80);
    char sidecar[OL_PATH_MAX];
    fixture_join(sidecar, p->path, OL_FLUSH_SIDECAR_FILE);
    if (!keep_sidecar) OL_CHECK(unlink(sidecar) == 0);
    p->options.replicated = replicated;
    return fixture_open(&p->options, recovery);
}

OL_TEST(a_bad_batch_below_the_sidecar_is_corrupt_and_nothing_is_cut) {
    place p;
    ol_log_recovery recovery;
    ol_log *log = open_damaged(&p, 2, true, false, &recovery);
    OL_CHECK(recovery.corrupt);
    OL_CHECK_INT(recovery.corruption.status, OL_CORRUPT);
    fixture_batch plain = fixture_plain(100, 0);
    OL_CHECK_INT(recovery.corruption.position, 2 * fixture_batch_size(&plain));
    OL_CHECK(strstr(recovery.corruption.path, FIRST_LOG) != NULL);
    OL_CHECK(!ol_log_is_writable(log));
    OL_CHECK_INT(ol_log_end(log), 10);
    OL_CHECK_INT(fixture_count(p.path, "broken-"), 0);
    ol_error error;
    uint8_t *start;
    int64_t base;
    OL_CHECK_INT(ol_log_reserve(log, 100, 0, 1, &start, &base, &error), OL_READ_ONLY);
    fixture_close(log);
    fixture_remove(p.root);
}

OL_TEST(a_bad_batch_below_a_later_flushed_header_is_corrupt_without_the_sidecar) {
    place p;
    ol_log_recovery recovery;
    ol_log *log = open_damaged(&p, 2, false, false, &recovery);
    OL_CHECK(recovery.corrupt);
    fixture_close(log);
    fixture_remove(p.root);
}

OL_TEST(a_flushed_header_of_a_batch_whose_checksum_is_wrong_is_not_believed) {
    place p;
    ol_log_recovery recovery;
    leave_ten_batches(&p);
    fixture_batch plain = fixture_plain(100, 0);
    int64_t size = (int64_t)fixture_batch_size(&plain);
    flip_byte(p.path, FIRST_LOG, 2 * size + 80);
    flip_byte(p.path, FIRST_LOG, 5 * size + 80);       /* in a value; the note stays readable */
    char sidecar[OL_PATH_MAX];
    fixture_join(sidecar, p.path, OL_FLUSH_SIDECAR_FILE);
    OL_CHECK(unlink(sidecar) == 0);
    ol_log *log = fixture_open(&p.options, &recovery);
    OL_CHECK(!recovery.corrupt);
    OL_CHECK_INT(ol_log_end(log), 2);
    OL_CHECK_INT(fixture_count(p.path, "broken-"), 1);
    fixture_close(log);
    fixture_remove(p.root);
}

OL_TEST(a_replicated_log_does_not_believe_flushed_headers) {
    place p;
    ol_log_recovery recovery;
    ol_log *log = open_damaged(&p, 2, false, true, &recovery);
    OL_CHECK(!recovery.corrupt);
    OL_CHECK_INT(ol_log_end(log), 2);
    fixture_close(log);
    fixture_remove(p.root);
}

OL_TEST(a_bad_batch_above_the_bound_is_copied_aside_and_cut) {
    place p;
    ol_log_recovery recovery;
    ol_log *log = open_damaged(&p, 7, true, false, &recovery);
    fixture_batch plain = fixture_plain(100, 0);
    size_t size = fixture_batch_size(&plain);
    OL_CHECK(!recovery.corrupt);
    OL_CHECK(ol_log_is_writable(log));
    OL_CHECK_INT(ol_log_end(log), 7);
    OL_CHECK_INT(ol_log_flushed(log), 7);
    fixture_batch noted = fixture_plain(100, 5);
    noted.flushed_note = 5;
    size_t kept = 6 * size + fixture_batch_size(&noted);
    OL_CHECK_INT(recovery.torn_position, kept);
    OL_CHECK_INT(recovery.torn_bytes, 4096 - kept);         /* the file was extended by a page */
    char copy[OL_PATH_MAX];
    size_t copy_size;
    char name[64];
    snprintf(name, sizeof name, "broken-00000000000000000000.log.%zu", kept);
    fixture_join(copy, p.path, name);
    uint8_t *bytes = fixture_read(copy, &copy_size);
    OL_CHECK_INT(copy_size, recovery.torn_bytes);
    OL_CHECK_INT(ol_load_i64(bytes), 7);
    OL_CHECK_INT(ol_load_i64(bytes + size), 8);
    free(bytes);
    OL_CHECK_INT(fixture_count(p.path, "broken-00000000000000000000.log."), 1);
    OL_CHECK(strstr(recovery.broken_path, "broken-") != NULL);
    OL_CHECK_INT(fixture_append(log, fixture_plain(100, 1)), 7);
    fixture_close(log);
    fixture_remove(p.root);
}

OL_TEST(a_read_only_open_of_a_torn_log_changes_nothing) {
    place p;
    ol_log_recovery recovery;
    ol_log *log = open_damaged(&p, 7, true, false, &recovery);
    fixture_close(log);
    fixture_remove(p.root);
    place_make(&p);
    log = fixture_open(&p.options, NULL);
    append_many(log, 10, 100);
    ol_log_abandon(log);
    flip_byte(p.path, FIRST_LOG, fixture_size(p.path, FIRST_LOG) - 1);
    int64_t before = fixture_size(p.path, FIRST_LOG);
    p.options.writable = false;
    log = fixture_open(&p.options, &recovery);
    OL_CHECK_INT(ol_log_end(log), 10);
    OL_CHECK_INT(fixture_size(p.path, FIRST_LOG), before);
    OL_CHECK_INT(fixture_count(p.path, "broken-"), 0);
    size_t size;
    free(fixture_read_log(log, 0, 500, &size));
    fixture_close(log);
    fixture_remove(p.root);
}

OL_TEST(a_tail_of_zeros_is_cut_without_a_copy) {
    place p;
    ol_log_recovery recovery;
    place_make(&p);
    ol_log *log = fixture_open(&p.options, NULL);
    append_many(log, 3, 100);
    ol_log_abandon(log);
    OL_CHECK(fixture_size(p.path, FIRST_LOG) >= 4096);
    log = fixture_open(&p.options, &recovery);
    OL_CHECK_INT(recovery.torn_bytes, 0);
    OL_CHECK_INT(recovery.torn_position, -1);
    OL_CHECK_INT(ol_log_end(log), 3);
    OL_CHECK(recovery.rewritten_bytes > 0);
    OL_CHECK_INT(fixture_count(p.path, "broken-"), 0);
    fixture_close(log);
    fixture_remove(p.root);
}

OL_TEST(a_log_cut_at_every_length_opens_with_its_whole_batches) {
    place p;
    place_make(&p);
    ol_log *log = fixture_open(&p.options, NULL);
    append_many(log, 4, 30);
    fixture_close(log);
    char path[OL_PATH_MAX];
    size_t size;
    fixture_join(path, p.path, FIRST_LOG);
    uint8_t *bytes = fixture_read(path, &size);
    fixture_batch plain = fixture_plain(30, 0);
    size_t batch_size = fixture_batch_size(&plain);
    for (size_t length = 0; length <= size; length++) {
        fixture_remove(p.path);
        mkdir(p.path, 0777);
        fixture_write(path, bytes, length);
        ol_log_recovery recovery;
        p.options.writable = length % 2 == 0;
        log = fixture_open(&p.options, &recovery);
        OL_CHECK_INT(ol_log_end(log), length / batch_size);
        bool zeros = true;
        for (size_t at = length - length % batch_size; at < length; at++) zeros = zeros && bytes[at] == 0;
        OL_CHECK_INT(recovery.torn_bytes, zeros ? 0 : length % batch_size);
        fixture_close(log);
    }
    free(bytes);
    fixture_remove(p.root);
}

OL_TEST(every_flipped_bit_of_the_first_batch_is_found) {
    place p;
    place_make(&p);
    ol_log *log = fixture_open(&p.options, NULL);
    append_many(log, 3, 20);
    fixture_close(log);
    char path[OL_PATH_MAX];
    size_t size;
    fixture_join(path, p.path, FIRST_LOG);
    uint8_t *bytes = fixture_read(path, &size);
    fixture_batch plain = fixture_plain(20, 0);
    p.options.writable = false;
    p.options.recovery_point = 3;
    for (size_t bit = 0; bit < 8 * fixture_batch_size(&plain); bit++) {
        ol_log_recovery recovery;
        bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
        fixture_write(path, bytes, size);
        log = fixture_open(&p.options, &recovery);
        /* The CRC does not cover base offset and leader epoch (docs/format/traps.md trap 5); a base that went up makes the next batch wrong. */
        bool epoch = bit / 8 >= OL_BATCH_AT_LEADER_EPOCH && bit / 8 < OL_BATCH_AT_MAGIC;
        OL_CHECK(recovery.corrupt || epoch);
        fixture_close(log);
        bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
    }
    free(bytes);
    fixture_remove(p.root);
}

/* Any client can store bytes that are a batch with an `ol.flushed`. */
OL_TEST(a_flushed_header_inside_a_record_is_not_believed) {
    for (int lost_behind = 0; lost_behind < 2; lost_behind++) {
        place p;
        ol_log_recovery recovery;
        place_make(&p);
        ol_log *log = fixture_open(&p.options, NULL);
        append_many(log, 10, 100);
        fixture_batch plain = fixture_plain(100, 0);
        int64_t position = 10 * (int64_t)fixture_batch_size(&plain);
        size_t size = fixture_append_carrier(log, 1000000, 1000000);
        append_many(log, 2, 100);
        ol_log_abandon(log);
        flip_byte(p.path, FIRST_LOG, position + 30);
        if (lost_behind) {
            char path[OL_PATH_MAX];
            uint8_t zeros[100] = {0};
            fixture_join(path, p.path, FIRST_LOG);
            int fd = open(path, O_RDWR);
            OL_CHECK(pwrite(fd, zeros, sizeof zeros, position + (int64_t)size) == (ssize_t)sizeof zeros);
            close(fd);
        }
        log = fixture_open(&p.options, &recovery);
        OL_CHECK(!recovery.corrupt);
        OL_CHECK_INT(ol_log_end(log), 10);
        fixture_close(log);
        fixture_remove(p.root);
    }
}

OL_TEST(after_a_clean_stop_damage_is_reported_without_any_other_bound) {
    for (int writable = 0; writable < 2; writable++) {
        for (int what = 0; what < 3; what++) {
            place p;
            ol_log_recovery recovery;
            char path[OL_PATH_MAX];
            place_make(&p);
            ol_log *log = fixture_open(&p.options, NULL);
            append_many(log, 10, 100);
            fixture_close(log);
            int64_t before = fixture_size(p.path, FIRST_LOG);
            fixture_batch plain = fixture_plain(100, 0);
            /* A value, the base offset, or a whole page of zeros after the end. */
            if (what < 2) flip_byte(p.path, FIRST_LOG, 4 * (int64_t)fixture_batch_size(&plain) + (what == 0 ? 80 : 4));
            fixture_join(path, p.path, FIRST_LOG);
            if (what == 2) OL_CHECK(truncate(path, before + 4096) == 0);
            fixture_join(path, p.path, OL_FLUSH_SIDECAR_FILE);
            OL_CHECK(unlink(path) == 0);
            p.options.clean = true;
            p.options.writable = writable != 0;
            log = fixture_open(&p.options, &recovery);
            OL_CHECK_INT(recovery.corrupt, what < 2);
            OL_CHECK_INT(recovery.torn_bytes, 0);
            OL_CHECK_INT(recovery.rewritten_bytes, 0);
            OL_CHECK_INT(ol_log_end(log), 10);
            if (what == 2) OL_CHECK_INT(ol_log_flushed(log), 10);
            OL_CHECK_INT(fixture_count(p.path, "broken-"), 0);
            fixture_close(log);
            OL_CHECK_INT(fixture_size(p.path, FIRST_LOG), what == 2 && !writable ? before + 4096 : before);
            fixture_remove(p.root);
        }
    }
}

OL_TEST(flushed_batches_that_are_gone_from_the_end_are_missed) {
    for (int mode = 0; mode < 8; mode++) {
        bool clean = mode & 1, sidecar = mode & 2, writable = mode & 4;
        place p;
        ol_log_recovery recovery;
        char path[OL_PATH_MAX];
        place_make(&p);
        ol_log *log = fixture_open(&p.options, NULL);
        append_many(log, 10, 100);
        flush(log);
        fixture_close(log);
        fixture_batch plain = fixture_plain(100, 0);
        fixture_join(path, p.path, FIRST_LOG);
        OL_CHECK(truncate(path, 6 * (int64_t)fixture_batch_size(&plain)) == 0);
        fixture_join(path, p.path, OL_FLUSH_SIDECAR_FILE);
        if (!sidecar) OL_CHECK(unlink(path) == 0);
        p.options.clean = clean;
        p.options.writable = writable;
        p.options.recovery_point = 10;
        log = fixture_open(&p.options, &recovery);
        OL_CHECK(recovery.is_lossy && !recovery.corrupt);
        OL_CHECK(!ol_log_is_writable(log));
        OL_CHECK_INT(ol_log_end(log), 6);
        OL_CHECK_INT(recovery.losses[0].from, 6);
        OL_CHECK_INT(recovery.losses[0].below, 10);
        fixture_close(log);
        fixture_remove(p.root);
    }
}

static void set_base_offset(const place *p, int64_t position, int64_t base_offset) {
    char path[OL_PATH_MAX];
    uint8_t bytes[8];
    ol_store_i64(bytes, base_offset);
    fixture_join(path, p->path, FIRST_LOG);
    int fd = open(path, O_RDWR);
    OL_CHECK(fd >= 0 && pwrite(fd, bytes, sizeof bytes, position) == (ssize_t)sizeof bytes);
    close(fd);
}

/* A batch that starts too low and fits the gap before it shows that one of the two offsets is wrong, and the gap begins
 * below the bound.  A batch with a wrong checksum shows nothing: the log is torn there. */
OL_TEST(a_batch_whose_checksum_is_wrong_does_not_dispute_the_gap_before_it) {
    for (int broken = 0; broken < 2; broken++) {
        place p;
        ol_log_recovery recovery;
        char path[OL_PATH_MAX];
        leave_ten_batches(&p);
        fixture_batch plain = fixture_plain(100, 0);
        int64_t size = (int64_t)fixture_batch_size(&plain);
        set_base_offset(&p, 2 * size, 7);
        if (broken) flip_byte(p.path, FIRST_LOG, 3 * size + 80);
        /* No later batch and no sidecar states a bound, and no manifest says that there is no gap. */
        fixture_join(path, p.path, FIRST_LOG);
        OL_CHECK(truncate(path, 4 * size) == 0);
        fixture_join(path, p.path, OL_FLUSH_SIDECAR_FILE);
        OL_CHECK(unlink(path) == 0);
        fixture_forget_manifest(p.path);
        p.options.recovery_point = 5;
        ol_log *log = fixture_open(&p.options, &recovery);
        OL_CHECK_INT(recovery.corrupt, !broken);
        OL_CHECK_INT(fixture_count(p.path, "broken-"), broken);
        fixture_close(log);
        fixture_remove(p.root);
    }
}

/* Eight batches, flushed; `behind` that are not, the first with an `ol.flushed`; killed.  *size is that of each of the eight. */
static void make_half_flushed(place *p, int behind, int64_t *size) {
    place_make(p);
    ol_log *log = fixture_open(&p->options, NULL);
    append_many(log, 8, 100);
    OL_CHECK_INT(flush(log), 8);
    if (behind > 0) {
        fixture_batch noted = fixture_plain(100, 8);
        noted.flushed_note = ol_log_take_flushed_record(log);
        OL_CHECK_INT(noted.flushed_note, 8);
        fixture_append(log, noted);
        append_many(log, behind - 1, 100);
    }
    ol_log_abandon(log);
    fixture_batch plain = fixture_plain(100, 0);
    *size = (int64_t)fixture_batch_size(&plain);
}

typedef enum witness { SIDECAR, CHECKPOINT, HEADER, WITNESSES } witness;

/* Without a manifest, as in a directory of another program: it would say that there is no gap. */
static void keep_one_witness(place *p, witness which) {
    char path[OL_PATH_MAX];
    fixture_forget_manifest(p->path);
    fixture_join(path, p->path, OL_FLUSH_SIDECAR_FILE);
    if (which != SIDECAR) OL_CHECK(unlink(path) == 0);
    p->options.recovery_point = which == CHECKPOINT ? 8 : -1;
}

/* No CRC covers it.  The batch that then seems to start too low is the next one, which nobody flushed. */
OL_TEST(rot_in_the_base_offset_of_the_last_flushed_batch_is_corrupt_by_every_witness) {
    for (int mode = 0; mode < 2 * WITNESSES; mode++) {
        place p;
        ol_log_recovery recovery;
        int64_t size;
        bool writable = mode % 2 == 0;
        make_half_flushed(&p, 4, &size);
        set_base_offset(&p, 7 * size, 7 + 8);
        int64_t before = fixture_size(p.path, FIRST_LOG);
        keep_one_witness(&p, mode / 2);
        p.options.writable = writable;
        ol_log *log = fixture_open(&p.options, &recovery);
        OL_CHECK(recovery.corrupt);
        /* The sidecar says where the flush ended; by the others it is one of the two. */
        OL_CHECK_INT(recovery.corruption.position, (mode / 2 == SIDECAR ? 7 : 8) * size);
        OL_CHECK_INT(recovery.torn_bytes, 0);
        OL_CHECK_INT(ol_log_end(log), 12);
        OL_CHECK(!ol_log_is_writable(log));
        fixture_close(log);
        OL_CHECK_INT(fixture_size(p.path, FIRST_LOG), before);
        OL_CHECK_INT(fixture_count(p.path, "broken-"), 0);
        fixture_remove(p.root);
    }
}

OL_TEST(rot_in_the_base_offset_of_the_last_batch_is_corrupt_when_it_was_flushed) {
    place p;
    ol_log_recovery recovery;
    int64_t size;
    make_half_flushed(&p, 0, &size);
    set_base_offset(&p, 7 * size, 7 + 8);
    ol_log *log = fixture_open(&p.options, &recovery);
    OL_CHECK(recovery.corrupt);
    OL_CHECK_INT(recovery.corruption.position, 7 * size);
    fixture_close(log);
    fixture_remove(p.root);
    /* Somebody who wrote on from there, by the checkpoint, may have compacted what the sidecar speaks of. */
    make_half_flushed(&p, 0, &size);
    set_base_offset(&p, 7 * size, 7 + 8);
    p.options.recovery_point = 16;
    p.options.changed_checkpoints = 2;
    p.options.cleaned_by_others = -1;
    log = fixture_open(&p.options, &recovery);
    OL_CHECK(!recovery.corrupt && !recovery.is_lossy);
    OL_CHECK_INT(recovery.losses[0].from, 7);
    OL_CHECK_INT(recovery.losses[0].below, 15);
    OL_CHECK_INT(ol_log_end(log), 16);
    fixture_close(log);
    fixture_remove(p.root);
}

OL_TEST(rot_in_the_base_offset_of_a_batch_that_nobody_flushed_is_torn_wherever_it_points) {
    static const int64_t bases[] = {0, 7, 8, 9 + 4};
    for (int i = 0; i < 4 * WITNESSES; i++) {
        place p;
        ol_log_recovery recovery;
        int64_t size;
        int64_t base = bases[i / WITNESSES];
        make_half_flushed(&p, 4, &size);
        fixture_batch noted = fixture_plain(100, 8);
        noted.flushed_note = 8;
        int64_t position = 8 * size + (int64_t)fixture_batch_size(&noted);
        set_base_offset(&p, position, base);
        keep_one_witness(&p, i % WITNESSES);
        ol_log *log = fixture_open(&p.options, &recovery);
        OL_CHECK(!recovery.corrupt);
        OL_CHECK(ol_log_is_writable(log));
        OL_CHECK(recovery.torn_bytes > 0);
        /* One that went up is a legal gap; the next one is in its way then. */
        OL_CHECK_INT(recovery.torn_position, base < 9 ? position : position + size);
        OL_CHECK_INT(fixture_count(p.path, "broken-"), 1);
        fixture_close(log);
        fixture_remove(p.root);
    }
}

/* The batches that nobody flushed are a segment of their own, which starts where the last flushed one now ends too late. */
OL_TEST(rot_in_the_last_base_offset_of_a_rolled_segment_is_corrupt_and_the_next_one_stays) {
    enum { BOTH = HEADER };
    for (int which = 0; which <= BOTH; which++) {
        place p;
        ol_log_recovery recovery;
        place_make(&p);
        p.options.config.segment_bytes = OL_SEGMENT_BYTES_MIN;
        ol_log *log = fixture_open(&p.options, NULL);
        append_many(log, 4, 900);
        OL_CHECK_INT(flush(log), 4);
        append_many(log, 2, 900);
        ol_log_abandon(log);
        OL_CHECK(fixture_exists(p.path, "00000000000000000004.log"));
        fixture_batch plain = fixture_plain(900, 0);
        set_base_offset(&p, 3 * (int64_t)fixture_batch_size(&plain), 3 + 4);
        if (which != BOTH) keep_one_witness(&p, which);
        if (which != SIDECAR) p.options.recovery_point = 4;
        log = fixture_open(&p.options, &recovery);
        OL_CHECK(recovery.corrupt);
        OL_CHECK_INT(recovery.segments_removed, 0);
        OL_CHECK(fixture_exists(p.path, "00000000000000000004.log"));
        OL_CHECK_INT(fixture_count(p.path, "broken-"), 0);
        OL_CHECK_INT(ol_log_end(log), 6);
        fixture_close(log);
        fixture_remove(p.root);
    }
}

/* A broker went on where we closed, rolled, compacted our last batches away and was killed before its next checkpoint, which therefore
 * says no more than our sidecar. */
OL_TEST(a_gap_across_the_bound_is_no_rot_where_another_segment_follows) {
    for (int followed = 0; followed < 2; followed++) {
        place p;
        ol_log_recovery recovery;
        int64_t size;
        char path[OL_PATH_MAX];
        size_t file_size;
        make_half_flushed(&p, 4, &size);
        fixture_join(path, p.path, FIRST_LOG);
        uint8_t *bytes = fixture_read(path, &file_size);
        memmove(bytes + 6 * size, bytes + 8 * size, file_size - (size_t)(8 * size));
        fixture_write(path, bytes, file_size - (size_t)(2 * size));
        free(bytes);
        fixture_join(path, p.path, "00000000000000000012.log");
        if (followed) fixture_write(path, "", 0);
        p.options.recovery_point = 8;
        p.options.changed_checkpoints = 2;
        p.options.cleaned_by_others = -1;
        ol_log *log = fixture_open(&p.options, &recovery);
        OL_CHECK_INT(recovery.corrupt, !followed);
        OL_CHECK_INT(ol_log_is_writable(log), followed);
        OL_CHECK_INT(ol_log_end(log), 12);
        fixture_close(log);
        fixture_remove(p.root);
    }
}

/* The bound of a flush during which another batch was appended names a position after the one of its offset. */
OL_TEST(a_flush_that_ends_between_batches_while_more_are_written_is_no_rot) {
    place p;
    ol_log_recovery recovery;
    int64_t size;
    make_half_flushed(&p, 4, &size);
    char path[OL_PATH_MAX];
    ol_error error;
    ol_flush_sidecar sidecar;
    ol_flush_sidecar_found found;
    fixture_join(path, p.path, OL_FLUSH_SIDECAR_FILE);
    OL_CHECK_OK(ol_flush_sidecar_load(p.options.fs, path, &found, &error), &error);
    ol_flush_sidecar_bound bound = found.bound;
    OL_CHECK_INT(bound.offset, 8);
    bound.position += 2 * size;
    OL_CHECK_OK(ol_flush_sidecar_open(&sidecar, p.options.fs, path, &error), &error);
    OL_CHECK_OK(ol_flush_sidecar_store(&sidecar, &bound, &error), &error);
    ol_flush_sidecar_close(&sidecar);
    ol_log *log = fixture_open(&p.options, &recovery);
    OL_CHECK(!recovery.corrupt);
    OL_CHECK_INT(ol_log_end(log), 12);
    fixture_close(log);
    fixture_remove(p.root);
}

/* The bytes of the first segment that a writer has stored by its `filled_at`th open. */
static struct {
    const uint8_t *bytes;
    size_t size;
    int filled_at;
    int opened;
} filling;

static int filling_open(ol_fs *fs OL_UNUSED, const char *path, ol_open_mode mode, ol_file **file, ol_error *error) {
    bool is_first = strstr(path, FIRST_LOG) != NULL;
    if (is_first && ++filling.opened == filling.filled_at) fixture_write(path, filling.bytes, filling.size);
    return ol_fs_posix()->open(ol_fs_posix(), path, mode, file, error);
}

/* Opens, to read, a log whose fourth batch and all after it a writer stores meanwhile, the one at `flipped` wrongly;
 * returns how often the segment was opened. */
static int open_while_filled(int filled_at, int flipped, int64_t *end, ol_log_recovery *recovery) {
    place p;
    leave_ten_batches(&p);
    char path[OL_PATH_MAX];
    fixture_join(path, p.path, OL_FLUSH_SIDECAR_FILE);
    OL_CHECK(unlink(path) == 0);
    fixture_join(path, p.path, FIRST_LOG);
    fixture_batch plain = fixture_plain(100, 0);
    size_t each = fixture_batch_size(&plain);
    uint8_t *bytes = fixture_read(path, &filling.size);
    if (flipped >= 0) bytes[(size_t)flipped * each + 80] ^= 0x40;
    fixture_write(path, bytes, 3 * each + 70);
    filling.bytes = bytes;
    filling.filled_at = filled_at;
    filling.opened = 0;
    ol_fs fs = *ol_fs_posix();
    fs.open = filling_open;
    p.options.fs = &fs;
    p.options.writable = false;
    ol_log *log = fixture_open(&p.options, recovery);
    *end = ol_log_end(log);
    fixture_close(log);
    free(bytes);
    fixture_remove(p.root);
    return filling.opened;
}

OL_TEST(a_place_that_is_filled_while_it_is_read_is_not_corrupt) {
    ol_log_recovery recovery;
    int64_t end;
    int opened = open_while_filled(INT32_MAX, -1, &end, &recovery);
    OL_CHECK(opened > 2);
    OL_CHECK_INT(end, 3);
    OL_CHECK(!recovery.corrupt);
    int whole = 0;
    for (int filled_at = 1; filled_at <= opened; filled_at++) {
        (void)open_while_filled(filled_at, -1, &end, &recovery);
        OL_CHECK(!recovery.corrupt);
        OL_CHECK(end == 3 || end == 10);
        whole += end == 10;
        /* A batch that is still wrong when the next one is there is damaged. */
        (void)open_while_filled(filled_at, 4, &end, &recovery);
        OL_CHECK(recovery.corrupt ? end == 10 : end == 3);
    }
    OL_CHECK(whole >= 3);
    (void)open_while_filled(1, 4, &end, &recovery);
    OL_CHECK(recovery.corrupt);
}

OL_TEST_MAIN()
