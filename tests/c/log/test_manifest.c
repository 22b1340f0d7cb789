/* The manifest as text: golden files in both directions, and bytes of any other kind refused. */
#include "log/files/manifest.h"

#include <sys/stat.h>

#include "base/hash.h"
#include "ol_test.h"
#include "ol_test_directory.h"

static const char golden[] =
    "offsetlog manifest 1\n"
    "sequence 17\n"
    "topic 4ClGgBhSQPWWHcPK0jTz-w\n"
    "epoch 4\n"
    "cleaned 130\n"
    "range 0 other\n"
    "range 100 ours\n"
    "segment 0 65 8125 1c00a3ff\n"
    "segment 65 200 8000 -\n"
    "swap 0 200 4019 77ab00d1 65\n"
    "tail 262 270 1000\n"
    "doubt 65 130 gap\n"
    "doubt 0 - manifest\n"
    "check c5f53bff65dbda31\n";

/* That of a new log. */
static const char smallest[] =
    "offsetlog manifest 1\n"
    "sequence 1\n"
    "topic -\n"
    "epoch -1\n"
    "cleaned 0\n"
    "range 0 ours\n"
    "tail 0 0 0\n"
    "check 291ac5b1e1e02e53\n";

static const uint8_t topic_id[16] = {0xe0, 0x29, 0x46, 0x80, 0x18, 0x52, 0x40, 0xf5,
                                     0x96, 0x1d, 0xc3, 0xca, 0xd2, 0x34, 0xf3, 0xfb};

/* -------------------------------------------------------------------------------- parsing in one line */

/* An exact copy of the bytes, so that a sanitizer sees any read past them. */
static int parse_bytes(const void *data, size_t size, ol_manifest *manifest, ol_error *error) {
    uint8_t *copy = malloc(size > 0 ? size : 1);
    memcpy(copy, data, size);
    int status = ol_manifest_parse(manifest, ol_slice_of(copy, size), error);
    free(copy);
    return status;
}

static void check_empty(const ol_manifest *manifest) {
    static const ol_manifest empty;
    OL_CHECK(manifest->ranges == NULL && manifest->segments == NULL);
    OL_CHECK_INT(manifest->range_count + manifest->segment_count, 0);
    OL_CHECK_INT(manifest->sequence, empty.sequence);
}

/* Whether a body with the check line that belongs to it is refused as corrupt; if not, it must be what the manifest
 * made of it says, in the form that is written. */
static bool is_refused(const char *body, size_t size) {
    ol_manifest manifest = {0};
    ol_error error;
    char *text = malloc(size + 32);
    memcpy(text, body, size);
    size_t whole = size + (size_t)sprintf(text + size, "check %016" PRIx64 "\n", ol_xxh3_128(body, size).low);
    int status = parse_bytes(text, whole, &manifest, &error);
    free(text);
    if (status != OL_OK) {
        OL_CHECK(status == OL_CORRUPT || status == OL_UNSUPPORTED);
        OL_CHECK(error.reason[0] != '\0');
        check_empty(&manifest);
        return true;
    }
    char *written = NULL, *again = NULL;
    size_t written_size = 0, again_size = 0;
    ol_manifest reread = {0};
    OL_CHECK_OK(ol_manifest_format(&manifest, &written, &written_size, &error), &error);
    OL_CHECK_OK(parse_bytes(written, written_size, &reread, &error), &error);
    OL_CHECK_OK(ol_manifest_format(&reread, &again, &again_size, &error), &error);
    OL_CHECK_INT(again_size, written_size);
    OL_CHECK(memcmp(again, written, again_size) == 0);
    free(written);
    free(again);
    ol_manifest_free(&manifest);
    ol_manifest_free(&reread);
    return false;
}

static bool is_text_refused(const char *body) { return is_refused(body, strlen(body)); }

