/* A swap is noted in the manifest before it begins: whoever opens the log then, and before the next manifest, finds the
 * old segments or the new one, and takes neither for a loss (log/completeness). */
#include <errno.h>

#include "completeness_fixture.h"

/* Closed segments at 0, 16, 32 and 48, the active one at 64. */
enum { BATCHES = 70, CLOSED = 4 };

typedef struct swapped {
    place p;                    /* as a process left it that was killed after the swap */
    char old[OL_PATH_MAX];      /* the same, but that the swap did not take place */
    size_t first;
    size_t count;
} swapped;

typedef struct pattern {
    int keeps;                  /* of ten batches */
    bool drops_last;            /* all of the last segment */
    int64_t last_base;
} pattern;

static bool keep_pattern(void *context, const model_batch *batch) {
    const pattern *drawn = context;
    if (drawn->drops_last && batch->base >= drawn->last_base) return false;
    return (batch->base * 7 + 3) % 10 < drawn->keeps;
}

static void model_fill(model *m, ol_log *log, int count) {
    ol_error error;
    for (int i = 0; i < count; i++) OL_CHECK_OK(model_append(m, log, scene_batch((uint64_t)i), &error), &error);
}

static void copy_witness(const swapped *s, const char *name) {
    char from[OL_PATH_MAX], to[OL_PATH_MAX];
    size_t size;
    fixture_join(from, s->p.path, name);
    fixture_join(to, s->old, name);
    uint8_t *bytes = fixture_read(from, &size);
    fixture_write(to, bytes, size);
    free(bytes);
}

/* Cleans segments [first, first + count) and is killed before the next manifest. */
static void make_swapped(swapped *s, size_t first, size_t count, pattern drawn) {
    static model m;
    ol_error error;
    scene_place(&s->p);
    fixture_join(s->old, s->p.root, "old");
    s->first = first;
    s->count = count;
    ol_log *log = fixture_open(&s->p.options, NULL);
    s->p.options.witnessed = true;
    model_fill(&m, log, BATCHES);
    flush(log);
    fixture_copy_directory(s->p.path, s->old);
    drawn.last_base = (int64_t)(first + count - 1) * SEGMENT_BATCHES;
    OL_CHECK_OK(model_clean(&m, log, first, count, keep_pattern, &drawn, &error), &error);
    ol_log_abandon(log);
    model_remove_from(&m, 0);
    copy_witness(s, OL_MANIFEST_FILE);
    copy_witness(s, OL_FLUSH_SIDECAR_FILE);
}

static int64_t base_at(size_t index) { return (int64_t)index * SEGMENT_BATCHES; }

static place old_place(const swapped *s) {
    place p = s->p;
    memcpy(p.path, s->old, sizeof p.path);
    return p;
}

/* options.directory points into the place that it is in. */
static void check_both_complete(swapped *s) {
    place old = old_place(s);
    old.options.directory = old.path;
    CHECK_COMPLETE(&old);
    CHECK_COMPLETE(&s->p);
}

OL_TEST(a_swap_under_way_is_seen_as_old_or_as_new) {
    for (size_t first = 0; first < CLOSED; first++) {
        for (size_t count = 1; first + count <= CLOSED; count++) {
            for (int mode = 0; mode < 8; mode++) {
                swapped s;
                static const int kept[] = {0, 3, 6, 10};
                make_swapped(&s, first, count, (pattern){.keeps = kept[mode / 2], .drops_last = mode & 1});
                check_both_complete(&s);
                fixture_remove(s.p.root);
            }
        }
    }
}

/* A recovery that finished the swap leaves an empty segment in the place of the last one. */
OL_TEST(the_empty_segment_of_a_swap_is_no_loss) {
    for (size_t count = 2; count <= CLOSED; count++) {
        swapped s;
        char name[32], path[OL_PATH_MAX];
        make_swapped(&s, 0, count, (pattern){.keeps = 5, .drops_last = true});
        scene_name(name, base_at(count - 1), ".log");
        scene_path(&s.p, name, path);
        OL_CHECK(!fixture_exists(s.p.path, name));
        fixture_write(path, "", 0);
        CHECK_COMPLETE(&s.p);
        fixture_remove(s.p.root);
    }
}

