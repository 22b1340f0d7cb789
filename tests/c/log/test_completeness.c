/* Whether anything is missing: the segments, the end of the log, the sidecar, the swaps (log/completeness). */
#include "base/hash.h"
#include "completeness_fixture.h"

/* Closed segments at 0, 16 and 32, the active one at 48 with ten batches. */
enum { BATCHES = 58, LAST_BASE = 48 };

OL_TEST(a_log_that_nobody_harmed_is_complete) {
    for (int clean = 0; clean < 2; clean++) {
        for (int count = 0; count <= 3 * SEGMENT_BATCHES + 1; count++) {
            place p;
            if (count % SEGMENT_BATCHES > 1 && count % SEGMENT_BATCHES < SEGMENT_BATCHES - 1) continue;
            scene_make(&p, count, clean);
            CHECK_COMPLETE(&p);
            fixture_remove(p.root);
        }
    }
}

/* -------------------------------------------------------------------------------- closed segments */

OL_TEST(a_missing_segment_is_lost) {
    for (int clean = 0; clean < 2; clean++) {
        for (int64_t base = 0; base <= LAST_BASE; base += SEGMENT_BATCHES) {
            place p;
            scene_make(&p, BATCHES, clean);
            scene_remove_segment(&p, base);
            CHECK_FINDINGS(&p, {true, base, base < LAST_BASE ? base + SEGMENT_BATCHES : BATCHES});
            fixture_remove(p.root);
        }
    }
}

OL_TEST(several_missing_segments_are_lost_each_with_its_range) {
    place p;
    scene_make(&p, BATCHES, true);
    scene_remove_segment(&p, 0);
    scene_remove_segment(&p, 32);
    CHECK_FINDINGS(&p, {true, 0, 16}, {true, 32, 48});
    scene_remove_segment(&p, 16);
    scene_remove_segment(&p, 48);
    CHECK_FINDINGS(&p, {true, 0, 16}, {true, 16, 32}, {true, 32, 48}, {true, 0, 58});
    fixture_remove(p.root);
}

/* Cut between two batches, and emptied. */
OL_TEST(a_segment_that_ends_early_is_lost_from_there) {
    for (int clean = 0; clean < 2; clean++) {
        for (int64_t base = 0; base <= LAST_BASE; base += SEGMENT_BATCHES) {
            int64_t end = base < LAST_BASE ? base + SEGMENT_BATCHES : BATCHES;
            for (int64_t kept = 0; kept < end - base; kept += kept == 1 ? end - base - 2 : 1) {
                place p;
                scene_make(&p, BATCHES, clean);
                scene_cut_segment(&p, base, kept * BATCH_SIZE);
                CHECK_FINDINGS(&p, {true, base + kept, end});
                fixture_remove(p.root);
            }
        }
    }
}

/* No CRC covers a base offset: a wrong one must not make the range of what is missing smaller. */
OL_TEST(a_segment_that_ends_early_and_has_a_wrong_base_offset) {
    static const int64_t wrong[] = {0, 18, 20, 21, 24, 25, 26, 30, 31, 32, 40, 60, INT64_C(1) << 46, INT64_MAX - 1, -5};
    enum { BASE = 16, THERE = 10 };
    for (int clean = 0; clean < 2; clean++) {
        for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
            for (int which = 0; which < THERE; which += 3) {
                place p;
                ol_log_recovery found;
                char path[OL_PATH_MAX];
                uint8_t bytes[8];
                scene_make(&p, BATCHES, clean);
                scene_cut_segment(&p, BASE, THERE * BATCH_SIZE);
                scene_path(&p, "00000000000000000016.log", path);
                ol_store_i64(bytes, wrong[i]);
                int fd = open(path, O_RDWR);
                OL_CHECK(pwrite(fd, bytes, sizeof bytes, which * BATCH_SIZE) == sizeof bytes);
                close(fd);
                ol_log *log = fixture_open(&p.options, &found);
                OL_CHECK(found.is_lossy);
                for (int64_t lost = BASE + THERE; lost < BASE + SEGMENT_BATCHES; lost++) {
                    bool is_covered = false;
                    for (size_t k = 0; k < found.loss_count; k++) {
                        is_covered |= found.losses[k].from <= lost && lost < found.losses[k].below;
                    }
                    OL_CHECK(is_covered);
                }
                for (size_t k = 0; k < found.loss_count; k++) {
                    /* The batches before the wrong one are there: a leader of ours leaves no gap. */
                    OL_CHECK(found.losses[k].from >= BASE + which && found.losses[k].below <= BASE + SEGMENT_BATCHES);
                    OL_CHECK(found.losses[k].from < found.losses[k].below);
                }
                ol_log_abandon(log);
                fixture_remove(p.root);
            }
        }
    }
}