/* The smallest manifest, with `line` at the place of the line that begins with `name`; NULL: without it. */
static bool is_refused_with(const char *name, const char *line) {
    char body[1024] = "";
    const char *end = strstr(smallest, "check ");
    for (const char *at = smallest; at < end;) {
        const char *next = strchr(at, '\n') + 1;
        bool is_replaced = strncmp(at, name, strlen(name)) == 0;
        if (is_replaced && line != NULL) strcat(strcat(body, line), "\n");
        if (!is_replaced) strncat(body, at, (size_t)(next - at));
        at = next;
    }
    return is_text_refused(body);
}

/* -------------------------------------------------------------------------------- golden */

static void check_segment(const ol_manifest_segment *segment, int64_t base_offset, int64_t end_offset, int64_t size,
                          int64_t checksum) {
    OL_CHECK_INT(segment->base_offset, base_offset);
    OL_CHECK_INT(segment->end_offset, end_offset);
    OL_CHECK_INT(segment->size, size);
    OL_CHECK_INT(segment->has_checksum, checksum >= 0);
    if (checksum >= 0) OL_CHECK_INT(segment->checksum, checksum);
}

static void check_doubt(const ol_manifest_doubt *doubt, int64_t from, int64_t below, ol_doubt_cause cause) {
    OL_CHECK_INT(doubt->from, from);
    OL_CHECK_INT(doubt->below, below);
    OL_CHECK_INT(doubt->cause, cause);
}

OL_TEST(the_golden_text_is_read) {
    ol_manifest manifest = {0};
    ol_error error;
    OL_CHECK_OK(parse_bytes(golden, strlen(golden), &manifest, &error), &error);
    OL_CHECK_INT(manifest.sequence, 17);
    OL_CHECK(manifest.has_topic_id && memcmp(manifest.topic_id.bytes, topic_id, sizeof topic_id) == 0);
    OL_CHECK_INT(manifest.epoch, 4);
    OL_CHECK_INT(manifest.cleaned, 130);
    OL_CHECK_INT(manifest.range_count, 2);
    OL_CHECK(manifest.ranges[0].offset == 0 && !manifest.ranges[0].is_ours);
    OL_CHECK(manifest.ranges[1].offset == 100 && manifest.ranges[1].is_ours);
    OL_CHECK_INT(manifest.segment_count, 2);
    check_segment(&manifest.segments[0], 0, 65, 8125, 0x1c00a3ff);
    check_segment(&manifest.segments[1], 65, 200, 8000, -1);
    OL_CHECK(manifest.has_swap);
    check_segment(&manifest.swap, 0, 200, 4019, 0x77ab00d1);
    OL_CHECK_INT(manifest.swap_last, 65);
    check_segment(&manifest.tail, 262, 270, 1000, -1);
    OL_CHECK_INT(manifest.doubt_count, 2);
    check_doubt(&manifest.doubts[0], 65, 130, OL_DOUBT_GAP);
    check_doubt(&manifest.doubts[1], 0, INT64_MAX, OL_DOUBT_MANIFEST);
    ol_manifest_free(&manifest);
    check_empty(&manifest);
}

OL_TEST(the_golden_text_is_written) {
    ol_error error;
    ol_manifest manifest = {.sequence = 17, .has_topic_id = true, .epoch = 4, .cleaned = 130};
    ol_manifest_segment segments[] = {
        {.base_offset = 0, .end_offset = 65, .size = 8125, .checksum = 0x1c00a3ff, .has_checksum = true},
        {.base_offset = 65, .end_offset = 200, .size = 8000, .checksum = 1},
    };
    memcpy(manifest.topic_id.bytes, topic_id, sizeof topic_id);
    OL_CHECK_OK(ol_manifest_add_range(&manifest, 0, false, &error), &error);
    OL_CHECK_OK(ol_manifest_add_range(&manifest, 100, true, &error), &error);
    manifest.segments = segments;
    manifest.segment_count = 2;
    manifest.has_swap = true;
    manifest.swap = (ol_manifest_segment){0, 200, 4019, 0x77ab00d1, true};
    manifest.swap_last = 65;
    manifest.tail = (ol_manifest_segment){262, 270, 1000, 0, false};
    ol_manifest_add_doubt(&manifest, &(ol_manifest_doubt){65, 130, OL_DOUBT_GAP});
    ol_manifest_add_doubt(&manifest, &(ol_manifest_doubt){0, INT64_MAX, OL_DOUBT_MANIFEST});
    char *text = NULL;
    size_t size = 0;
    OL_CHECK_OK(ol_manifest_format(&manifest, &text, &size, &error), &error);
    OL_CHECK_INT(size, strlen(golden));
    OL_CHECK(memcmp(text, golden, size) == 0);
    free(text);
    free(manifest.ranges);
}

