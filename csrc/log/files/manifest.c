/* Formats and parses the text of a manifest. */
#include "log/files/manifest.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"

static const char title[] = "offsetlog manifest 1";
enum { LINE_SIZE_MAX = 160, FIELDS_MAX = 6, CHECK_DIGITS = 16, CHECKSUM_DIGITS = 8 };
/* Each manifest increments the sequence, so this limit is never reached. */
#define SEQUENCE_MAX (INT64_MAX / 2)

static const char *const causes[OL_DOUBT_CAUSES] = {"manifest", "sidecar", "gap", "end"};

void ol_manifest_free(ol_manifest *manifest) {
    free(manifest->ranges);
    free(manifest->segments);
    *manifest = (ol_manifest){0};
}

static uint64_t check_of(const void *text, size_t size) { return ol_xxh3_128(text, size).low; }

/* ------------------------------------------------------------ to text */

typedef struct writer {
    char *text;
    size_t size;
    size_t capacity;
} writer;

static void put(writer *out, const char *format, ...) OL_PRINTF(2, 3);

/* The capacity is that of the longest lines. */
static void put(writer *out, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(out->text + out->size, out->capacity - out->size, format, arguments);
    va_end(arguments);
    OL_ASSERT(length > 0 && (size_t)length < out->capacity - out->size);
    out->size += (size_t)length;
}

static void put_segment(writer *out, const char *name, const ol_manifest_segment *segment) {
    put(out, "%s %" PRId64 " %" PRId64 " %" PRId64, name, segment->base_offset,
        segment->end_offset, segment->size);
    if (segment->has_checksum) {
        put(out, " %0*" PRIx32, CHECKSUM_DIGITS, segment->checksum);
    } else {
        put(out, " -");
    }
}

int ol_manifest_format(const ol_manifest *manifest, char **text, size_t *size, ol_error *error) {
    size_t lines = 8 + manifest->range_count + manifest->segment_count + manifest->doubt_count;
    writer out = {.capacity = lines * LINE_SIZE_MAX};
    out.text = malloc(out.capacity);
    if (out.text == NULL) {
        return ol_fail(error, OL_NO_MEMORY, "no memory for a manifest of %zu segments",
                       manifest->segment_count);
    }
    char topic[OL_UUID_TEXT_SIZE] = "-";
    if (manifest->has_topic_id) ol_uuid_format(&manifest->topic_id, topic);
    put(&out, "%s\nsequence %" PRId64 "\ntopic %.*s\nepoch %" PRId32 "\ncleaned %" PRId64 "\n",
        title, manifest->sequence, manifest->has_topic_id ? OL_UUID_TEXT_SIZE : 1, topic,
        manifest->epoch, manifest->cleaned);
    for (size_t i = 0; i < manifest->range_count; i++) {
        put(&out, "range %" PRId64 " %s\n", manifest->ranges[i].offset,
            manifest->ranges[i].is_ours ? "ours" : "other");
    }
    for (size_t i = 0; i < manifest->segment_count; i++) {
        put_segment(&out, "segment", &manifest->segments[i]);
        put(&out, "\n");
    }
    if (manifest->has_swap) {
        put_segment(&out, "swap", &manifest->swap);
        put(&out, " %" PRId64 "\n", manifest->swap_last);
    }
    put(&out, "tail %" PRId64 " %" PRId64 " %" PRId64 "\n", manifest->tail.base_offset,
        manifest->tail.end_offset, manifest->tail.size);
    for (size_t i = 0; i < manifest->doubt_count; i++) {
        const ol_manifest_doubt *doubt = &manifest->doubts[i];
        put(&out, "doubt %" PRId64, doubt->from);
        if (doubt->below == INT64_MAX) {
            put(&out, " - %s\n", causes[doubt->cause]);
        } else {
            put(&out, " %" PRId64 " %s\n", doubt->below, causes[doubt->cause]);
        }
    }
    put(&out, "check %0*" PRIx64 "\n", CHECK_DIGITS, check_of(out.text, out.size));
    *text = out.text;
    *size = out.size;
    return OL_OK;
}

/* ------------------------------------------------------------ from text */

typedef struct parser {
    const char *cursor;
    const char *limit;
    int64_t line;               /* in hand, from 1 */
    ol_slice fields[FIELDS_MAX];
    size_t count;               /* of the fields; 0: no more lines */
    ol_manifest *manifest;
    ol_error *error;
} parser;

