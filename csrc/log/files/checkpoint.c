/* Parses and formats both kinds of checkpoints, line by line. */
#include "log/files/checkpoint.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ------------------------------------------------------------ the common frame */

/* A walk over the lines of a checkpoint.  Line ends are those of Java's reader: \n, \r, \r\n, or
 * the end of the text. */
typedef struct line_reader {
    const uint8_t *cursor;
    const uint8_t *limit;
    int64_t number;             /* of the current line, from 1 */
} line_reader;

static bool next_line(line_reader *reader, ol_slice *line) {
    if (reader->cursor == reader->limit) return false;
    const uint8_t *start = reader->cursor;
    const uint8_t *end = start;
    while (end != reader->limit && *end != '\n' && *end != '\r') end++;
    reader->cursor = end;
    if (reader->cursor != reader->limit) {
        bool is_return = *reader->cursor++ == '\r';
        if (is_return && reader->cursor != reader->limit && *reader->cursor == '\n') {
            reader->cursor++;
        }
    }
    reader->number++;
    *line = ol_slice_of(start, (size_t)(end - start));
    return true;
}

static bool is_white(uint8_t byte) {
    return byte == ' ' || (byte >= '\t' && byte <= '\r');
}

/* Splits at runs of white space into exactly `count` fields.  Leading white space makes an empty
 * field in Kafka's reader, which is refused there and here; white space after the last field is
 * skipped. */
static bool split_fields(ol_slice line, ol_slice *fields, size_t count) {
    size_t at = 0;
    for (size_t i = 0; i < count; i++) {
        size_t start = at;
        while (at < line.size && !is_white(line.data[at])) at++;
        if (at == start) return false;
        fields[i] = ol_slice_of(line.data + start, at - start);
        while (at < line.size && is_white(line.data[at])) at++;
    }
    return at == line.size;
}

/* Parses decimal digits with an optional sign, within [minimum, maximum]. */
static bool parse_number(ol_slice text, int64_t minimum, int64_t maximum, int64_t *value) {
    size_t at = 0;
    bool negative = text.size > 0 && text.data[0] == '-';
    if (text.size > 0 && (text.data[0] == '-' || text.data[0] == '+')) at++;
    if (at == text.size) return false;
    /* The negative range is the larger one, so the value is gathered there. */
    int64_t result = 0;
    for (; at < text.size; at++) {
        if (text.data[at] < '0' || text.data[at] > '9') return false;
        int64_t digit = text.data[at] - '0';
        if (__builtin_mul_overflow(result, 10, &result) ||
            __builtin_sub_overflow(result, digit, &result)) {
            return false;
        }
    }
    if (!negative) {
        if (result == INT64_MIN) return false;
        result = -result;
    }
    if (result < minimum || result > maximum) return false;
    *value = result;
    return true;
}

static ol_slice trimmed(ol_slice text) {
    while (text.size > 0 && is_white(text.data[0])) {
        text = ol_slice_of(text.data + 1, text.size - 1);
    }
    while (text.size > 0 && is_white(text.data[text.size - 1])) text.size--;
    return text;
}

static int fail_line(ol_error *error, const line_reader *reader, const char *reason) {
    return ol_fail(error, OL_CORRUPT, "line %lld: %s", (long long)reader->number, reason);
}

/* Reads version and count.  *empty: there are no more lines, and no entries. */
static int read_frame(line_reader *reader, size_t *count, bool *empty, ol_error *error) {
    ol_slice line;
    int64_t number;
    *count = 0;
    *empty = true;
    if (!next_line(reader, &line)) return OL_OK;
    if (!parse_number(trimmed(line), INT32_MIN, INT32_MAX, &number)) {
        return fail_line(error, reader, "the version is not a number");
    }
    if (number != 0) {
        return ol_fail(error, OL_UNSUPPORTED, "line 1: version %lld is not known",
                       (long long)number);
    }
    if (!next_line(reader, &line)) return OL_OK;
    /* Every entry takes at least four bytes with its line end ("0 0"), so a larger count cannot be
     * true. */
    int64_t count_max = (reader->limit - reader->cursor) / 4 + 1;
    if (!parse_number(trimmed(line), 0, INT32_MAX, &number)) {
        return fail_line(error, reader, "the count is not a number");
    }
    if (number > count_max) return fail_line(error, reader, "the file is too short for the count");
    *count = (size_t)number;
    *empty = false;
    return OL_OK;
}