OL_TEST(the_smallest_text_is_read_and_written) {
    ol_manifest manifest = {0};
    ol_error error;
    char *text = NULL;
    size_t size = 0;
    OL_CHECK_OK(parse_bytes(smallest, strlen(smallest), &manifest, &error), &error);
    OL_CHECK(!manifest.has_topic_id && !manifest.has_swap);
    OL_CHECK_INT(manifest.epoch, -1);
    OL_CHECK_INT(manifest.segment_count + manifest.doubt_count, 0);
    OL_CHECK_OK(ol_manifest_format(&manifest, &text, &size, &error), &error);
    OL_CHECK_INT(size, strlen(smallest));
    OL_CHECK(memcmp(text, smallest, size) == 0);
    free(text);
    ol_manifest_free(&manifest);
}

/* Every number as large as it can be. */
OL_TEST(the_longest_lines_are_written) {
    enum { SEGMENTS = 50 };
    ol_manifest manifest = {.sequence = INT64_MAX / 2, .has_topic_id = true, .epoch = INT32_MAX, .cleaned = INT64_MAX};
    ol_manifest_segment segments[SEGMENTS];
    ol_error error;
    memset(manifest.topic_id.bytes, 0xff, sizeof manifest.topic_id.bytes);
    OL_CHECK_OK(ol_manifest_add_range(&manifest, INT64_MAX, false, &error), &error);
    for (int i = 0; i < SEGMENTS; i++) {
        segments[i] = (ol_manifest_segment){INT64_MAX, INT64_MAX, INT64_MAX, UINT32_MAX, true};
    }
    manifest.segments = segments;
    manifest.segment_count = SEGMENTS;
    manifest.has_swap = true;
    manifest.swap = manifest.tail = segments[0];
    manifest.swap_last = INT64_MAX;
    for (int i = 0; i < OL_MANIFEST_DOUBTS_MAX; i++) {
        ol_manifest_add_doubt(&manifest, &(ol_manifest_doubt){INT64_MAX - 1, INT64_MAX - 1, OL_DOUBT_MANIFEST});
    }
    char *text = NULL;
    size_t size = 0;
    OL_CHECK_OK(ol_manifest_format(&manifest, &text, &size, &error), &error);
    ol_manifest reread = {0};
    OL_CHECK_OK(parse_bytes(text, size, &reread, &error), &error);
    OL_CHECK_INT(reread.segments[SEGMENTS - 1].size, INT64_MAX);
    OL_CHECK_INT(reread.doubts[OL_MANIFEST_DOUBTS_MAX - 1].below, INT64_MAX - 1);
    ol_manifest_free(&reread);
    free(text);
    free(manifest.ranges);
}

/* -------------------------------------------------------------------------------- hostile bytes */

OL_TEST(every_cut_is_refused) {
    const char *const texts[] = {golden, smallest};
    for (size_t i = 0; i < 2; i++) {
        for (size_t size = 0; size < strlen(texts[i]); size++) {
            ol_manifest manifest = {0};
            ol_error error;
            OL_CHECK_INT(parse_bytes(texts[i], size, &manifest, &error), OL_CORRUPT);
            check_empty(&manifest);
        }
    }
}