/* The rest of the batch is damage in the active segment, which every open reads; a closed one is read after an unclean
 * stop. */
OL_TEST(a_segment_that_ends_within_a_batch) {
    for (int clean = 0; clean < 2; clean++) {
        for (int64_t base = 0; base <= LAST_BASE; base += SEGMENT_BATCHES) {
            place p;
            scene_make(&p, BATCHES, clean);
            scene_cut_segment(&p, base, 3 * BATCH_SIZE + 100);
            if (base == LAST_BASE) {
                CHECK_CORRUPT(&p);
            } else if (clean) {
                CHECK_FINDINGS(&p, {true, base + 3, base + SEGMENT_BATCHES});
            } else {
                CHECK_CORRUPT(&p, {true, base + 3, base + SEGMENT_BATCHES});
            }
            fixture_remove(p.root);
        }
    }
}

/* More than was written is no loss: it is damage where it is read, unless it is zeros. */
OL_TEST(a_segment_that_is_longer) {
    for (int mode = 0; mode < 6; mode++) {
        bool clean = mode & 1;
        place p;
        char path[OL_PATH_MAX];
        uint8_t more[BATCH_SIZE];
        scene_make(&p, BATCHES, clean);
        scene_path(&p, "00000000000000000016.log", path);
        int fd = open(path, O_RDWR);
        OL_CHECK(fd >= 0);
        memset(more, mode / 2 == 0 ? 0 : 0x5a, sizeof more);
        if (mode / 2 == 2) OL_CHECK(pread(fd, more, sizeof more, 5 * BATCH_SIZE) == BATCH_SIZE);
        OL_CHECK(pwrite(fd, more, sizeof more, SEGMENT_SIZE) == BATCH_SIZE);
        close(fd);
        if (clean || mode / 2 == 0) CHECK_COMPLETE(&p);
        else CHECK_CORRUPT(&p);
        fixture_remove(p.root);
    }
}

/* As long as it was, of right batches, and another: somebody took it from another log, or from a backup. */
OL_TEST(a_segment_with_other_batches_is_lost) {
    for (int clean = 0; clean < 2; clean++) {
        place p;
        char path[OL_PATH_MAX];
        scene_make(&p, BATCHES, clean);
        uint8_t *bytes = calloc(1, SEGMENT_SIZE);
        for (int i = 0; i < SEGMENT_BATCHES; i++) {
            fixture_batch batch = scene_batch(77);
            batch.base_offset = 16 + i;
            fixture_encode(&batch, bytes + i * BATCH_SIZE);
        }
        scene_path(&p, "00000000000000000016.log", path);
        fixture_write(path, bytes, SEGMENT_SIZE);
        free(bytes);
        /* A clean stop leaves the closed segments unread. */
        if (clean) CHECK_COMPLETE(&p);
        else CHECK_FINDINGS(&p, {true, 16, 32});
        fixture_remove(p.root);
    }
}