/* Calls `take` with the fields of every line; there must be as many lines as the count says. */
static int read_entries(ol_slice text, size_t field_count,
                        int (*take)(void *context, const ol_slice *fields,
                                    const line_reader *reader, ol_error *error),
                        void *context, ol_error *error) {
    line_reader reader = {text.data, text.data + text.size, 0};
    ol_slice line, fields[3];
    size_t expected, count = 0;
    bool empty;
    OL_ASSERT(field_count <= sizeof fields / sizeof fields[0]);
    int status = read_frame(&reader, &expected, &empty, error);
    if (status != OL_OK || empty) return status;
    while (next_line(&reader, &line)) {
        if (count == expected) {
            return fail_line(error, &reader, "there are more entries than the count says");
        }
        if (!split_fields(line, fields, field_count)) {
            return fail_line(error, &reader, "too few or too many fields");
        }
        status = take(context, fields, &reader, error);
        if (status != OL_OK) return status;
        count++;
    }
    if (count != expected) {
        return fail_line(error, &reader, "there are fewer entries than the count says");
    }
    return OL_OK;
}

/* ------------------------------------------------------------ offset checkpoints */

void ol_offset_checkpoint_free(ol_offset_checkpoint *checkpoint) {
    for (size_t i = 0; i < checkpoint->count; i++) free(checkpoint->entries[i].topic);
    free(checkpoint->entries);
    memset(checkpoint, 0, sizeof *checkpoint);
}

static ol_checkpoint_entry *find_entry(const ol_offset_checkpoint *checkpoint, ol_slice topic,
                                       int32_t partition) {
    for (size_t i = 0; i < checkpoint->count; i++) {
        ol_checkpoint_entry *entry = &checkpoint->entries[i];
        if (entry->partition != partition ||
            strncmp(entry->topic, (const char *)topic.data, topic.size) != 0) {
            continue;
        }
        if (entry->topic[topic.size] == '\0') return entry;
    }
    return NULL;
}

const ol_checkpoint_entry *ol_offset_checkpoint_find(const ol_offset_checkpoint *checkpoint,
                                                     const char *topic, int32_t partition) {
    return find_entry(checkpoint, ol_slice_of(topic, strlen(topic)), partition);
}

static int append_entry(ol_offset_checkpoint *checkpoint, ol_slice topic, int32_t partition,
                        int64_t offset, ol_error *error) {
    if (checkpoint->count == checkpoint->capacity) {
        size_t capacity = checkpoint->capacity == 0 ? 16 : 2 * checkpoint->capacity;
        ol_checkpoint_entry *entries = realloc(checkpoint->entries, capacity * sizeof *entries);
        if (entries == NULL) return ol_fail(error, OL_NO_MEMORY, "no memory for a checkpoint");
        checkpoint->entries = entries;
        checkpoint->capacity = capacity;
    }
    char *copy = strndup((const char *)topic.data, topic.size);
    if (copy == NULL) return ol_fail(error, OL_NO_MEMORY, "no memory for a checkpoint");
    checkpoint->entries[checkpoint->count++] = (ol_checkpoint_entry){copy, offset, partition};
    return OL_OK;
}

static bool is_topic(ol_slice topic) {
    if (topic.size == 0 || topic.size > OL_TOPIC_SIZE_MAX) return false;
    for (size_t i = 0; i < topic.size; i++) {
        if (topic.data[i] <= ' ' || topic.data[i] == 0x7f || topic.data[i] == '/') return false;
    }
    return true;
}

int ol_offset_checkpoint_set(ol_offset_checkpoint *checkpoint, const char *topic, int32_t partition,
                             int64_t offset, ol_error *error) {
    ol_slice name = ol_slice_of(topic, strlen(topic));
    if (!is_topic(name)) return ol_fail(error, OL_INVALID, "'%.100s' is not a topic name", topic);
    if (partition < 0) return ol_fail(error, OL_INVALID, "partition %d is negative", partition);
    ol_checkpoint_entry *entry = find_entry(checkpoint, name, partition);
    if (entry == NULL) return append_entry(checkpoint, name, partition, offset, error);
    entry->offset = offset;
    return OL_OK;
}