OL_TEST(every_flipped_bit_is_refused) {
    char text[sizeof golden];
    for (size_t bit = 0; bit < 8 * strlen(golden); bit++) {
        ol_manifest manifest = {0};
        ol_error error;
        memcpy(text, golden, sizeof golden);
        text[bit / 8] ^= (char)(1u << bit % 8);
        OL_CHECK_INT(parse_bytes(text, strlen(golden), &manifest, &error), OL_CORRUPT);
        check_empty(&manifest);
    }
}

/* The parser refuses what the checksum does not refuse, or understands it. */
OL_TEST(bytes_with_a_right_checksum_are_refused_or_understood) {
    char text[sizeof golden];
    const size_t size = (size_t)(strstr(golden, "check ") - golden);
    int64_t refused = 0, understood = 0;
    OL_CHECK(!is_refused(golden, size));
    for (size_t cut = 0; cut < size; cut++) {
        bool ends_with_a_doubt = cut > 0 && golden[cut - 1] == '\n' && strstr(golden, "tail ") < golden + cut;
        OL_CHECK_INT(is_refused(golden, cut), !ends_with_a_doubt);
    }
    for (size_t at = 0; at < size; at++) {
        for (int byte = 0; byte < 256; byte++) {
            memcpy(text, golden, sizeof golden);
            text[at] = (char)byte;
            if (is_refused(text, size)) refused++; else understood++;
        }
    }
    for (int64_t i = 0; i < ol_test_depth(20000, 400000); i++) {
        memcpy(text, golden, sizeof golden);
        for (uint64_t left = 1 + ol_test_below(4); left > 0; left--) {
            text[ol_test_below(size)] = "0123456789 \n-abcdefour"[ol_test_below(22)];
        }
        if (is_refused(text, size)) refused++; else understood++;
    }
    printf("  %" PRId64 " refused, %" PRId64 " understood (seed %" PRIu64 ")\n", refused, understood, ol_test_seed);
    OL_CHECK(refused > 1000 && understood > 1000);
}

OL_TEST(a_line_in_another_place_is_refused) {
    const char *lines[16];
    char body[sizeof golden];
    size_t count = 0;
    for (const char *at = golden; strncmp(at, "check ", 6) != 0; at = strchr(at, '\n') + 1) lines[count++] = at;
    for (size_t moved = 0; moved < count; moved++) {
        for (size_t to = 0; to < count; to++) {
            body[0] = '\0';
            for (size_t i = 0, from = 0; i < count; i++) {
                if (from == moved) from++;
                const char *line = i == to ? lines[moved] : lines[from++];
                strncat(body, line, (size_t)(strchr(line, '\n') + 1 - line));
            }
            /* The two doubts are in no order. */
            bool is_right = moved == to || (moved + to == 2 * count - 3 && moved >= count - 2 && to >= count - 2);
            OL_CHECK_INT(is_text_refused(body), !is_right);
        }
    }
}

OL_TEST(a_line_that_is_missing_or_there_twice_is_refused) {
    static const char *const names[] = {"offsetlog", "sequence", "topic", "epoch", "cleaned", "range", "tail"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        OL_CHECK(is_refused_with(names[i], NULL));
        const char *line = strstr(smallest, names[i]);
        char twice[128];
        int length = (int)(strchr(line, '\n') - line);
        snprintf(twice, sizeof twice, "%.*s\n%.*s", length, line, length, line);
        OL_CHECK(is_refused_with(names[i], twice));
    }
    OL_CHECK(is_refused_with("tail", "swap 0 1 1 00000000 0\nswap 0 1 1 00000000 0\ntail 0 0 0"));
    OL_CHECK(!is_refused_with("tail", "swap 0 1 1 00000000 0\ntail 0 0 0"));
}

OL_TEST(a_line_that_is_too_long_is_refused) {
    char line[256];
    /* The lines of the parser end after 159 characters at the latest; zeros lead a number to any length. */
    for (int zeros = 100; zeros < 200; zeros++) {
        int length = snprintf(line, sizeof line, "cleaned %0*d", zeros, 7);
        OL_CHECK_INT(is_refused_with("cleaned", line), length >= 160);
    }
    char *body = malloc(1 << 20);
    memset(body, 'a', 1 << 20);
    OL_CHECK(is_refused(body, 1 << 20));        /* one line, without an end */
    memset(body, ' ', 1 << 20);
    OL_CHECK(is_refused(body, 1 << 20));
    memset(body, '\n', 1 << 20);
    OL_CHECK(is_refused(body, 1 << 20));
    memset(body, 0, 1 << 20);
    OL_CHECK(is_refused(body, 1 << 20));
    free(body);
}