/* Opens that read nothing of the closed segments know their checksums from the manifest, and hand them on. */
OL_TEST(checksums_stay_over_opens) {
    place p;
    scene_make(&p, BATCHES, true);
    for (int i = 0; i < 4; i++) {
        ol_manifest manifest = {0};
        scene_load_manifest(&p, &manifest);
        OL_CHECK_INT(manifest.segment_count, 3 + i);
        for (size_t k = 0; k < manifest.segment_count; k++) OL_CHECK(manifest.segments[k].has_checksum);
        ol_manifest_free(&manifest);
        ol_log *log = fixture_open(&p.options, NULL);
        scene_append(log, SEGMENT_BATCHES);
        p.options.recovery_point = ol_log_end(log);
        fixture_close(log);
    }
    p.options.clean = false;
    p.options.recovery_point = -1;
    CHECK_COMPLETE(&p);
    fixture_remove(p.root);
}

/* Proven loss leaves everything as it is, an unfinished tail as well. */
OL_TEST(what_is_torn_beside_a_loss_is_not_cut) {
    place p;
    char path[OL_PATH_MAX];
    scene_make(&p, BATCHES, false);
    scene_remove_segment(&p, 16);
    scene_path(&p, "00000000000000000048.log", path);
    int fd = open(path, O_RDWR);
    OL_CHECK(fd >= 0 && pwrite(fd, "torn", 4, (BATCHES - LAST_BASE) * BATCH_SIZE) == 4);
    close(fd);
    CHECK_FINDINGS(&p, {true, 16, 32});
    OL_CHECK_INT(fixture_count(p.path, "broken-"), 0);
    fixture_remove(p.root);
}

/* A segment that was the active one when the manifest was stored, and was closed since: what had been flushed of it is
 * bound.  A roll without a flush leaves the manifest as it was. */
OL_TEST(the_active_segment_of_the_manifest_is_missed_where_others_follow) {
    for (int mode = 0; mode < 3; mode++) {
        place p;
        scene_place(&p);
        ol_log *log = fixture_open(&p.options, NULL);
        scene_append(log, BATCHES);
        flush(log);
        fixture_close(log);
        p.options.witnessed = true;
        p.options.recovery_point = BATCHES;
        log = fixture_open(&p.options, NULL);
        scene_append(log, 3 * SEGMENT_BATCHES);
        ol_log_abandon(log);
        if (mode == 0) scene_remove_segment(&p, LAST_BASE);
        /* Nothing is promised of batches that came after the flush. */
        if (mode == 1) scene_cut_segment(&p, LAST_BASE, (BATCHES - LAST_BASE) * BATCH_SIZE);
        if (mode == 2) scene_cut_segment(&p, LAST_BASE, (BATCHES - LAST_BASE - 1) * BATCH_SIZE);
        /* The recovery point lies in a segment after it, so that no check reads the hole. */
        p.options.recovery_point = 70;
        /* The note of its roll knows of the rest. */
        if (mode == 0) {
            CHECK_FINDINGS(&p, {true, LAST_BASE, BATCHES}, {true, LAST_BASE, LAST_BASE + SEGMENT_BATCHES});
        }
        if (mode == 2) CHECK_FINDINGS(&p, {true, BATCHES - 1, BATCHES});
        if (mode == 1) {
            ol_log_recovery recovery;
            log = fixture_open(&p.options, &recovery);
            OL_CHECK_INT(recovery.loss_count, 0);
            fixture_close(log);
        }
        fixture_remove(p.root);
    }
}

/* -------------------------------------------------------------------------------- the end */

/* The log ends with the zeros of an extension where it was killed: they are bad below `below`. */
static void check_corrupt_to(const place *p, int64_t below) {
    ol_log_recovery recovery;
    CHECK_CORRUPT(p);
    ol_log *log = fixture_open(&p->options, &recovery);
    OL_CHECK_INT(recovery.corruption.offset, BATCHES);
    OL_CHECK_INT(recovery.corruption_below, below);
    ol_log_abandon(log);
}