static int refuse(const parser *in, const char *reason) {
    return ol_fail(in->error, OL_CORRUPT, "line %lld of the manifest: %s", (long long)in->line,
                   reason);
}

/* Splits the next line at single spaces; a line of another form has no fields. */
static void next_line(parser *in) {
    in->count = 0;
    in->line++;
    size_t left = (size_t)(in->limit - in->cursor);
    const char *end = left == 0 ? NULL : memchr(in->cursor, '\n', left);
    if (end == NULL || end - in->cursor >= LINE_SIZE_MAX) return;
    const char *start = in->cursor;
    for (const char *at = start; at <= end; at++) {
        if (at != end && *at != ' ') continue;
        if (at == start || in->count == FIELDS_MAX) {
            in->count = 0;
            return;
        }
        in->fields[in->count++] = ol_slice_of((const uint8_t *)start, (size_t)(at - start));
        start = at + 1;
    }
    in->cursor = end + 1;
}

static bool is_word(ol_slice field, const char *word) {
    return field.size == strlen(word) && memcmp(field.data, word, field.size) == 0;
}

static bool is_line(const parser *in, const char *name, size_t count) {
    return in->count == count && is_word(in->fields[0], name);
}

static bool take_number(ol_slice field, int64_t minimum, int64_t *value) {
    bool negative = field.size > 1 && field.data[0] == '-';
    int64_t result = 0;
    for (size_t at = negative ? 1 : 0; at < field.size; at++) {
        if (field.data[at] < '0' || field.data[at] > '9') return false;
        if (__builtin_mul_overflow(result, 10, &result) ||
            __builtin_add_overflow(result, field.data[at] - '0', &result)) {
            return false;
        }
    }
    *value = negative ? -result : result;
    return *value >= minimum;
}

static bool take_hex(ol_slice field, size_t digits, uint64_t *value) {
    *value = 0;
    if (field.size != digits) return false;
    for (size_t at = 0; at < digits; at++) {
        uint8_t byte = field.data[at];
        bool is_digit = byte >= '0' && byte <= '9';
        if (!is_digit && (byte < 'a' || byte > 'f')) return false;
        *value = *value << 4 | (uint64_t)(is_digit ? byte - '0' : byte - 'a' + 10);
    }
    return true;
}

/* Takes the fields from the second on: base, end and size, and with `checksum` the checksum. */
static bool take_segment(const parser *in, bool checksum, ol_manifest_segment *segment) {
    uint64_t sum = 0;
    if (!take_number(in->fields[1], 0, &segment->base_offset) ||
        !take_number(in->fields[2], segment->base_offset, &segment->end_offset) ||
        !take_number(in->fields[3], 0, &segment->size)) {
        return false;
    }
    segment->has_checksum = checksum && !is_word(in->fields[4], "-");
    if (segment->has_checksum && !take_hex(in->fields[4], CHECKSUM_DIGITS, &sum)) return false;
    segment->checksum = (uint32_t)sum;
    return true;
}

static int take_single(parser *in, const char *name, int64_t minimum, int64_t *value) {
    next_line(in);
    if (is_line(in, name, 2) && take_number(in->fields[1], minimum, value)) return OL_OK;
    return ol_fail(in->error, OL_CORRUPT, "line %lld of the manifest: '%s' is missing or malformed",
                   (long long)in->line, name);
}

static int take_ranges(parser *in) {
    ol_manifest *manifest = in->manifest;
    for (next_line(in); is_line(in, "range", 3); next_line(in)) {
        ol_manifest_range *range = &manifest->ranges[manifest->range_count];
        bool right = take_number(in->fields[1], 0, &range->offset);
        range->is_ours = is_word(in->fields[2], "ours");
        right = right && (range->is_ours || is_word(in->fields[2], "other"));
        if (manifest->range_count > 0 && right) right = range->offset > range[-1].offset;
        if (!right) return refuse(in, "the range is malformed, or not above the one before it");
        manifest->range_count++;
    }
    return manifest->range_count > 0 ? OL_OK : refuse(in, "there is no range");
}

/* Takes all segment lines; the current line may be the first of them. */
static int take_segments(parser *in) {
    ol_manifest *manifest = in->manifest;
    for (; is_line(in, "segment", 5); next_line(in)) {
        ol_manifest_segment *segment = &manifest->segments[manifest->segment_count];
        bool right = take_segment(in, true, segment);
        if (manifest->segment_count > 0 && right) {
            right = segment->base_offset >= segment[-1].end_offset;
        }
        if (!right) return refuse(in, "the segment is malformed, or overlaps the one before it");
        manifest->segment_count++;
    }
    return OL_OK;
}