OL_TEST(fields_of_another_number_or_spacing_are_refused) {
    static const char *const lines[] = {
        "cleaned", "cleaned 0 0", "cleaned  0", "cleaned 0 ", " cleaned 0", "cleaned\t0", "Cleaned 0", "cleaned 0\r",
        "cleaned -", "cleaned +0", "cleaned 0x1", "cleaned 1.5", "cleaned 0\n",
    };
    for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++) OL_CHECK(is_refused_with("cleaned", lines[i]));
}

OL_TEST(numbers_at_their_limits) {
    OL_CHECK(!is_refused_with("cleaned", "cleaned 9223372036854775807"));
    OL_CHECK(is_refused_with("cleaned", "cleaned 9223372036854775808"));
    OL_CHECK(is_refused_with("cleaned", "cleaned 18446744073709551616"));
    OL_CHECK(is_refused_with("cleaned", "cleaned 99999999999999999999999999999999999999"));
    OL_CHECK(is_refused_with("cleaned", "cleaned -1"));
    OL_CHECK(is_refused_with("cleaned", "cleaned -9223372036854775808"));
    OL_CHECK(!is_refused_with("epoch", "epoch 2147483647"));
    OL_CHECK(is_refused_with("epoch", "epoch 2147483648"));
    OL_CHECK(!is_refused_with("epoch", "epoch -1"));
    OL_CHECK(is_refused_with("epoch", "epoch -2"));
    OL_CHECK(is_refused_with("sequence", "sequence 0"));
    OL_CHECK(is_refused_with("sequence", "sequence -1"));
    OL_CHECK(!is_refused_with("sequence", "sequence 4611686018427387903"));
    /* One is added to it. */
    OL_CHECK(is_refused_with("sequence", "sequence 4611686018427387904"));
    OL_CHECK(is_refused_with("sequence", "sequence 9223372036854775807"));
}

OL_TEST(ranges_ascend) {
    OL_CHECK(!is_refused_with("range", "range 0 ours\nrange 1 other\nrange 9223372036854775807 ours"));
    OL_CHECK(!is_refused_with("range", "range 5 ours"));
    OL_CHECK(is_refused_with("range", "range 0 ours\nrange 0 other"));
    OL_CHECK(is_refused_with("range", "range 2 ours\nrange 1 other"));
    OL_CHECK(is_refused_with("range", "range -1 ours"));
    OL_CHECK(is_refused_with("range", "range 0 theirs"));
    OL_CHECK(is_refused_with("range", "range 0 our"));
    OL_CHECK(is_refused_with("range", "range 0 ours "));
}