/* The old segments, one of them missing or short; the new one, missing or short. */
OL_TEST(a_swap_that_is_seen_as_neither_is_a_loss) {
    for (int mode = 0; mode < 4; mode++) {
        swapped s;
        make_swapped(&s, 1, 2, (pattern){.keeps = 5});
        place old = old_place(&s);
        old.options.directory = old.path;
        switch (mode) {
            case 0:
                scene_remove_segment(&old, 32);
                CHECK_FINDINGS(&old, {true, 32, 48});
                break;
            case 1:
                scene_cut_segment(&old, 32, 5 * BATCH_SIZE);
                CHECK_FINDINGS(&old, {true, 37, 48});
                break;
            case 2:
                scene_remove_segment(&s.p, 16);
                CHECK_FINDINGS(&s.p, {true, 16, 32}, {true, 32, 48});
                break;
            default:
                scene_cut_segment(&s.p, 16, 2 * BATCH_SIZE);
                /* The manifest's old segments are what it can say. */
                CHECK_FINDINGS(&s.p, {true, 21, 32}, {true, 32, 48});
        }
        fixture_remove(s.p.root);
    }
}

/* Segments beside those of the swap are missed as ever. */
OL_TEST(a_loss_beside_a_swap_is_a_loss) {
    for (size_t lost = 0; lost < CLOSED; lost++) {
        swapped s;
        make_swapped(&s, 1, 2, (pattern){.keeps = 5});
        if (lost == 1 || lost == 2) {
            fixture_remove(s.p.root);
            continue;
        }
        scene_remove_segment(&s.p, base_at(lost));
        CHECK_FINDINGS(&s.p, {true, base_at(lost), base_at(lost + 1)});
        fixture_remove(s.p.root);
    }
}

/* Batches of other bytes and the same sizes, as a cleaner writes them that only marks them. */
static void swap_marked(ol_log *log) {
    ol_error error;
    ol_segment_rewrite *cleaned = NULL;
    const int64_t base = 16;
    OL_CHECK_OK(ol_segment_rewrite_start(log, base, ol_log_cuts(log), &cleaned, &error), &error);
    for (int64_t at = base; at < base + SEGMENT_BATCHES; at++) {
        uint8_t bytes[BATCH_SIZE];
        fixture_batch batch = scene_batch(99);
        batch.base_offset = at;
        fixture_encode(&batch, bytes);
        OL_CHECK_OK(ol_segment_rewrite_append(cleaned, bytes, BATCH_SIZE, at, at, batch.timestamp, &error), &error);
    }
    OL_CHECK_OK(ol_segment_rewrite_swap(cleaned, &base, 1, &error), &error);
}

/* An unclean stop has the segments read and their checksums compared.  Sizes do not show whether the swap took
 * place. */
OL_TEST(a_swap_for_a_segment_of_the_same_size_is_no_loss) {
    swapped s = {.first = 1, .count = 1};
    scene_place(&s.p);
    fixture_join(s.old, s.p.root, "old");
    ol_log *log = fixture_open(&s.p.options, NULL);
    s.p.options.witnessed = true;
    scene_append(log, BATCHES);
    flush(log);
    fixture_copy_directory(s.p.path, s.old);
    swap_marked(log);
    OL_CHECK_INT(fixture_size(s.p.path, "00000000000000000016.log"), SEGMENT_SIZE);
    ol_log_abandon(log);
    copy_witness(&s, OL_MANIFEST_FILE);
    copy_witness(&s, OL_FLUSH_SIDECAR_FILE);
    check_both_complete(&s);
    fixture_remove(s.p.root);
}

/* The same after an open that reads nothing of it, whose manifest repeats the state given to that open. */
OL_TEST(a_checksum_from_before_a_swap_is_not_kept) {
    place p;
    scene_place(&p);
    ol_log *log = fixture_open(&p.options, NULL);
    p.options.witnessed = true;
    scene_append(log, BATCHES);
    flush(log);
    swap_marked(log);
    ol_log_abandon(log);
    p.options.recovery_point = BATCHES;
    fixture_close(fixture_open(&p.options, NULL));
    p.options.recovery_point = -1;
    CHECK_COMPLETE(&p);
    fixture_remove(p.root);
}

/* -------------------------------------------------------------------------------- swaps that fail */