static bool take_doubt(const parser *in, ol_manifest_doubt *doubt) {
    if (!take_number(in->fields[1], 0, &doubt->from)) return false;
    if (is_word(in->fields[2], "-")) {
        doubt->below = INT64_MAX;
    } else if (!take_number(in->fields[2], doubt->from, &doubt->below)) {
        return false;
    }
    for (int cause = 0; cause < OL_DOUBT_CAUSES; cause++) {
        doubt->cause = (ol_doubt_cause)cause;
        if (is_word(in->fields[3], causes[cause])) return true;
    }
    return false;
}

static int take_doubts(parser *in) {
    ol_manifest *manifest = in->manifest;
    while (in->cursor != in->limit) {
        ol_manifest_doubt doubt;
        next_line(in);
        if (!is_line(in, "doubt", 4) || !take_doubt(in, &doubt)) {
            return refuse(in, "the 'doubt' line is malformed");
        }
        if (manifest->doubt_count == OL_MANIFEST_DOUBTS_MAX) {
            return refuse(in, "too many 'doubt' lines (ranges of possible loss)");
        }
        manifest->doubts[manifest->doubt_count++] = doubt;
    }
    return OL_OK;
}

static int take_rest(parser *in) {
    ol_manifest *manifest = in->manifest;
    if (is_line(in, "swap", 6)) {
        manifest->has_swap = take_segment(in, true, &manifest->swap) &&
                             take_number(in->fields[5], manifest->swap.base_offset,
                                         &manifest->swap_last);
        if (!manifest->has_swap) return refuse(in, "the swap is malformed");
        next_line(in);
    }
    if (!is_line(in, "tail", 4) || !take_segment(in, false, &manifest->tail)) {
        return refuse(in, "the tail is missing or malformed");
    }
    return take_doubts(in);
}

static int take_topic(parser *in) {
    ol_manifest *manifest = in->manifest;
    next_line(in);
    bool right = is_line(in, "topic", 2);
    manifest->has_topic_id = right && !is_word(in->fields[1], "-");
    if (manifest->has_topic_id) right = ol_uuid_parse(in->fields[1], &manifest->topic_id);
    return right ? OL_OK : refuse(in, "the topic id is missing or malformed");
}

static int take_all(parser *in) {
    ol_manifest *manifest = in->manifest;
    int64_t epoch = -1;
    int status = take_single(in, "sequence", 1, &manifest->sequence);
    if (status == OL_OK && manifest->sequence > SEQUENCE_MAX) {
        status = refuse(in, "the sequence is impossibly large");
    }
    if (status == OL_OK) status = take_topic(in);
    if (status == OL_OK) status = take_single(in, "epoch", -1, &epoch);
    if (status == OL_OK && epoch > INT32_MAX) status = refuse(in, "the epoch is too large");
    manifest->epoch = (int32_t)epoch;
    if (status == OL_OK) status = take_single(in, "cleaned", 0, &manifest->cleaned);
    if (status == OL_OK) status = take_ranges(in);
    if (status == OL_OK) status = take_segments(in);
    return status == OL_OK ? take_rest(in) : status;
}

/* Checks the last line, which covers the lines before it, and sets in->limit to its beginning. */
static int take_check(parser *in, ol_slice text) {
    const size_t line_size = strlen("check ") + CHECK_DIGITS + 1;
    uint64_t check = 0;
    if (text.size < line_size) return refuse(in, "the file is too short");
    const uint8_t *line = text.data + text.size - line_size;
    in->limit = (const char *)line;
    if (memcmp(line, "check ", strlen("check ")) != 0 || line[line_size - 1] != '\n' ||
        !take_hex(ol_slice_of(line + strlen("check "), CHECK_DIGITS), CHECK_DIGITS, &check) ||
        check != check_of(text.data, (size_t)(line - text.data))) {
        return ol_fail(in->error, OL_CORRUPT, "the checksum of the manifest is wrong");
    }
    return OL_OK;
}