OL_TEST(segments_ascend_and_do_not_overlap) {
    static const struct {
        const char *lines;
        bool is_refused;
    } cases[] = {
        {"segment 0 0 0 -", false},
        {"segment 0 65 1 -\nsegment 65 65 0 -\nsegment 65 66 1 ffffffff", false},
        {"segment 0 65 1 -\nsegment 100 200 1 -", false},
        {"segment 0 65 1 -\nsegment 64 200 1 -", true},
        {"segment 65 66 1 -\nsegment 0 65 1 -", true},
        {"segment 5 4 1 -", true},
        {"segment -1 4 1 -", true},
        {"segment 0 4 -1 -", true},
        {"segment 0 4 1", true},
        {"segment 0 4 1 1c00a3f", true},
        {"segment 0 4 1 1c00a3fff", true},
        {"segment 0 4 1 1C00A3FF", true},
        {"segment 0 4 1 1c00a3fg", true},
        {"segment 0 4 1 - -", true},
        {"segment 9223372036854775807 9223372036854775807 9223372036854775807 ffffffff", false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char lines[512];
        snprintf(lines, sizeof lines, "%s\ntail 0 0 0", cases[i].lines);
        OL_CHECK_INT(is_refused_with("tail", lines), cases[i].is_refused);
    }
}

OL_TEST(the_swap_the_tail_and_the_topic) {
    OL_CHECK(!is_refused_with("tail", "swap 7 9 0 - 7\ntail 0 0 0"));
    OL_CHECK(!is_refused_with("tail", "swap 7 9 0 00000000 9223372036854775807\ntail 0 0 0"));
    OL_CHECK(is_refused_with("tail", "swap 7 9 0 00000000 6\ntail 0 0 0"));
    OL_CHECK(is_refused_with("tail", "swap 7 9 0 00000000\ntail 0 0 0"));
    OL_CHECK(is_refused_with("tail", "swap 7 6 0 00000000 7\ntail 0 0 0"));
    OL_CHECK(is_refused_with("tail", "swap 7 9 0 0000000 7\ntail 0 0 0"));
    OL_CHECK(is_refused_with("tail", "tail 0 0 0 -"));
    OL_CHECK(is_refused_with("tail", "tail 0 0"));
    OL_CHECK(is_refused_with("tail", "tail 5 4 0"));
    OL_CHECK(is_refused_with("tail", "tail 0 0 -1"));
    OL_CHECK(!is_refused_with("tail", "tail 5 9223372036854775807 9223372036854775807"));
    OL_CHECK(!is_refused_with("topic", "topic AAAAAAAAAAAAAAAAAAAAAA"));
    OL_CHECK(is_refused_with("topic", "topic AAAAAAAAAAAAAAAAAAAAA"));
    OL_CHECK(is_refused_with("topic", "topic AAAAAAAAAAAAAAAAAAAAAAA"));
    OL_CHECK(is_refused_with("topic", "topic 4ClGgBhSQPWWHcPK0jTz+w"));
    OL_CHECK(is_refused_with("topic", "topic --"));
    OL_CHECK(is_refused_with("topic", "topic"));
}

OL_TEST(doubts) {
    static const char *const causes[] = {"manifest", "sidecar", "gap", "end"};
    char lines[2048];
    for (size_t i = 0; i < sizeof causes / sizeof causes[0]; i++) {
        snprintf(lines, sizeof lines, "tail 0 0 0\ndoubt 3 3 %s\ndoubt 3 - %s", causes[i], causes[i]);
        OL_CHECK(!is_refused_with("tail", lines));
    }
    OL_CHECK(is_refused_with("tail", "tail 0 0 0\ndoubt 3 2 gap"));
    OL_CHECK(is_refused_with("tail", "tail 0 0 0\ndoubt -1 2 gap"));
    OL_CHECK(is_refused_with("tail", "tail 0 0 0\ndoubt - 2 gap"));
    OL_CHECK(is_refused_with("tail", "tail 0 0 0\ndoubt 1 2"));
    OL_CHECK(is_refused_with("tail", "tail 0 0 0\ndoubt 1 2 gaps"));
    OL_CHECK(is_refused_with("tail", "tail 0 0 0\ndoubt 1 2 ga"));
    for (int count = 0; count <= OL_MANIFEST_DOUBTS_MAX + 1; count++) {
        strcpy(lines, "tail 0 0 0");
        for (int i = 0; i < count; i++) strcat(lines, "\ndoubt 1 2 gap");
        OL_CHECK_INT(is_refused_with("tail", lines), count > OL_MANIFEST_DOUBTS_MAX);
    }
}

OL_TEST(another_version_is_not_supported) {
    static const char *const titles[] = {"offsetlog manifest 2", "offsetlog manifest 11", "offsetlog manifest x"};
    for (size_t i = 0; i < 3; i++) {
        char text[256];
        ol_manifest manifest = {0};
        ol_error error;
        size_t size = (size_t)snprintf(text, sizeof text, "%s\nanything\n", titles[i]);
        size += (size_t)sprintf(text + size, "check %016" PRIx64 "\n", ol_xxh3_128(text, size).low);
        OL_CHECK_INT(parse_bytes(text, size, &manifest, &error), OL_UNSUPPORTED);
        check_empty(&manifest);
    }
    OL_CHECK(is_text_refused("offsetlog manifest\n"));
    OL_CHECK(is_text_refused("offsetlog  1\n"));
    OL_CHECK(is_text_refused(""));
}

/* -------------------------------------------------------------------------------- files */

OL_TEST(files_of_hostile_sizes) {
    char directory[256];
    ol_manifest manifest = {0};
    ol_error error;
    ol_test_directory_make(directory);
    const char *path = ol_test_path(directory, OL_MANIFEST_FILE);
    OL_CHECK_INT(ol_manifest_load(&manifest, ol_fs_posix(), path, &error), OL_NO_SUCH_FILE);
    ol_test_write_file(path, "", 0);
    OL_CHECK_INT(ol_manifest_load(&manifest, ol_fs_posix(), path, &error), OL_CORRUPT);
    OL_CHECK(strcmp(error.path, path) == 0);
    /* Holes, so that nothing is written: a file at the limit is read, and one above it is not. */
    OL_CHECK(truncate(path, (off_t)OL_MANIFEST_SIZE_MAX) == 0);
    OL_CHECK_INT(ol_manifest_load(&manifest, ol_fs_posix(), path, &error), OL_CORRUPT);
    OL_CHECK(truncate(path, (off_t)OL_MANIFEST_SIZE_MAX + 1) == 0);
    OL_CHECK_INT(ol_manifest_load(&manifest, ol_fs_posix(), path, &error), OL_LIMIT);
    OL_CHECK(truncate(path, (off_t)1 << 42) == 0);
    OL_CHECK_INT(ol_manifest_load(&manifest, ol_fs_posix(), path, &error), OL_LIMIT);
    check_empty(&manifest);
    OL_CHECK(remove(path) == 0 && mkdir(path, 0777) == 0);
    OL_CHECK(ol_manifest_load(&manifest, ol_fs_posix(), path, &error) != OL_OK);
    check_empty(&manifest);
    ol_test_directory_remove(directory);
}

OL_TEST(a_file_is_stored_and_loaded_with_many_segments) {
    enum { SEGMENTS = 100000 };
    char directory[256];
    ol_manifest manifest = {.sequence = 1, .epoch = -1}, loaded = {0};
    ol_error error;
    ol_test_directory_make(directory);
    const char *path = ol_test_path(directory, OL_MANIFEST_FILE);
    OL_CHECK_OK(ol_manifest_add_range(&manifest, 0, true, &error), &error);
    manifest.segments = calloc(SEGMENTS, sizeof *manifest.segments);
    for (int64_t i = 0; i < SEGMENTS; i++) {
        manifest.segments[i] = (ol_manifest_segment){i * 10, i * 10 + 10, i, (uint32_t)i, i % 2 == 0};
    }
    manifest.segment_count = SEGMENTS;
    OL_CHECK_OK(ol_manifest_store(&manifest, ol_fs_posix(), path, &error), &error);
    OL_CHECK_OK(ol_manifest_load(&loaded, ol_fs_posix(), path, &error), &error);
    OL_CHECK_INT(loaded.segment_count, SEGMENTS);
    for (int64_t i = 0; i < SEGMENTS; i++) {
        check_segment(&loaded.segments[i], i * 10, i * 10 + 10, i, i % 2 == 0 ? i : -1);
    }
    ol_manifest_free(&manifest);
    ol_manifest_free(&loaded);
    ol_test_directory_remove(directory);
}

/* -------------------------------------------------------------------------------- ranges and doubts */

static void check_ranges(const ol_manifest *manifest, const char *expected) {
    char found[256] = "";
    for (size_t i = 0; i < manifest->range_count; i++) {
        sprintf(found + strlen(found), "%s%" PRId64 " %s", i > 0 ? ", " : "", manifest->ranges[i].offset,
                manifest->ranges[i].is_ours ? "ours" : "other");
    }
    if (strcmp(found, expected) != 0) fprintf(stderr, "the ranges are %s, expected %s\n", found, expected);
    OL_CHECK(strcmp(found, expected) == 0);
}

OL_TEST(a_range_continues_ends_or_replaces_others) {
    static const struct {
        int64_t offset;
        bool is_ours;
        const char *expected;
    } steps[] = {
        {0, true, "0 ours"},
        {50, true, "0 ours"},
        {50, false, "0 ours, 50 other"},
        {50, true, "0 ours"},
        {70, false, "0 ours, 70 other"},
        {90, true, "0 ours, 70 other, 90 ours"},
        {80, false, "0 ours, 70 other"},        /* the log was cut */
        {60, true, "0 ours"},
        {60, false, "0 ours, 60 other"},
        {0, false, "0 other"},
        {0, true, "0 ours"},
    };
    ol_manifest manifest = {0};
    ol_error error;
    for (size_t i = 0; i < sizeof steps / sizeof steps[0]; i++) {
        OL_CHECK_OK(ol_manifest_add_range(&manifest, steps[i].offset, steps[i].is_ours, &error), &error);
        check_ranges(&manifest, steps[i].expected);
    }
    ol_manifest_free(&manifest);
}

OL_TEST(a_gap_is_legal_where_no_offset_of_ours_is_in_it) {
    ol_manifest manifest = {0};
    ol_error error;
    OL_CHECK_OK(ol_manifest_add_range(&manifest, 0, true, &error), &error);
    OL_CHECK_OK(ol_manifest_add_range(&manifest, 100, false, &error), &error);
    OL_CHECK_OK(ol_manifest_add_range(&manifest, 200, true, &error), &error);
    manifest.cleaned = 30;
    static const struct {
        int64_t from, to;
        bool is_legal;
    } gaps[] = {
        {0, 30, true},    {0, 31, false},    {29, 30, true},   {30, 31, false},          {30, 100, false},
        {99, 100, false}, {99, 101, false},  {100, 101, true}, {100, 200, true},         {150, 201, false},
        {199, 200, true}, {200, 201, false}, {0, 500, false},  {INT64_MAX - 1, INT64_MAX, false},
    };
    for (size_t i = 0; i < sizeof gaps / sizeof gaps[0]; i++) {
        OL_CHECK_INT(ol_manifest_is_gap_legal(&manifest, gaps[i].from, gaps[i].to), gaps[i].is_legal);
    }
    manifest.cleaned = 250;
    OL_CHECK(ol_manifest_is_gap_legal(&manifest, 0, 250) && !ol_manifest_is_gap_legal(&manifest, 0, 251));
    ol_manifest_free(&manifest);
    OL_CHECK(ol_manifest_is_gap_legal(&manifest, 0, 1));
}

OL_TEST(more_doubts_than_there_is_room_for_widen_the_last) {
    ol_manifest manifest = {0};
    for (int64_t i = 0; i < OL_MANIFEST_DOUBTS_MAX; i++) {
        ol_manifest_add_doubt(&manifest, &(ol_manifest_doubt){100 + i, 101 + i, OL_DOUBT_GAP});
    }
    ol_manifest_add_doubt(&manifest, &(ol_manifest_doubt){7, 8, OL_DOUBT_END});
    ol_manifest_add_doubt(&manifest, &(ol_manifest_doubt){300, INT64_MAX, OL_DOUBT_SIDECAR});
    OL_CHECK_INT(manifest.doubt_count, OL_MANIFEST_DOUBTS_MAX);
    check_doubt(&manifest.doubts[OL_MANIFEST_DOUBTS_MAX - 2], 114, 115, OL_DOUBT_GAP);
    check_doubt(&manifest.doubts[OL_MANIFEST_DOUBTS_MAX - 1], 7, INT64_MAX, OL_DOUBT_GAP);
}

OL_TEST_MAIN()