void ol_offset_checkpoint_remove(ol_offset_checkpoint *checkpoint, const char *topic,
                                 int32_t partition) {
    ol_checkpoint_entry *entry = find_entry(checkpoint, ol_slice_of(topic, strlen(topic)),
                                            partition);
    if (entry == NULL) return;
    free(entry->topic);
    size_t after = checkpoint->count - (size_t)(entry - checkpoint->entries) - 1;
    memmove(entry, entry + 1, after * sizeof *entry);
    checkpoint->count--;
}

static int take_offset(void *context, const ol_slice *fields, const line_reader *reader,
                       ol_error *error) {
    ol_offset_checkpoint *checkpoint = context;
    int64_t partition, offset;
    if (!is_topic(fields[0])) return fail_line(error, reader, "the topic is not a name");
    if (!parse_number(fields[1], 0, INT32_MAX, &partition)) {
        return fail_line(error, reader, "the partition is not a number");
    }
    if (!parse_number(fields[2], INT64_MIN, INT64_MAX, &offset)) {
        return fail_line(error, reader, "the offset is not a number");
    }
    return append_entry(checkpoint, fields[0], (int32_t)partition, offset, error);
}

static int compare_keys(const ol_checkpoint_entry *a, const ol_checkpoint_entry *b) {
    int order = strcmp(a->topic, b->topic);
    if (order != 0) return order;
    return (a->partition > b->partition) - (a->partition < b->partition);
}

static int compare_keys_indirect(const void *a, const void *b) {
    return compare_keys(*(const ol_checkpoint_entry *const *)a,
                        *(const ol_checkpoint_entry *const *)b);
}

/* A key that appears twice is refused, because choosing one would be a guess.  The keys are sorted
 * first, so that a hostile file of many lines does not cost the square of their number. */
static int refuse_duplicates(const ol_offset_checkpoint *checkpoint, ol_error *error) {
    int status = OL_OK;
    if (checkpoint->count < 2) return OL_OK;
    const ol_checkpoint_entry **sorted = malloc(checkpoint->count * sizeof *sorted);
    if (sorted == NULL) return ol_fail(error, OL_NO_MEMORY, "no memory for a checkpoint");
    for (size_t i = 0; i < checkpoint->count; i++) sorted[i] = &checkpoint->entries[i];
    qsort(sorted, checkpoint->count, sizeof *sorted, compare_keys_indirect);
    for (size_t i = 1; i < checkpoint->count && status == OL_OK; i++) {
        if (compare_keys(sorted[i - 1], sorted[i]) != 0) continue;
        const ol_checkpoint_entry *later = sorted[i - 1] > sorted[i] ? sorted[i - 1] : sorted[i];
        long long line = (long long)(later - checkpoint->entries) + 3;
        status = ol_fail(error, OL_CORRUPT,
                         "line %lld: partition %.100s-%d appears more than once", line,
                         later->topic, later->partition);
    }
    free(sorted);
    return status;
}

int ol_offset_checkpoint_parse(ol_offset_checkpoint *checkpoint, ol_slice text, ol_error *error) {
    OL_ASSERT(checkpoint->count == 0);
    if (text.size > OL_CHECKPOINT_SIZE_MAX) {
        return ol_fail(error, OL_LIMIT, "the checkpoint has %zu bytes", text.size);
    }
    int status = read_entries(text, 3, take_offset, checkpoint, error);
    if (status == OL_OK) status = refuse_duplicates(checkpoint, error);
    if (status != OL_OK) ol_offset_checkpoint_free(checkpoint);
    return status;
}

int ol_offset_checkpoint_format(const ol_offset_checkpoint *checkpoint, char **text, size_t *size,
                                ol_error *error) {
    enum { LINE_SIZE_MAX = OL_TOPIC_SIZE_MAX + 1 + 11 + 1 + 20 + 1, FRAME_SIZE_MAX = 32 };
    size_t capacity = FRAME_SIZE_MAX + checkpoint->count * LINE_SIZE_MAX;
    char *result = malloc(capacity);
    if (result == NULL) return ol_fail(error, OL_NO_MEMORY, "no memory for a checkpoint");
    size_t at = (size_t)snprintf(result, capacity, "0\n%zu\n", checkpoint->count);
    for (size_t i = 0; i < checkpoint->count; i++) {
        const ol_checkpoint_entry *entry = &checkpoint->entries[i];
        at += (size_t)snprintf(result + at, capacity - at, "%s %d %lld\n", entry->topic,
                               entry->partition, (long long)entry->offset);
    }
    OL_ASSERT(at < capacity);
    *text = result;
    *size = at;
    return OL_OK;
}