static struct {
    const char *rename_fails;   /* the end of a source, whose rename is reported as failed */
    bool rename_happens;
    const char *remove_fails;   /* the end of a name that cannot be removed */
} failing;

static bool ends_with(const char *path, const char *end) {
    return end != NULL && strlen(path) >= strlen(end) && strcmp(path + strlen(path) - strlen(end), end) == 0;
}

static int failing_rename(ol_fs *fs, const char *source, const char *target, ol_error *error) {
    if (!ends_with(source, failing.rename_fails)) return ol_fs_posix()->rename(fs, source, target, error);
    if (failing.rename_happens) OL_CHECK_OK(ol_fs_posix()->rename(fs, source, target, error), error);
    return ol_fail_errno(error, EIO, "rename", source);
}

static int failing_remove(ol_fs *fs, const char *path, ol_error *error) {
    if (ends_with(path, failing.remove_fails)) return ol_fail_errno(error, EIO, "unlink", path);
    return ol_fs_posix()->remove(fs, path, error);
}

static ol_fs *failing_fs(void) {
    static ol_fs fs;
    fs = *ol_fs_posix();
    fs.rename = failing_rename;
    fs.remove = failing_remove;
    failing.rename_fails = failing.remove_fails = NULL;
    return &fs;
}

/* The rename after which there is no return took place, although it was reported as failed, and cannot be undone: the
 * next open finishes the swap, whatever was stored meanwhile. */
OL_TEST(a_swap_that_could_not_be_undone_is_no_loss) {
    for (int mode = 0; mode < 4; mode++) {
        static model m;
        ol_error error;
        pattern drawn = {.keeps = 5};
        place p;
        scene_place(&p);
        p.options.fs = failing_fs();
        ol_log *log = fixture_open(&p.options, NULL);
        p.options.witnessed = true;
        model_fill(&m, log, BATCHES);
        flush(log);
        failing.rename_fails = "00000000000000000000.log.cleaned";
        failing.rename_happens = mode & 1;
        failing.remove_fails = ".swap";
        OL_CHECK_INT(model_clean(&m, log, 0, 2, keep_pattern, &drawn, &error), OL_IO);
        OL_CHECK(!ol_log_has_failed(log));
        /* The log goes on, and the manifest is stored. */
        scene_append(log, 2 * SEGMENT_BATCHES);
        flush(log);
        int64_t end = ol_log_end(log);
        bool is_removed = mode & 2;
        if (is_removed) {
            failing.rename_fails = failing.remove_fails = NULL;
            OL_CHECK_OK(model_clean(&m, log, 2, 1, keep_pattern, &drawn, &error), &error);
        }
        ol_log_abandon(log);
        p.options.fs = ol_fs_posix();
        ol_log_recovery recovery;
        ol_log *again = fixture_open(&p.options, &recovery);
        OL_CHECK_INT(recovery.swaps_finished, failing.rename_happens && !is_removed);
        OL_CHECK_INT(ol_log_end(again), end);
        ol_log_abandon(again);
        CHECK_COMPLETE(&p);
        model_remove_from(&m, 0);
        fixture_remove(p.root);
    }
}

/* A swap that was refused before it began leaves nothing that allows gaps. */
OL_TEST(a_swap_whose_note_cannot_be_stored_changes_nothing) {
    static model m;
    ol_error error;
    pattern drawn = {.keeps = 5};
    place p;
    ol_manifest manifest = {0};
    scene_place(&p);
    p.options.fs = failing_fs();
    ol_log *log = fixture_open(&p.options, NULL);
    model_fill(&m, log, BATCHES);
    flush(log);
    failing.rename_fails = OL_MANIFEST_FILE ".tmp";
    OL_CHECK_INT(model_clean(&m, log, 0, 2, keep_pattern, &drawn, &error), OL_IO);
    failing.rename_fails = NULL;
    fixture_close(log);
    scene_load_manifest(&p, &manifest);
    OL_CHECK_INT(manifest.cleaned, 0);
    OL_CHECK(!manifest.has_swap);
    OL_CHECK_INT(manifest.segment_count, CLOSED);
    ol_manifest_free(&manifest);
    model_remove_from(&m, 0);
    fixture_remove(p.root);
}

OL_TEST_MAIN()