OL_TEST(a_recovery_point_ahead_of_the_log_proves_loss) {
    for (int clean = 0; clean < 2; clean++) {
        for (int64_t ahead = -3; ahead < 3; ahead++) {
            place p;
            scene_make(&p, BATCHES, clean);
            p.options.recovery_point = BATCHES + ahead;
            if (ahead <= 0) CHECK_COMPLETE(&p);
            else if (clean) CHECK_FINDINGS(&p, {true, BATCHES, BATCHES + ahead});
            else check_corrupt_to(&p, BATCHES + ahead);
            fixture_remove(p.root);
        }
    }
}

/* A checkpoint that changed alone is damage: it is not believed, in whichever direction. */
OL_TEST(a_recovery_point_that_changed_alone_proves_nothing) {
    static const int64_t points[] = {-1, 0, BATCHES - 1, BATCHES, BATCHES + 1, INT64_MAX};
    for (size_t i = 0; i < sizeof points / sizeof points[0]; i++) {
        place p;
        scene_make(&p, BATCHES, false);
        p.options.recovery_point = points[i];
        p.options.recovery_point_changed = true;
        p.options.changed_checkpoints = 1;
        CHECK_COMPLETE(&p);
        fixture_remove(p.root);
        /* Nor does it hide what the others prove. */
        scene_make(&p, BATCHES, false);
        p.options.recovery_point = points[i];
        p.options.recovery_point_changed = true;
        p.options.changed_checkpoints = 1;
        scene_cut_segment(&p, LAST_BASE, BATCH_SIZE);
        CHECK_FINDINGS(&p, {true, LAST_BASE + 1, BATCHES});
        fixture_remove(p.root);
    }
}

OL_TEST(a_sidecar_ahead_of_the_log_proves_loss) {
    for (int clean = 0; clean < 2; clean++) {
        for (int64_t ahead = -BATCHES; ahead <= 1; ahead += ahead < -1 ? BATCHES - 1 : 1) {
            place p;
            ol_flush_sidecar_bound bound;
            scene_make(&p, BATCHES, clean);
            scene_load_sidecar(&p, &bound);
            bound.offset += ahead;
            bound.position += ahead * BATCH_SIZE;
            if (ahead == -BATCHES) bound = (ol_flush_sidecar_bound){.leader_epoch = -1};
            scene_store_sidecar(&p, &bound);
            if (ahead <= 0) CHECK_COMPLETE(&p);
            else if (clean) CHECK_FINDINGS(&p, {true, BATCHES, BATCHES + 1});
            else check_corrupt_to(&p, BATCHES + 1);
            fixture_remove(p.root);
        }
    }
}

OL_TEST(a_manifest_ahead_of_the_log_proves_loss) {
    for (int64_t ahead = 0; ahead < 2; ahead++) {
        place p;
        ol_manifest manifest = {0};
        scene_make(&p, BATCHES, true);
        scene_load_manifest(&p, &manifest);
        OL_CHECK_INT(manifest.tail.base_offset, LAST_BASE);
        OL_CHECK_INT(manifest.tail.end_offset, BATCHES);
        OL_CHECK_INT(manifest.segment_count, 3);
        manifest.tail.end_offset += ahead;
        scene_store_manifest(&p, &manifest);
        if (ahead > 0) CHECK_FINDINGS(&p, {true, BATCHES, BATCHES + 1});
        else CHECK_COMPLETE(&p);
        fixture_remove(p.root);
    }
}

/* The farthest of them says how much is lost, once. */
OL_TEST(witnesses_that_are_ahead_by_different_offsets_report_one_loss) {
    place p;
    ol_manifest manifest = {0};
    ol_flush_sidecar_bound bound;
    scene_make(&p, BATCHES, true);
    scene_load_manifest(&p, &manifest);
    manifest.tail.end_offset += 5;
    scene_store_manifest(&p, &manifest);
    scene_load_sidecar(&p, &bound);
    bound.offset += 9;
    scene_store_sidecar(&p, &bound);
    p.options.recovery_point = BATCHES + 7;
    CHECK_FINDINGS(&p, {true, BATCHES, BATCHES + 9});
    fixture_remove(p.root);
}