int ol_offset_checkpoint_load(ol_offset_checkpoint *checkpoint, ol_fs *fs, const char *path,
                              ol_error *error) {
    uint8_t *text;
    size_t size;
    int status = ol_fs_read_file(fs, path, OL_CHECKPOINT_SIZE_MAX, &text, &size, error);
    if (status != OL_OK) return status;
    status = ol_offset_checkpoint_parse(checkpoint, ol_slice_of(text, size), error);
    free(text);
    return status == OL_OK ? OL_OK : ol_error_at(error, path, -1);
}

int ol_offset_checkpoint_store(const ol_offset_checkpoint *checkpoint, ol_fs *fs, const char *path,
                               ol_error *error) {
    char *text;
    size_t size;
    int status = ol_offset_checkpoint_format(checkpoint, &text, &size, error);
    if (status != OL_OK) return status;
    status = ol_fs_replace_file(fs, path, text, size, error);
    free(text);
    return status;
}

/* ------------------------------------------------------------ leader-epoch-checkpoint */

typedef struct epoch_list {
    ol_leader_epoch *entries;
    size_t count;
    size_t capacity;
} epoch_list;

static int take_epoch(void *context, const ol_slice *fields, const line_reader *reader,
                      ol_error *error) {
    epoch_list *list = context;
    int64_t epoch, start;
    if (!parse_number(fields[0], 0, INT32_MAX, &epoch)) {
        return fail_line(error, reader, "the epoch is not a number");
    }
    if (!parse_number(fields[1], 0, INT64_MAX, &start)) {
        return fail_line(error, reader, "the offset is not a number");
    }
    if (list->count > 0) {
        const ol_leader_epoch *last = &list->entries[list->count - 1];
        if (epoch <= last->epoch || start <= last->start_offset) {
            return fail_line(error, reader,
                             "the epoch or the offset is not above the previous one");
        }
    }
    if (list->count == list->capacity) {
        size_t capacity = list->capacity == 0 ? 8 : 2 * list->capacity;
        ol_leader_epoch *entries = realloc(list->entries, capacity * sizeof *entries);
        if (entries == NULL) return ol_fail(error, OL_NO_MEMORY, "no memory for leader epochs");
        list->entries = entries;
        list->capacity = capacity;
    }
    list->entries[list->count++] = (ol_leader_epoch){start, (int32_t)epoch};
    return OL_OK;
}

int ol_epoch_checkpoint_parse(ol_slice text, ol_leader_epoch **entries, size_t *count,
                              ol_error *error) {
    epoch_list list = {NULL, 0, 0};
    if (text.size > OL_CHECKPOINT_SIZE_MAX) {
        return ol_fail(error, OL_LIMIT, "the checkpoint has %zu bytes", text.size);
    }
    int status = read_entries(text, 2, take_epoch, &list, error);
    if (status != OL_OK) {
        free(list.entries);
        return status;
    }
    *entries = list.entries;
    *count = list.count;
    return OL_OK;
}

int ol_epoch_checkpoint_format(const ol_leader_epoch *entries, size_t count, char **text,
                               size_t *size, ol_error *error) {
    enum { LINE_SIZE_MAX = 11 + 1 + 20 + 1, FRAME_SIZE_MAX = 32 };
    size_t capacity = FRAME_SIZE_MAX + count * LINE_SIZE_MAX;
    char *result = malloc(capacity);
    if (result == NULL) return ol_fail(error, OL_NO_MEMORY, "no memory for leader epochs");
    size_t at = (size_t)snprintf(result, capacity, "0\n%zu\n", count);
    for (size_t i = 0; i < count; i++) {
        at += (size_t)snprintf(result + at, capacity - at, "%d %lld\n", entries[i].epoch,
                               (long long)entries[i].start_offset);
    }
    OL_ASSERT(at < capacity);
    *text = result;
    *size = at;
    return OL_OK;
}