static int take_title(parser *in) {
    next_line(in);
    bool known = in->count == 3 && is_word(in->fields[0], "offsetlog") &&
                 is_word(in->fields[1], "manifest");
    if (!known) return refuse(in, "the file is not a manifest");
    return is_word(in->fields[2], "1")
               ? OL_OK
               : ol_fail(in->error, OL_UNSUPPORTED, "a later version of offsetlog wrote the "
                         "manifest: use that version, or open the log for reading only");
}

int ol_manifest_parse(ol_manifest *manifest, ol_slice text, ol_error *error) {
    parser in = {.cursor = (const char *)text.data, .manifest = manifest, .error = error};
    *manifest = (ol_manifest){0};
    int status = take_check(&in, text);
    if (status == OL_OK) status = take_title(&in);
    if (status != OL_OK) return status;
    /* The shortest possible lines. */
    size_t ranges = text.size / strlen("range 0 ours\n") + 1;
    size_t segments = text.size / strlen("segment 0 0 0 -\n") + 1;
    manifest->ranges = calloc(ranges, sizeof *manifest->ranges);
    manifest->segments = calloc(segments, sizeof *manifest->segments);
    status = manifest->ranges == NULL || manifest->segments == NULL
                 ? ol_fail(error, OL_NO_MEMORY, "no memory for a manifest")
                 : take_all(&in);
    if (status != OL_OK) ol_manifest_free(manifest);
    return status;
}

/* ------------------------------------------------------------ files */

int ol_manifest_load(ol_manifest *manifest, ol_fs *fs, const char *path, ol_error *error) {
    uint8_t *text = NULL;
    size_t size = 0;
    *manifest = (ol_manifest){0};
    int status = ol_fs_read_file(fs, path, OL_MANIFEST_SIZE_MAX, &text, &size, error);
    if (status == OL_OK) {
        status = ol_manifest_parse(manifest, ol_slice_of(text, size), error);
        if (status != OL_OK) status = ol_error_at(error, path, -1);
    }
    free(text);
    return status;
}

int ol_manifest_store(const ol_manifest *manifest, ol_fs *fs, const char *path, ol_error *error) {
    char *text = NULL;
    size_t size = 0;
    int status = ol_manifest_format(manifest, &text, &size, error);
    if (status == OL_OK) status = ol_fs_replace_file(fs, path, text, size, error);
    free(text);
    return status;
}

/* ------------------------------------------------------------ ranges and doubts */

bool ol_manifest_has_other(const ol_manifest *manifest) {
    for (size_t i = 0; i < manifest->range_count; i++) {
        if (!manifest->ranges[i].is_ours) return true;
    }
    return false;
}

void ol_manifest_drop_segments(ol_manifest *manifest) {
    free(manifest->segments);
    manifest->segments = NULL;
    manifest->segment_count = 0;
}

int ol_manifest_add_range(ol_manifest *manifest, int64_t offset, bool is_ours, ol_error *error) {
    size_t count = manifest->range_count;
    ol_manifest_range *ranges = realloc(manifest->ranges, (count + 1) * sizeof *ranges);
    if (ranges == NULL) return ol_fail(error, OL_NO_MEMORY, "no memory for a manifest");
    manifest->ranges = ranges;
    while (count > 0 && ranges[count - 1].offset >= offset) count--;
    if (count == 0 || ranges[count - 1].is_ours != is_ours) {
        ranges[count++] = (ol_manifest_range){.offset = offset, .is_ours = is_ours};
    }
    manifest->range_count = count;
    return OL_OK;
}

void ol_manifest_add_doubt(ol_manifest *manifest, const ol_manifest_doubt *doubt) {
    if (manifest->doubt_count < OL_MANIFEST_DOUBTS_MAX) {
        manifest->doubts[manifest->doubt_count++] = *doubt;
        return;
    }
    ol_manifest_doubt *last = &manifest->doubts[OL_MANIFEST_DOUBTS_MAX - 1];
    if (doubt->from < last->from) last->from = doubt->from;
    if (doubt->below > last->below) last->below = doubt->below;
}

bool ol_manifest_is_gap_legal(const ol_manifest *manifest, int64_t from, int64_t to) {
    if (from < manifest->cleaned) from = manifest->cleaned;
    for (size_t i = 0; i < manifest->range_count; i++) {
        const ol_manifest_range *range = &manifest->ranges[i];
        bool is_last = i + 1 == manifest->range_count;
        int64_t first = range->offset > from ? range->offset : from;
        int64_t end = is_last || range[1].offset > to ? to : range[1].offset;
        if (range->is_ours && first < end) return false;
    }
    return true;
}