/* -------------------------------------------------------------------------------- missing witnesses */

/* The log is writable, and the witness is made again; the doubt stays over opens until somebody accepts it. */
static void check_doubt_stays(place *p, finding doubt) {
    CHECK_FINDINGS(p, doubt);
    for (int i = 0; i < 3; i++) {
        ol_log_recovery recovery;
        ol_log *log = fixture_open(&p->options, &recovery);
        p->options.clean = true;
        p->options.recovery_point = ol_log_end(log);
        OL_CHECK(has_findings(&recovery, &doubt, 1));
        fixture_close(log);
    }
    ol_log_options options = p->options;
    ol_log_recovery recovery;
    options.clean = false;
    options.accept_loss = true;
    fixture_close(fixture_open(&options, &recovery));
    CHECK_COMPLETE(p);
}

OL_TEST(a_missing_manifest_is_a_doubt_where_there_was_one) {
    for (int clean = 0; clean < 2; clean++) {
        place p;
        scene_make(&p, BATCHES, clean);
        fixture_forget_manifest(p.path);
        check_doubt_stays(&p, (finding){false, 0, UNKNOWN});
        fixture_remove(p.root);
        /* Where nobody knows of one it is a directory from before manifests. */
        scene_make(&p, BATCHES, clean);
        fixture_forget_manifest(p.path);
        p.options.witnessed = false;
        CHECK_COMPLETE(&p);
        fixture_remove(p.root);
    }
}

OL_TEST(a_damaged_manifest_is_a_doubt_and_is_kept) {
    for (int mode = 0; mode < 4; mode++) {
        place p;
        char path[OL_PATH_MAX];
        scene_make(&p, BATCHES, mode & 1);
        p.options.witnessed = mode & 2;
        flip_byte(p.path, OL_MANIFEST_FILE, 30);
        scene_path(&p, OL_MANIFEST_FILE, path);
        size_t size, kept_size;
        uint8_t *bytes = fixture_read(path, &size);
        check_doubt_stays(&p, (finding){false, 0, UNKNOWN});
        scene_path(&p, OL_MANIFEST_FILE ".damaged", path);
        uint8_t *kept = fixture_read(path, &kept_size);
        OL_CHECK_INT(kept_size, size);
        OL_CHECK(memcmp(kept, bytes, size) == 0);
        free(bytes);
        free(kept);
        fixture_remove(p.root);
    }
}

/* It is whole, says what nobody here can read, and is left as it is. */
OL_TEST(a_manifest_of_a_later_version_is_not_replaced) {
    place p;
    char path[OL_PATH_MAX], text[128];
    ol_error error;
    ol_log *log = NULL;
    ol_log_recovery recovery;
    scene_make(&p, BATCHES, true);
    size_t size = (size_t)snprintf(text, sizeof text, "offsetlog manifest 2\nanything\n");
    size += (size_t)sprintf(text + size, "check %016" PRIx64 "\n", ol_xxh3_128(text, size).low);
    scene_path(&p, OL_MANIFEST_FILE, path);
    OL_CHECK_OK(ol_fs_replace_file(ol_fs_posix(), path, text, size, &error), &error);
    uint64_t before = scene_digest(&p);
    OL_CHECK_INT(ol_log_open(&p.options, &log, &recovery, &error), OL_UNSUPPORTED);
    OL_CHECK(strcmp(error.path, path) == 0 && strstr(error.reason, "later version") != NULL);
    ol_log_options reading = p.options;
    reading.writable = reading.create = false;
    ol_log_abandon(fixture_open(&reading, &recovery));
    OL_CHECK(has_findings(&recovery, NULL, 0));
    OL_CHECK(scene_digest(&p) == before);
    fixture_remove(p.root);
}

/* Nothing is proven without the manifest, but the sidecar speaks for what it flushed. */
OL_TEST(a_loss_without_a_manifest) {
    place p;
    scene_make(&p, BATCHES, true);
    fixture_forget_manifest(p.path);
    scene_cut_segment(&p, LAST_BASE, BATCH_SIZE);
    CHECK_FINDINGS(&p, {false, 0, UNKNOWN}, {true, LAST_BASE + 1, BATCHES});
    fixture_remove(p.root);
    scene_make(&p, BATCHES, true);
    fixture_forget_manifest(p.path);
    scene_remove_segment(&p, 16);
    CHECK_FINDINGS(&p, {false, 0, UNKNOWN});
    fixture_remove(p.root);
}

OL_TEST(a_missing_or_damaged_sidecar_is_a_doubt) {
    for (int mode = 0; mode < 10; mode++) {
        place p;
        scene_make(&p, BATCHES, mode & 1);
        switch (mode / 2) {
            case 0: scene_remove(&p, OL_FLUSH_SIDECAR_FILE); break;
            case 1: scene_cut(&p, OL_FLUSH_SIDECAR_FILE, 0); break;
            case 2: scene_cut(&p, OL_FLUSH_SIDECAR_FILE, OL_FLUSH_SIDECAR_SLOT_SIZE); break;
            case 3: scene_cut(&p, OL_FLUSH_SIDECAR_FILE, OL_FLUSH_SIDECAR_FILE_SIZE + 1); break;
            default:
                flip_byte(p.path, OL_FLUSH_SIDECAR_FILE, 20);
                flip_byte(p.path, OL_FLUSH_SIDECAR_FILE, 20 + OL_FLUSH_SIDECAR_SLOT_SIZE);
        }
        check_doubt_stays(&p, (finding){false, BATCHES, UNKNOWN});
        fixture_remove(p.root);
    }
}

/* The slot that is left may be the older one. */
OL_TEST(half_a_sidecar_is_a_doubt) {
    for (int slot = 0; slot < 2; slot++) {
        place p;
        scene_make(&p, BATCHES, false);
        flip_byte(p.path, OL_FLUSH_SIDECAR_FILE, 20 + slot * OL_FLUSH_SIDECAR_SLOT_SIZE);
        check_doubt_stays(&p, (finding){false, BATCHES, UNKNOWN});
        fixture_remove(p.root);
    }
}

/* A sidecar is lost, and with it what alone knew of the last flush. */
OL_TEST(what_only_the_sidecar_knew_is_in_doubt_without_it) {
    place p;
    scene_make(&p, BATCHES - 5, true);
    p.options.clean = false;
    ol_log *log = fixture_open(&p.options, NULL);
    scene_append(log, 5);
    flush(log);
    ol_log_abandon(log);
    scene_cut_segment(&p, LAST_BASE, 7 * BATCH_SIZE);
    CHECK_FINDINGS(&p, {true, LAST_BASE + 7, BATCHES});
    scene_remove(&p, OL_FLUSH_SIDECAR_FILE);
    CHECK_FINDINGS(&p, {false, LAST_BASE + 7, UNKNOWN});
    fixture_remove(p.root);
}

/* -------------------------------------------------------------------------------- too many */

OL_TEST(more_losses_than_there_is_room_for_are_joined_in_the_last) {
    enum { SEGMENTS = OL_LOG_LOSSES_KEPT + 6 };
    place p;
    finding expected[OL_LOG_LOSSES_KEPT];
    scene_make(&p, SEGMENTS * SEGMENT_BATCHES + 1, true);
    for (int i = 0; i < SEGMENTS; i++) scene_remove_segment(&p, i * SEGMENT_BATCHES);
    for (int i = 0; i < OL_LOG_LOSSES_KEPT; i++) {
        expected[i] = (finding){true, i * SEGMENT_BATCHES, (i + 1) * SEGMENT_BATCHES};
    }
    expected[OL_LOG_LOSSES_KEPT - 1].below = SEGMENTS * SEGMENT_BATCHES;
    ol_log_recovery recovery;
    ol_log *log = fixture_open(&p.options, &recovery);
    /* The error of the last is of the last loss that it holds. */
    recovery.losses[OL_LOG_LOSSES_KEPT - 1].error.offset = recovery.losses[OL_LOG_LOSSES_KEPT - 1].from;
    bool right = has_findings(&recovery, expected, OL_LOG_LOSSES_KEPT);
    if (!right) print_findings(__FILE__, __LINE__, "the open", &recovery);
    OL_CHECK(right && recovery.is_lossy && !ol_log_is_writable(log));
    fixture_close(log);
    fixture_remove(p.root);
}

/* As many doubts as a manifest holds, and one more: the last is widened, and stays so. */
OL_TEST(doubts_beyond_the_last_widen_it_for_good) {
    place p;
    ol_manifest manifest = {0};
    finding expected[OL_LOG_LOSSES_KEPT];
    scene_make(&p, BATCHES, true);
    scene_load_manifest(&p, &manifest);
    for (int i = 0; i < OL_MANIFEST_DOUBTS_MAX; i++) {
        ol_manifest_add_doubt(&manifest, &(ol_manifest_doubt){i, i + 1, OL_DOUBT_GAP});
        expected[i] = (finding){false, i, i + 1};
    }
    scene_store_manifest(&p, &manifest);
    check_opens(__FILE__, __LINE__, &p, expected, OL_LOG_LOSSES_KEPT, false);
    ol_log *log = fixture_open(&p.options, NULL);
    fixture_close(log);
    scene_remove(&p, OL_FLUSH_SIDECAR_FILE);
    expected[OL_LOG_LOSSES_KEPT - 1].below = UNKNOWN;
    p.options.recovery_point = -1;
    p.options.clean = false;
    for (int i = 0; i < 3; i++) {
        ol_log_recovery recovery;
        log = fixture_open(&p.options, &recovery);
        bool right = has_findings(&recovery, expected, OL_LOG_LOSSES_KEPT);
        if (!right) print_findings(__FILE__, __LINE__, "the open", &recovery);
        OL_CHECK(right);
        ol_log_abandon(log);
    }
    fixture_remove(p.root);
}

/* -------------------------------------------------------------------------------- without a manifest before */

/* A directory of an earlier version, or of another program: what it holds counts from then on, gaps and all. */
OL_TEST(a_directory_without_a_manifest_is_taken_as_it_is) {
    for (int clean = 0; clean < 2; clean++) {
        place p;
        ol_manifest manifest = {0};
        scene_make(&p, BATCHES, clean);
        fixture_forget_manifest(p.path);
        p.options.witnessed = false;
        scene_remove_segment(&p, 16);
        CHECK_COMPLETE(&p);
        scene_load_manifest(&p, &manifest);
        OL_CHECK_INT(manifest.range_count, 2);
        OL_CHECK(!manifest.ranges[0].is_ours && manifest.ranges[0].offset == 0);
        OL_CHECK(manifest.ranges[1].is_ours && manifest.ranges[1].offset == BATCHES);
        ol_manifest_free(&manifest);
        /* And now it is missed. */
        p.options.witnessed = true;
        scene_remove_segment(&p, 32);
        CHECK_FINDINGS(&p, {true, 32, 48});
        fixture_remove(p.root);
    }
}

OL_TEST(a_new_log_is_ours_from_its_first_offset) {
    place p;
    ol_manifest manifest = {0};
    scene_make(&p, BATCHES, true);
    scene_load_manifest(&p, &manifest);
    OL_CHECK_INT(manifest.range_count, 1);
    OL_CHECK(manifest.ranges[0].is_ours && manifest.ranges[0].offset == 0);
    ol_manifest_free(&manifest);
    fixture_remove(p.root);
}

OL_TEST_MAIN()
