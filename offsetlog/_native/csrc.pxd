# csrc: the one place where the C engine is declared to Cython; no other file may say "cdef extern from" one of our headers.
# The headers in csrc/ are the contract; this file repeats their names and types, and never their meaning.

from libc.stddef cimport size_t
from libc.stdint cimport int8_t, int16_t, int32_t, int64_t, uint8_t, uint32_t, uint64_t


cdef extern from "sys/socket.h" nogil:
    int MSG_DONTWAIT
    int MSG_NOSIGNAL
    ssize_t send(int fd, const void *bytes, size_t size, int flags) noexcept


cdef extern from "stdbool.h" nogil:
    # Cython's bint is an int; a pointer to C's bool has to be a pointer to bool.
    ctypedef bint c_bool "bool"


cdef extern from "base/base.h" nogil:
    ctypedef struct ol_slice:
        const uint8_t *data
        size_t size

    ol_slice ol_slice_of(const void *data, size_t size) noexcept
    ol_slice ol_slice_null() noexcept


cdef extern from "base/status.h" nogil:
    enum:
        OL_OK
        OL_END
        OL_WOULD_BLOCK
        OL_NO_MEMORY
        OL_IO
        OL_DISK_FULL
        OL_NO_SUCH_FILE
        OL_LOCKED
        OL_CHANGED
        OL_CORRUPT
        OL_TORN
        OL_UNSUPPORTED
        OL_LIMIT
        OL_INVALID
        OL_TOO_LARGE
        OL_OUT_OF_RANGE
        OL_CLOSED
        OL_READ_ONLY
        OL_FAILED
        OL_LOADING
        OL_NOT_COORDINATOR
        OL_CONDITION
        OL_REWIND
        OL_FENCED
        OL_TRANSACTION
        OL_TIMED_OUT
        OL_FENCED_LEADER_EPOCH
        OL_UNKNOWN_LEADER_EPOCH
        OL_GENERATION
        OL_CRASHED

    ctypedef struct ol_error:
        int status
        int sys_errno
        int64_t position
        int64_t offset
        int64_t item
        # These are arrays in C; they are declared as pointers here, so that their sizes are not repeated.
        char *path
        char *reason

    void ol_error_clear(ol_error *error) noexcept
    int ol_fail(ol_error *error, int status, const char *format, ...) noexcept
    int ol_fail_errno(ol_error *error, int sys_errno, const char *operation, const char *path) noexcept
    int ol_error_at(ol_error *error, const char *path, int64_t position) noexcept
    const char *ol_status_name(int status) noexcept


cdef extern from "base/hash.h" nogil:
    ctypedef struct ol_hash128:
        uint64_t low
        uint64_t high

    ol_hash128 ol_xxh3_128(const void *data, size_t size) noexcept
    ol_hash128 ol_hash128_add(ol_hash128 a, ol_hash128 b) noexcept
    ol_hash128 ol_hash128_subtract(ol_hash128 a, ol_hash128 b) noexcept
    uint64_t ol_hash64(const void *data, size_t size, uint64_t seed) noexcept
    uint64_t ol_hash64_mix(uint64_t a, uint64_t b) noexcept


cdef extern from "base/java_string.h" nogil:
    int32_t ol_java_hash(ol_slice utf8) noexcept
    int32_t ol_partition_for(ol_slice group, int32_t count) noexcept
    size_t ol_java_character(const uint8_t *p, size_t left, uint32_t *character) noexcept
    size_t ol_utf16_units(ol_slice utf8, c_bool *valid) noexcept


cdef extern from "base/crc32c.h" nogil:
    uint32_t ol_crc32c(const void *data, size_t size) noexcept
    uint32_t ol_crc32c_extend(uint32_t crc, const void *data, size_t size) noexcept
    const char *ol_crc32c_implementation() noexcept
    uint32_t ol_crc32(const void *data, size_t size) noexcept


cdef extern from "base/bytes.h" nogil:
    int32_t ol_load_i32(const uint8_t *p) noexcept
    void ol_store_i32(uint8_t *p, int32_t v) noexcept
    bint ol_slice_equal(ol_slice a, ol_slice b) noexcept


cdef extern from "fs/fs.h" nogil:
    ctypedef struct ol_file:
        pass

    enum:
        OL_PATH_MAX

    ctypedef enum ol_open_mode:
        OL_OPEN_READ
        OL_OPEN_WRITE
        OL_OPEN_CREATE
        OL_OPEN_CREATE_NEW

    ctypedef struct ol_fs:
        int (*open)(ol_fs *fs, const char *path, ol_open_mode mode, ol_file **file, ol_error *error) noexcept nogil
        void (*close)(ol_file *file) noexcept nogil
        int (*size)(ol_file *file, int64_t *size, ol_error *error) noexcept nogil
        int (*read)(ol_file *file, int64_t position, void *data, size_t size, size_t *got, ol_error *error) noexcept nogil
        int (*write)(ol_file *file, int64_t position, const void *data, size_t size, ol_error *error) noexcept nogil
        int (*truncate)(ol_file *file, int64_t size, ol_error *error) noexcept nogil
        int (*flush)(ol_file *file, ol_error *error) noexcept nogil
        int (*rename)(ol_fs *fs, const char *source, const char *target, ol_error *error) noexcept nogil
        int (*remove)(ol_fs *fs, const char *path, ol_error *error) noexcept nogil
        int (*make_directory)(ol_fs *fs, const char *path, ol_error *error) noexcept nogil
        int (*flush_directory)(ol_fs *fs, const char *path, ol_error *error) noexcept nogil
        int (*list)(ol_fs *fs, const char *path, int (*visit)(void *context, const char *name) noexcept nogil, void *context,
                    ol_error *error) noexcept nogil
        int (*exists)(ol_fs *fs, const char *path, c_bool *exists, ol_error *error) noexcept nogil
        int (*lock)(ol_fs *fs, const char *path, ol_file **file, ol_error *error) noexcept nogil

    ol_fs *ol_fs_posix() noexcept
    int ol_fs_read_file(ol_fs *fs, const char *path, size_t limit, uint8_t **data, size_t *size, ol_error *error) noexcept
    int ol_fs_replace_file(ol_fs *fs, const char *path, const void *data, size_t size, ol_error *error) noexcept


cdef extern from "log/files/names.h" nogil:
    enum:
        OL_UUID_SIZE
        OL_UUID_TEXT_SIZE
        OL_NAME_SIZE_MAX
        OL_DIRECTORY_PARTITION

    ctypedef struct ol_uuid:
        uint8_t *bytes

    ctypedef struct ol_directory_name:
        char *topic
        int32_t partition
        int kind

    void ol_uuid_format(const ol_uuid *uuid, char *text) noexcept
    bint ol_uuid_parse(ol_slice text, ol_uuid *uuid) noexcept
    bint ol_directory_name_parse(const char *name, ol_directory_name *parsed) noexcept


cdef extern from "log/files/manifest.h" nogil:
    ctypedef struct ol_manifest_segment:
        int64_t base_offset
        int64_t end_offset
        int64_t size
        uint32_t checksum
        bint has_checksum

    ctypedef struct ol_manifest:
        int64_t sequence
        ol_manifest_segment *segments
        size_t segment_count
        bint has_swap

    int ol_manifest_parse(ol_manifest *manifest, ol_slice text, ol_error *error) noexcept
    void ol_manifest_free(ol_manifest *manifest) noexcept


cdef extern from "log/segment_checksum.h" nogil:
    int ol_segment_checksum_file(ol_fs *fs, const char *path, int64_t size, uint32_t *checksum, ol_error *error) noexcept


cdef extern from "log/files/checkpoint.h" nogil:
    ctypedef struct ol_checkpoint_entry:
        char *topic
        int64_t offset
        int32_t partition

    ctypedef struct ol_offset_checkpoint:
        ol_checkpoint_entry *entries
        size_t count
        size_t capacity

    void ol_offset_checkpoint_free(ol_offset_checkpoint *checkpoint) noexcept
    int ol_offset_checkpoint_set(ol_offset_checkpoint *checkpoint, const char *topic, int32_t partition, int64_t offset,
                                 ol_error *error) noexcept
    int ol_offset_checkpoint_parse(ol_offset_checkpoint *checkpoint, ol_slice text, ol_error *error) noexcept
    int ol_offset_checkpoint_format(const ol_offset_checkpoint *checkpoint, char **text, size_t *size,
                                    ol_error *error) noexcept


cdef extern from "format/batch.h" nogil:
    enum:
        OL_BATCH_OVERHEAD
        OL_BATCH_MAGIC_END
        OL_ATTRIBUTE_CODEC
        OL_ATTRIBUTE_LOG_APPEND_TIME
        OL_ATTRIBUTE_TRANSACTIONAL
        OL_ATTRIBUTE_CONTROL
        OL_ATTRIBUTE_DELETE_HORIZON

    ctypedef enum ol_codec:
        OL_CODEC_NONE
        OL_CODEC_GZIP
        OL_CODEC_SNAPPY
        OL_CODEC_LZ4
        OL_CODEC_ZSTD

    ctypedef enum ol_control:
        OL_CONTROL_ABORT
        OL_CONTROL_COMMIT
        OL_CONTROL_OTHER

    ctypedef struct ol_batch:
        const uint8_t *data
        size_t size
        int64_t base_offset
        int64_t last_offset
        int64_t base_timestamp
        int64_t max_timestamp
        int64_t producer_id
        int32_t leader_epoch
        int32_t base_sequence
        int32_t record_count
        uint32_t crc
        int16_t producer_epoch
        int16_t attributes
        int8_t magic

    ctypedef struct ol_decompressor:
        int (*decompress)(void *context, ol_codec codec, int magic, ol_slice input, size_t limit, ol_slice *output,
                          ol_error *error) noexcept nogil
        void (*release)(void *context, ol_slice output) noexcept nogil
        void *context
        size_t limit

    size_t OL_DECOMPRESSED_LIMIT_DEFAULT

    ctypedef struct ol_record:
        int64_t offset
        int64_t timestamp
        ol_slice key
        ol_slice value
        ol_slice headers
        int32_t header_count
        int8_t attributes
        int8_t magic

    ctypedef struct ol_records:
        ol_batch batch

    ol_codec ol_batch_codec(const ol_batch *batch) noexcept
    bint ol_batch_is_control(const ol_batch *batch) noexcept
    bint ol_batch_is_transactional(const ol_batch *batch) noexcept
    bint ol_batch_has_horizon(const ol_batch *batch) noexcept
    int ol_batch_parse(const uint8_t *data, size_t size, ol_batch *batch, ol_error *error) noexcept
    int ol_batch_check_crc(const ol_batch *batch, ol_error *error) noexcept
    int64_t ol_batch_next_offset(const ol_batch *batch) noexcept
    bint ol_batch_is_after(const ol_batch *batch, int64_t next_offset, int64_t until) noexcept
    int ol_records_open(ol_records *records, const ol_batch *batch, const ol_decompressor *decompressor,
                        ol_error *error) noexcept
    int ol_records_next(ol_records *records, ol_record *record, ol_error *error) noexcept
    void ol_records_close(ol_records *records) noexcept
    int ol_record_header_next(const uint8_t **cursor, const uint8_t *limit, ol_slice *key, ol_slice *value,
                              ol_error *error) noexcept
    int ol_control_decode(const ol_record *record, ol_control *type, int32_t *coordinator_epoch, ol_error *error) noexcept


cdef extern from "format/batch_write.h" nogil:
    ctypedef struct ol_batch_fields:
        int64_t base_offset
        int64_t base_timestamp
        int64_t max_timestamp
        int64_t producer_id
        int32_t leader_epoch
        int32_t base_sequence
        int32_t last_offset_delta
        int32_t record_count
        int16_t producer_epoch
        int16_t attributes

    void ol_batch_fields_init(ol_batch_fields *fields, int64_t base_offset, int64_t timestamp) noexcept
    size_t ol_record_size(int64_t timestamp_delta, int32_t offset_delta, int64_t key_size, int64_t value_size,
                          int32_t header_count, size_t headers_size) noexcept
    uint8_t *ol_record_put(uint8_t *p, int64_t timestamp_delta, int32_t offset_delta, ol_slice key, ol_slice value,
                           int32_t header_count, ol_slice headers) noexcept
    void ol_batch_seal(uint8_t *start, const uint8_t *end, const ol_batch_fields *fields) noexcept
    size_t ol_batch_put_marker(uint8_t *start, int64_t offset, int32_t leader_epoch, int64_t timestamp, int64_t producer_id,
                               int16_t producer_epoch, ol_control type, int32_t coordinator_epoch) noexcept


cdef extern from "format/offset_record.h" nogil:
    enum:
        OL_KEY_OFFSET_COMMIT_LEGACY
        OL_KEY_OFFSET_COMMIT
        OL_KEY_GROUP_METADATA
        OL_STRING_SIZE_MAX
        OL_OFFSET_VALUE_VERSION_MAX
        OL_TOPIC_ID_SIZE

    ctypedef struct ol_key:
        int16_t type
        bint known
        ol_slice group
        ol_slice topic
        int32_t partition
        ol_slice member

    int ol_key_decode(ol_slice bytes, ol_key *key, ol_error *error) noexcept

    ctypedef struct ol_offset_value:
        int64_t offset
        int64_t commit_timestamp
        int64_t expire_timestamp
        int32_t leader_epoch
        int16_t version
        ol_slice metadata
        const uint8_t *topic_id

    int ol_offset_value_decode(ol_slice bytes, int16_t key_type, ol_offset_value *value, ol_error *error) noexcept
    size_t ol_offset_key_size(ol_slice group, ol_slice topic) noexcept
    uint8_t *ol_offset_key_put(uint8_t *p, int16_t key_type, ol_slice group, ol_slice topic, int32_t partition) noexcept
    size_t ol_offset_value_size(const ol_offset_value *value, int16_t version) noexcept
    uint8_t *ol_offset_value_put(uint8_t *p, const ol_offset_value *value, int16_t version) noexcept


cdef extern from "log/log.h" nogil:
    ctypedef struct ol_log_transaction:
        int64_t producer_id
        int64_t first_offset
        int64_t last_timestamp
        int16_t producer_epoch

    ctypedef struct ol_log:
        pass

    ctypedef enum ol_append:
        OL_APPEND_AUTO
        OL_APPEND_MAPPED
        OL_APPEND_WRITTEN

    ctypedef struct ol_log_config:
        int64_t segment_bytes
        int64_t segment_ms
        int64_t index_interval_bytes
        int64_t segment_index_bytes
        int64_t producer_expiration_ms
        int64_t extend_bytes_min
        int64_t extend_bytes_max
        ol_append append

    ctypedef struct ol_log_options:
        ol_fs *fs
        const char *directory
        ol_log_config config
        bint writable
        bint create
        bint clean
        bint replicated
        int64_t recovery_point
        int64_t log_start_offset
        bint recovery_point_changed
        bint log_start_changed
        bint witnessed
        bint accept_loss
        int changed_checkpoints
        int64_t cleaned_by_others
        const uint8_t *topic_id
        const uint8_t *known_topic_id
        const ol_decompressor *decompressor

    ctypedef struct ol_log_recovery:
        bint recovered
        int64_t torn_bytes
        char *torn_path
        char *broken_path
        int64_t torn_position
        int64_t segments_removed
        int64_t swaps_finished
        int64_t rewritten_bytes
        bint corrupt
        ol_error corruption
        bint is_lossy
        bint others_worked
        bint log_start_refused

    void ol_log_config_init(ol_log_config *config) noexcept
    int ol_log_open(const ol_log_options *options, ol_log **log, ol_log_recovery *recovery, ol_error *error) noexcept
    int ol_log_close(ol_log *log, ol_error *error) noexcept
    void ol_log_abandon(ol_log *log) noexcept
    int64_t ol_log_start(const ol_log *log) noexcept
    int32_t ol_log_epoch_at(const ol_log *log, int64_t offset) noexcept
    void ol_log_end_for_epoch(const ol_log *log, int32_t epoch, int32_t *found_epoch, int64_t *end_offset) noexcept
    int64_t ol_log_end(const ol_log *log) noexcept
    void ol_log_expect_flushes(ol_log *log) noexcept
    int64_t ol_log_flushed(const ol_log *log) noexcept
    bint ol_log_is_writable(const ol_log *log) noexcept
    bint ol_log_has_failed(const ol_log *log) noexcept
    int32_t ol_log_leader_epoch(const ol_log *log) noexcept
    bint ol_log_topic_id(const ol_log *log, uint8_t *topic_id) noexcept
    int64_t ol_log_size_bytes(const ol_log *log) noexcept
    int ol_log_delete_below(ol_log *log, int64_t offset, ol_error *error) noexcept
    bint ol_log_prepare(ol_log *log) noexcept
    bint ol_log_wants_flush(ol_log *log) noexcept
    int ol_log_flush(ol_log *log, int64_t *flushed, ol_error *error) noexcept
    int ol_log_flush_unasked(ol_log *log, int64_t *flushed, ol_error *error) noexcept
    ctypedef struct ol_file_range:
        char *path
        int64_t position
        size_t size

    int ol_log_file_range(ol_log *log, int64_t offset, int64_t end, size_t size_max, ol_file_range *range,
                          ol_error *error) noexcept
    int ol_log_read(ol_log *log, int64_t offset, int64_t end, uint8_t *buffer, size_t capacity, size_t *size,
                    ol_error *error) noexcept

    ctypedef struct ol_log_reader:
        pass

    ctypedef struct ol_log_piece:
        const uint8_t *data
        size_t size
        int64_t base_offset
        int64_t position
        int64_t segment_base
        const char *path

    int ol_log_reader_open(ol_log *log, int64_t offset, ol_log_reader **reader, ol_error *error) noexcept
    int ol_log_reader_next(ol_log_reader *reader, size_t size_max, ol_log_piece *piece, ol_error *error) noexcept
    int ol_log_reader_retry(ol_log_reader *reader, int64_t position, ol_log_piece *piece, ol_error *error) noexcept
    int ol_log_reader_skip(ol_log_reader *reader, int64_t position, c_bool *is_end, ol_error *error) noexcept
    void ol_log_reader_close(ol_log_reader *reader) noexcept

    ctypedef struct ol_log_segment_info:
        int64_t base_offset
        int64_t size
        bint active
        char *path

    bint ol_log_segment_at(const ol_log *log, size_t index, ol_log_segment_info *info) noexcept

    ctypedef struct ol_log_segment_files:
        int64_t modified_ms
        int64_t first_timestamp
        int64_t largest_timestamp
        int64_t index_size
        int64_t time_index_size

    int ol_log_segment_files_at(ol_log *log, int64_t base_offset, ol_log_segment_files *files, ol_error *error) noexcept


cdef extern from "table/table.h" nogil:
    ctypedef struct ol_table:
        pass

    ctypedef struct ol_position_value:
        int64_t offset
        int64_t log_offset
        int64_t commit_timestamp
        int64_t expire_timestamp
        int32_t leader_epoch
        ol_slice metadata
        const uint8_t *topic_id

    ctypedef struct ol_pair_name:
        ol_slice group
        ol_slice topic
        uint64_t group_hash
        uint64_t hash

    ctypedef struct ol_table_row:
        ol_slice group
        ol_slice topic
        int32_t partition
        ol_position_value value

    ctypedef struct ol_table_cursor:
        uint64_t changes
        uint32_t pair
        uint32_t leaf
        uint32_t place
        uint32_t bit
        bint started

    ctypedef struct ol_table_memory:
        uint64_t cells
        uint64_t pairs
        uint64_t pair_hash
        uint64_t chunks
        uint64_t strings
        uint64_t string_bytes
        uint64_t side
        uint64_t free

    uint64_t ol_table_group_hash(const ol_table *table, ol_slice group) noexcept
    ol_pair_name ol_table_name(const ol_table *table, ol_slice group, uint64_t group_hash, ol_slice topic) noexcept
    bint ol_table_get(const ol_table *table, const ol_pair_name *name, int32_t partition, ol_position_value *value) noexcept
    bint ol_table_next(const ol_table *table, ol_table_cursor *cursor, ol_table_row *row) noexcept
    bint ol_table_next_of_group(const ol_table *table, ol_slice group, uint64_t group_hash, ol_table_cursor *cursor,
                                ol_table_row *row) noexcept
    bint ol_table_next_group(const ol_table *table, ol_table_cursor *cursor, ol_slice *group, uint64_t *positions) noexcept
    uint64_t ol_table_group_positions(const ol_table *table, ol_slice group, uint64_t group_hash) noexcept
    uint64_t ol_table_count(const ol_table *table) noexcept
    void ol_table_memory_usage(const ol_table *table, ol_table_memory *memory) noexcept
    void ol_table_verify(const ol_table *table) noexcept


cdef extern from "state/pending.h" nogil:
    ctypedef struct ol_pending:
        pass

    ctypedef struct ol_pending_producer:
        int64_t producer_id
        int64_t first_log_offset
        uint64_t values

    bint ol_pending_producer_at(const ol_pending *pending, size_t index, ol_pending_producer *producer) noexcept
    bint ol_pending_next_value(const ol_pending *pending, int64_t producer_id, size_t *cursor,
                               ol_table_row *row) noexcept
    bint ol_pending_next_unstable(const ol_pending *pending, ol_slice group, uint64_t group_hash, uint64_t *cursor,
                                  ol_table_row *row) noexcept
    bint ol_pending_has(const ol_pending *pending, const ol_pair_name *name, int32_t partition) noexcept
    bint ol_pending_has_group(const ol_pending *pending, ol_slice group, uint64_t group_hash) noexcept
    uint64_t ol_pending_memory_usage(const ol_pending *pending) noexcept


cdef extern from "state/group_records.h" nogil:
    ctypedef struct ol_group_records:
        pass

    ctypedef struct ol_group_record:
        ol_slice key
        ol_slice value
        int64_t log_offset
        int64_t timestamp

    bint ol_group_records_get(const ol_group_records *records, ol_slice key, ol_group_record *record) noexcept
    bint ol_group_records_next(const ol_group_records *records, size_t *cursor, ol_group_record *record) noexcept
    uint64_t ol_group_records_count(const ol_group_records *records) noexcept
    uint64_t ol_group_records_memory_usage(const ol_group_records *records) noexcept


cdef extern from "format/key_shard.h" nogil:
    ctypedef struct ol_key_shard:
        uint32_t number
        uint32_t count
        c_bool by_group

cdef extern from "state/state.h" nogil:
    ctypedef struct ol_run_effects:
        pass

    ctypedef struct ol_state:
        ol_table *table
        ol_pending *pending
        ol_group_records *group_records
        int32_t value_version_max
        uint64_t unknown_records
        ol_run_effects *effects

    ctypedef struct ol_refusal:
        void (*report)(void *context, const ol_batch *batch, const ol_error *error) noexcept nogil
        void *context

    ctypedef struct ol_digest:
        ol_hash128 positions
        ol_hash128 group_records
        ol_hash128 pending

    int ol_state_create(ol_state *state, ol_error *error) noexcept
    void ol_state_destroy(ol_state *state) noexcept
    int ol_state_apply_batch(ol_state *state, const ol_batch *batch, const ol_decompressor *decompressor,
                             const ol_refusal *refused, ol_error *error) noexcept
    ctypedef struct ol_state_share:
        ol_key_shard shard
        int64_t until
    int ol_state_apply_share(ol_state *state, const ol_batch *batch, const ol_state_share *share,
                             const ol_decompressor *decompressor, const ol_refusal *refused, ol_error *error) noexcept
    void ol_state_digest(const ol_state *state, bint physical, ol_digest *digest) noexcept
    uint64_t ol_state_memory_usage(const ol_state *state) noexcept


cdef extern from "state/run.h" nogil:
    int ol_run_create(ol_state *state, ol_error *error) noexcept
    int ol_run_join(ol_state *earlier, const ol_state *later, ol_error *error) noexcept


cdef extern from "partition/partition.h" nogil:
    ctypedef struct ol_partition:
        pass

    enum:
        OL_ROLE_UNLOADED
        OL_ROLE_LOADING
        OL_ROLE_ACTIVE
        OL_ROLE_FOLLOWER
        OL_ROLE_FAILED
        OL_PROBLEMS_KEPT

    size_t OL_BATCH_BYTES_MAX_DEFAULT
    int64_t OL_OWN_PRODUCER_ID_MIN

    ctypedef enum ol_value_v4:
        OL_VALUE_V4_AUTO
        OL_VALUE_V4_ALWAYS
        OL_VALUE_V4_NEVER

    ctypedef struct ol_partition_options:
        ol_log_options log
        size_t batch_bytes_max
        c_bool replicated
        c_bool refuse_while_loading
        int64_t watermark
        uint64_t term
        int32_t leader_epoch
        c_bool goes_on_from_snapshot
        ol_value_v4 value_v4
        int64_t (*clock_ms)(void *context) noexcept nogil
        void *clock_context

    void ol_partition_options_init(ol_partition_options *options) noexcept
    int ol_partition_open(const ol_partition_options *options, ol_partition **partition, ol_log_recovery *recovery,
                          ol_error *error) noexcept
    int ol_partition_close(ol_partition *partition, ol_error *error) noexcept
    void ol_partition_abandon(ol_partition *partition) noexcept
    int ol_partition_role(const ol_partition *partition) noexcept
    ol_log *ol_partition_log(ol_partition *partition) noexcept
    bint ol_partition_is_read_only(const ol_partition *partition) noexcept

    int OL_PROBLEM_DAMAGE
    int OL_PROBLEM_LOSS
    int OL_PROBLEM_DOUBT

    ctypedef struct ol_problem:
        ol_error error
        int64_t from_ "from"
        int64_t below
        int kind

    ctypedef struct ol_load_progress:
        int64_t bytes
        int64_t bytes_total
        int64_t batches
        int64_t records
        int64_t problems
        int64_t aborted_own
        int64_t snapshot_offset

    int ol_partition_load(ol_partition *partition, ol_error *error) noexcept
    void ol_partition_progress(const ol_partition *partition, ol_load_progress *progress) noexcept
    bint ol_partition_snapshot_discarded(const ol_partition *partition, ol_error *why) noexcept
    bint ol_partition_problem_at(const ol_partition *partition, size_t index, ol_problem *problem) noexcept

    enum:
        OL_ITEM_POSITION
        OL_ITEM_POSITION_TOMBSTONE
        OL_ITEM_GROUP_RECORD
        OL_ITEM_GENERATION
        OL_CONDITION_NONE
        OL_CONDITION_EQUALS
        OL_CONDITION_ABSENT
        OL_CONDITION_MONOTONIC
        OL_WAIT_FLUSHED
        OL_WAIT_WATERMARK

    ctypedef struct ol_item:
        ol_slice group
        ol_slice topic
        int32_t partition
        uint8_t kind
        uint8_t condition
        int64_t expected
        int64_t offset
        int64_t commit_timestamp
        int64_t expire_timestamp
        int32_t leader_epoch
        ol_slice metadata
        const uint8_t *topic_id
        ol_slice key
        ol_slice value

    ctypedef struct ol_commit_result:
        int64_t base_offset
        int64_t end_offset
        int64_t timestamp
        size_t written
        c_bool found
        int64_t found_offset
        int64_t rests_on
        uint64_t term

    const uint64_t OL_TERM_NOW

    int ol_partition_commit(ol_partition *partition, const ol_item *items, size_t count, int64_t producer_id,
                            int16_t producer_epoch, ol_commit_result *result, ol_error *error) noexcept
    ctypedef struct ol_position_row:
        ol_position_value value
        int32_t partition

    ctypedef struct ol_row_run:
        ol_slice group
        ol_slice topic
        size_t first_row

    int ol_partition_commit_rows(ol_partition *partition, const ol_row_run *runs, size_t run_count, ol_position_row *rows,
                                 size_t row_count, int64_t producer_id, int16_t producer_epoch, ol_commit_result *result,
                                 ol_error *error) noexcept
    int ol_partition_try_commit(ol_partition *partition, const ol_item *items, size_t count, ol_commit_result *result,
                                ol_error *error) noexcept
    int ol_partition_delete_group(ol_partition *partition, ol_slice group, c_bool only_empty, ol_commit_result *result,
                                  ol_error *error) noexcept
    int ol_partition_fence(ol_partition *partition, ol_slice group, const ol_item *items, size_t count, int32_t *generation,
                           ol_commit_result *result, ol_error *error) noexcept
    int ol_partition_end_transaction(ol_partition *partition, int64_t producer_id, int16_t producer_epoch, ol_control type,
                                     int32_t coordinator_epoch, ol_commit_result *result, ol_error *error) noexcept
    int ol_partition_roll(ol_partition *partition, ol_error *error) noexcept
    bint ol_partition_transaction_at(ol_partition *partition, size_t index, ol_log_transaction *transaction) noexcept
    int ol_partition_check_producer(ol_partition *partition, int64_t producer_id, int16_t producer_epoch,
                                    ol_error *error) noexcept
    int ol_partition_wait(ol_partition *partition, int64_t end_offset, uint64_t term, int what, int64_t timeout_ms,
                          ol_error *error) noexcept
    int ol_partition_try_wait(const ol_partition *partition, int64_t end_offset, uint64_t term, int what,
                              ol_error *error) noexcept
    c_bool ol_partition_is_behind(const ol_partition *partition, int64_t end_offset) noexcept
    c_bool ol_partition_is_flushed(const ol_partition *partition, int64_t end_offset, uint64_t term) noexcept
    int ol_partition_lock_state(ol_partition *partition, const ol_state **state, ol_error *error) noexcept
    int ol_partition_try_lock_state(ol_partition *partition, const ol_state **state, ol_error *error) noexcept
    void ol_partition_unlock_state(ol_partition *partition) noexcept
    int ol_partition_lock_applied(ol_partition *partition, const ol_state **state, ol_error *error) noexcept

    ctypedef struct ol_positions:
        int64_t written
        int64_t watermark
        int64_t applied
        int64_t flushed

    void ol_partition_positions(ol_partition *partition, ol_positions *positions) noexcept
    uint64_t ol_partition_term(const ol_partition *partition) noexcept
    int64_t ol_partition_newest_timestamp(ol_partition *partition) noexcept

    int ol_partition_become_leader(ol_partition *partition, int32_t leader_epoch, c_bool alone, ol_error *error) noexcept
    int ol_partition_become_follower(ol_partition *partition, int32_t leader_epoch, ol_error *error) noexcept
    int ol_partition_unload(ol_partition *partition, int32_t leader_epoch, ol_error *error) noexcept
    int ol_partition_append(ol_partition *partition, int32_t leader_epoch, const uint8_t *data, size_t size,
                            ol_error *error) noexcept
    int ol_partition_advance(ol_partition *partition, int32_t leader_epoch, int64_t offset, ol_error *error) noexcept
    int ol_partition_truncate(ol_partition *partition, int32_t leader_epoch, int64_t offset, ol_error *error) noexcept
    int ol_partition_restart_at(ol_partition *partition, int32_t leader_epoch, int64_t offset, ol_error *error) noexcept

    enum ol_read_up_to:
        OL_READ_WRITTEN
        OL_READ_WATERMARK

    int ol_partition_read(ol_partition *partition, int32_t leader_epoch, int64_t offset, ol_read_up_to up_to,
                          uint8_t *buffer, size_t capacity, size_t *size, ol_error *error) noexcept
    int ol_partition_file_range(ol_partition *partition, int32_t leader_epoch, int64_t offset, ol_read_up_to up_to,
                                size_t size_max, ol_file_range *range, ol_error *error) noexcept

    int ol_partition_digest(ol_partition *partition, c_bool physical, ol_digest *digest, int64_t *applied,
                            ol_error *error) noexcept

    ctypedef struct ol_leadership:
        int32_t epoch
        c_bool leads
        c_bool alone
        uint64_t term
        int64_t elected_end

    void ol_partition_leadership(ol_partition *partition, ol_leadership *leadership) noexcept
    size_t ol_partition_scratch_bytes(ol_partition *partition) noexcept


cdef extern from "cleaner/rebuild_batch.h" nogil:
    ctypedef struct ol_compressor:
        int (*compress)(void *context, ol_codec codec, int magic, ol_slice input, ol_slice *output,
                        ol_error *error) noexcept nogil
        void (*release)(void *context, ol_slice output) noexcept nogil
        void *context


cdef extern from "cleaner/cleaner.h" nogil:
    enum:
        OL_CLEAN_QUARANTINE_KEPT

    # These are read and stored as whole values, as C does with a plain access to an atomic.
    ctypedef bint atomic_flag_value "_Atomic bool"

    size_t OL_CLEAN_MAP_BYTES_MIN

    ctypedef struct ol_clean_hold:
        ol_slice group
        bint is_prefix
        int64_t end

    ctypedef struct ol_clean_progress:
        int64_t bytes_read
        int64_t bytes_written
        int64_t bytes_total
        int64_t records_read
        int64_t passes
        int64_t segments_after

    ctypedef struct ol_clean_sink:
        int (*take)(void *context, const ol_batch *batch, ol_error *error) noexcept nogil
        void *context
        bint takes_active

    ctypedef struct ol_clean_options:
        int64_t first_dirty
        int64_t end_max
        const ol_clean_hold *holds
        size_t hold_count
        int64_t now_ms
        int64_t delete_retention_ms
        size_t map_bytes
        int64_t bytes_per_second
        const atomic_flag_value *stop
        bint use_table
        const ol_compressor *compressor
        ol_clean_progress *progress
        const ol_clean_sink *sink
        int (*raise_floor)(void *context, int64_t floor, ol_error *error) noexcept nogil
        void *raise_floor_context

    ctypedef struct ol_clean_quarantine:
        int64_t segment_base
        ol_error error

    ctypedef struct ol_clean_counts:
        int64_t read
        int64_t kept
        int64_t superseded
        int64_t tombstones_dropped
        int64_t aborted_dropped
        int64_t keyless_dropped

    ctypedef struct ol_clean_report:
        int64_t end
        int64_t floor
        int64_t target
        int64_t sink_end
        int64_t log_end
        bint complete
        bint stopped
        bint truncated
        bint load_began
        int64_t bytes_read
        int64_t bytes_written
        int64_t bytes_before
        int64_t bytes_after
        int64_t segments_before
        int64_t segments_after
        int64_t batches
        ol_clean_counts records
        int64_t markers_dropped
        int64_t batches_rebuilt
        int64_t batches_not_compressed
        int64_t keys
        int64_t passes
        int64_t quarantined
        ol_clean_quarantine *quarantine

    void ol_clean_options_init(ol_clean_options *options) noexcept
    int ol_cleaner_run(ol_partition *partition, const ol_clean_options *options, ol_clean_report *report,
                       ol_error *error) noexcept


cdef extern from "snapshot/snapshot.h" nogil:
    enum:
        OL_SNAPSHOT_SECTIONS
        OL_SNAPSHOT_DIRECTORY_SIZE
        OL_SNAPSHOT_VERSION

    const char *OL_SNAPSHOT_FILE

    ctypedef struct ol_snapshot:
        pass

    ctypedef struct ol_snapshot_section:
        const char *name
        const uint8_t *data
        size_t size
        int64_t position
        uint32_t crc

    ctypedef struct ol_snapshot_facts:
        int64_t offset
        int64_t log_start
        int64_t max_timestamp
        uint64_t positions
        uint64_t pending
        uint64_t group_records

    void ol_snapshot_put_directory(const ol_snapshot_section *sections, uint8_t *bytes) noexcept
    int ol_snapshot_seal(ol_snapshot *snapshot, unsigned threads, ol_snapshot_section *sections, ol_error *error) noexcept
    int ol_snapshot_open(ol_fs *fs, const char *path, unsigned threads, ol_snapshot **snapshot, ol_error *error) noexcept
    void ol_snapshot_report(const ol_snapshot *snapshot, ol_snapshot_facts *facts) noexcept
    bint ol_snapshot_is_copied(const ol_snapshot *snapshot) noexcept
    const ol_state *ol_snapshot_state(const ol_snapshot *snapshot) noexcept
    void ol_snapshot_digest(const ol_snapshot *snapshot, bint physical, ol_digest *digest) noexcept
    void ol_snapshot_destroy(ol_snapshot *snapshot) noexcept


cdef extern from "partition/snapshot_take.h" nogil:
    int ol_partition_load_from(ol_partition *partition, ol_snapshot *snapshot, ol_error *error) noexcept
    int ol_partition_snapshot_begin(ol_partition *partition, ol_snapshot **snapshot, ol_error *error) noexcept
    int ol_partition_snapshot_advance(ol_partition *partition, ol_snapshot *snapshot, int64_t up_to,
                                      const atomic_flag_value *stop, ol_error *error) noexcept
    int ol_partition_snapshot_borrow(ol_partition *partition, ol_snapshot **snapshot, ol_error *error) noexcept
    int ol_partition_snapshot_copy(ol_partition *partition, const atomic_flag_value *stop, ol_snapshot **snapshot,
                                   ol_error *error) noexcept
    int ol_partition_snapshot_publish(ol_partition *partition, const ol_snapshot *snapshot, const char *temporary,
                                      ol_error *error) noexcept
    int ol_partition_snapshot_remove(ol_partition *partition, ol_error *error) noexcept
    int64_t ol_partition_snapshot_offset(const ol_partition *partition) noexcept
    int64_t ol_partition_snapshot_tail_bytes(const ol_partition *partition) noexcept
    int ol_partition_snapshot_check(ol_partition *partition, const ol_snapshot *snapshot, int64_t cleaned_to,
                                    ol_error *error) noexcept


cdef extern from "log/swap_plan.h" nogil:
    ctypedef struct ol_swap_name:
        char *name
        char *real

    ctypedef struct ol_swap_plan:
        ol_swap_name *names
        size_t name_count

    void ol_swap_plan_free(ol_swap_plan *plan) noexcept


cdef extern from "log/directory_pass.h" nogil:
    int ol_directory_plan(ol_fs *fs, const char *directory, ol_swap_plan *plan, ol_error *error) noexcept


cdef extern from "log/batch_rules.h" nogil:
    ctypedef struct ol_batch_bounds:
        int64_t next_offset
        int64_t limit
        int64_t segment_base

    int ol_batch_check_follows(const ol_batch *batch, int64_t next_offset, ol_error *error) noexcept


cdef extern from "log/file_scan.h" nogil:
    ctypedef struct ol_file_scan:
        c_bool passes_unreadable
        int64_t position
        int64_t limit

    int ol_file_scan_open(ol_file_scan *scan, ol_fs *fs, const char *path, int64_t position, int64_t limit, ol_error *error) noexcept
    void ol_file_scan_close(ol_file_scan *scan) noexcept
    int ol_file_scan_next(ol_file_scan *scan, ol_batch *batch, ol_error *error) noexcept
    bint ol_file_scan_fits(const ol_file_scan *scan, const ol_batch *batch, const ol_batch_bounds *bounds) noexcept
    int ol_file_scan_judge(ol_file_scan *scan, ol_batch *batch, const ol_batch_bounds *bounds, ol_error *error) noexcept
    int ol_file_scan_resync(ol_file_scan *scan, int64_t position, int64_t offset_min, int64_t offset_max, ol_batch *batch,
                       ol_error *error) noexcept
    int ol_file_scan_used(ol_file_scan *scan, int64_t position, int64_t *used, ol_error *error) noexcept


cdef extern from "columns/record_block.h" nogil:
    ctypedef enum ol_column:
        OL_COLUMN_GROUP
        OL_COLUMN_TOPIC
        OL_COLUMN_PARTITION
        OL_COLUMN_OFFSET
        OL_COLUMN_LEADER_EPOCH
        OL_COLUMN_METADATA
        OL_COLUMN_COMMIT_TIMESTAMP
        OL_COLUMN_EXPIRE_TIMESTAMP
        OL_COLUMN_TOPIC_ID
        OL_COLUMN_KIND
        OL_COLUMN_TIMESTAMP
        OL_COLUMN_OUTCOME
        OL_COLUMN_MARKER_OFFSET
        OL_COLUMN_PRODUCER_ID
        OL_COLUMN_PRODUCER_EPOCH
        OL_COLUMN_LOG_PARTITION
        OL_COLUMN_LOG_OFFSET
        OL_COLUMN_KEY
        OL_COLUMN_VALUE
        OL_COLUMN_VALUE_VERSION
        OL_COLUMN_HEADER_KEYS
        OL_COLUMN_CONTROL_TYPE
        OL_COLUMN_SEGMENT
        OL_COLUMN_POSITION
        OL_COLUMN_BASE_OFFSET
        OL_COLUMN_LAST_OFFSET
        OL_COLUMN_BATCH_SIZE
        OL_COLUMN_MAGIC
        OL_COLUMN_CODEC
        OL_COLUMN_TIMESTAMP_TYPE
        OL_COLUMN_TRANSACTIONAL
        OL_COLUMN_CONTROL
        OL_COLUMN_BASE_SEQUENCE
        OL_COLUMN_BATCH_LEADER_EPOCH
        OL_COLUMN_DELETE_HORIZON
        OL_COLUMN_BASE_TIMESTAMP
        OL_COLUMN_MAX_TIMESTAMP
        OL_COLUMN_CRC
        OL_COLUMN_CRC_OK
        OL_COLUMN_EFFECTIVE_AT
        OL_COLUMN_COUNT
    ctypedef enum ol_column_kind:
        OL_COLUMN_BOOLEAN
        OL_COLUMN_INT32
        OL_COLUMN_INT64
        OL_COLUMN_STRING
        OL_COLUMN_STRINGS
    const char *ol_column_name(ol_column column) noexcept
    ol_column_kind ol_column_kind_of(ol_column column) noexcept
    ctypedef struct ol_row_array:
        c_bool wanted
        ol_column_kind kind
        uint8_t *data
        int32_t *ends
        int32_t *list_ends
        uint8_t *valid
        c_bool has_nulls
    ctypedef struct ol_record_block:
        size_t capacity
        size_t count
        ol_row_array *arrays
    int ol_record_block_create(ol_record_block *block, const ol_column *columns, size_t count, size_t capacity, ol_error *error) noexcept
    void ol_record_block_free(ol_record_block *block) noexcept
    void ol_record_block_clear(ol_record_block *block) noexcept

cdef extern from "columns/offset_rows.h" nogil:
    int ol_record_block_put_table(ol_record_block *block, int32_t log_partition, const ol_table *table, ol_table_cursor *cursor,
                          ol_error *error) noexcept

cdef extern from "columns/transaction_outcomes.h" nogil:
    ctypedef struct ol_transaction_outcomes:
        size_t count
    void ol_transaction_outcomes_free(ol_transaction_outcomes *outcomes) noexcept
    int ol_transaction_outcomes_record(ol_transaction_outcomes *outcomes, const ol_batch *batch, const ol_decompressor *decompressor, c_bool is_asked,
                         ol_error *error) noexcept
    size_t ol_transaction_outcomes_open(const ol_transaction_outcomes *outcomes) noexcept
    void ol_transaction_outcomes_sort(ol_transaction_outcomes *outcomes) noexcept

cdef extern from "columns/record_scan.h" nogil:
    ctypedef enum ol_record_view:
        OL_VIEW_COMMITS
        OL_VIEW_RECORDS
        OL_VIEW_BATCHES
    ctypedef struct ol_record_scan:
        ol_file_scan *file_scan
        const ol_decompressor *decompressor
        const ol_transaction_outcomes *outcomes
        const char *const *kinds
        size_t kind_count
        ol_slice segment
        int64_t first
        int64_t until
        int64_t next_offset
        int64_t segment_base
        int64_t segment_limit
        int64_t count_from
        int64_t present
        int32_t log_partition
        ol_record_view view
        ol_slice group
        ol_slice topic
        int32_t partition
        ol_key_shard shard
        c_bool wants_outcomes
        int64_t position
    int ol_record_scan_fill(ol_record_scan *scan, ol_record_block *block, c_bool *refused, ol_error *error) noexcept
    void ol_record_scan_close(ol_record_scan *scan) noexcept

cdef extern from "log/view.h" nogil:
    ctypedef struct ol_log_view:
        pass

    ctypedef struct ol_log_view_segment:
        int64_t base_offset
        int64_t size
        const char *path

    bint ol_log_view_at(const ol_log_view *view, size_t index, ol_log_view_segment *segment) noexcept
    int ol_log_view_scan(const ol_log_view *view, size_t index, int64_t position, ol_file_scan *scan, ol_error *error) noexcept
    bint ol_log_view_is_current(const ol_log_view *view) noexcept
    void ol_log_view_close(ol_log_view *view) noexcept


cdef extern from "history/state_diff.h" nogil:
    enum:
        OL_DIGEST_POSITION
        OL_DIGEST_PENDING
        OL_DIGEST_GROUP_RECORD

    ctypedef struct ol_compared:
        bint is_there
        ol_position_value value
        size_t value_size
        ol_hash128 value_hash

    ctypedef struct ol_difference:
        unsigned kind
        int64_t producer_id
        ol_slice group
        ol_slice topic
        int32_t partition
        ol_slice key
        ol_compared left
        ol_compared right

    ctypedef struct ol_differences:
        ol_difference *items
        size_t count
        size_t limit
        uint64_t left_out

    void ol_differences_free(ol_differences *differences) noexcept
    int ol_state_diff(const ol_state *left, const ol_state *right, bint physical, ol_differences *found,
                         ol_error *error) noexcept
    int ol_state_diff_cut(ol_partition *live, bint physical, ol_digest *digest, int64_t *applied, ol_log_view **view,
                          ol_error *error) noexcept
    int ol_state_diff_live(ol_partition *live, const ol_state *replayed, int64_t cut, bint physical, ol_differences *found,
                           ol_error *error) noexcept
    int ol_state_diff_read_live(ol_partition *live, ol_differences *differences, int64_t *applied, ol_log_view **view,
                                ol_error *error) noexcept
    int ol_state_diff_settle(const ol_state *right, bint physical, ol_differences *differences, ol_error *error) noexcept


cdef extern from "base/int64_map.h" nogil:
    ctypedef struct ol_int64_map:
        size_t count

    void ol_int64_map_free(ol_int64_map *numbers) noexcept
    int ol_int64_map_reserve(ol_int64_map *numbers, size_t count, ol_error *error) noexcept
    uint64_t ol_int64_map_get(const ol_int64_map *numbers, uint64_t key) noexcept
    void ol_int64_map_set(ol_int64_map *numbers, uint64_t key, uint64_t value) noexcept


cdef extern from "log/offset_for_time.h" nogil:
    int ol_log_offset_for_time(ol_log *log, int64_t timestamp_ms, int64_t until, int64_t *offset, ol_error *error) noexcept


cdef extern from "log/transaction_spans.h" nogil:
    int ol_log_open_since(ol_log *log, int64_t offset, int64_t *first, ol_error *error) noexcept
    int ol_log_ended_by(ol_log *log, int64_t offset, int64_t until, int64_t *end, ol_error *error) noexcept


cdef extern from "history/timeline.h" nogil:
    ctypedef struct ol_timeline_filter:
        ol_slice group
        ol_slice topic
        int32_t partition
        const ol_int64_map *places

    ctypedef struct ol_timeline_sink:
        int (*record)(void *context, const ol_batch *batch, const ol_record *record, const ol_key *key, ol_error *error) noexcept nogil
        int (*marker)(void *context, const ol_batch *batch, const ol_record *record, ol_control type, ol_error *error) noexcept nogil
        void *context

    ctypedef struct ol_timeline_facts:
        int64_t first_missing
        int64_t missing_end
        int64_t max_timestamp
        int64_t last_timestamp
        int64_t passed_over
        int64_t refused

    ctypedef struct ol_timeline_batch:
        int64_t first
        int64_t next
        int64_t timestamp

    int ol_timeline_walk(ol_partition *partition, int64_t start, int64_t until, const ol_timeline_filter *filter,
                         const ol_timeline_sink *sink, ol_timeline_facts *facts, ol_error *error) noexcept
    int ol_timeline_next_batch(ol_partition *partition, int64_t start, ol_timeline_batch *found, ol_error *error) noexcept


cdef extern from "history/change_feed.h" nogil:
    ctypedef struct ol_change_gap:
        int64_t start "from"
        int64_t below
        c_bool is_damage

    ctypedef struct ol_change_feed:
        ol_partition *partition
        int64_t offset
        int32_t epoch
        int64_t known_below
        ol_change_gap gap
        c_bool is_installing

    int ol_change_feed_create(ol_change_feed *feed, int32_t log_partition, const ol_slice *groups, size_t group_count,
                              ol_error *error) noexcept
    void ol_change_feed_free(ol_change_feed *feed) noexcept
    int ol_change_feed_start(ol_change_feed *feed, int64_t offset, int32_t epoch, int64_t known_below, ol_error *error) noexcept
    int ol_change_feed_read(ol_change_feed *feed, ol_record_block *block, ol_error *error) noexcept
    bint ol_change_feed_is_current(const ol_change_feed *feed) noexcept


cdef extern from "history/state_at.h" nogil:
    ctypedef struct ol_state_at:
        ol_state state
        int64_t cut

    ctypedef struct ol_state_at_tombstones:
        int (*report)(void *context, const ol_record *record, const ol_key *key, const ol_position_value *value,
                      const ol_timeline_facts *facts, ol_error *error) noexcept nogil
        void *context

    ctypedef struct ol_state_at_changes:
        int (*report)(void *context, const ol_table_row *before, const ol_table_row *after, ol_error *error) noexcept nogil
        void *context

    int ol_state_at_make(ol_partition *partition, const ol_timeline_filter *filter, ol_state_at *pasts, size_t count,
                     const ol_state_at_tombstones *tombstones, ol_timeline_facts *facts, ol_error *error) noexcept
    int ol_state_at_find_tombstones(ol_partition *partition, const ol_timeline_filter *filter, int64_t until, int64_t since_ms,
                                ol_int64_map *places, ol_timeline_facts *facts, ol_error *error) noexcept
    int ol_state_at_compare(const ol_state *before, const ol_state *after, const ol_state_at_changes *changes, ol_error *error) noexcept


cdef extern from "partition/group_copy.h" nogil:
    ctypedef struct ol_group_fingerprint:
        ol_hash128 sum
        uint64_t positions

    ol_group_fingerprint ol_group_fingerprint_of(const ol_state *state, ol_slice group) noexcept
    int ol_partition_commit_unchanged(ol_partition *partition, ol_slice group, const ol_group_fingerprint *seen, const ol_item *items,
                                      size_t count, ol_commit_result *result, ol_error *error) noexcept

    ctypedef struct ol_group_copy:
        ol_group_fingerprint fingerprint
        size_t count

    int ol_group_copy_take(ol_group_copy *copy, ol_partition *partition, ol_slice group, ol_error *error) noexcept
    ol_table_row ol_group_copy_row(const ol_group_copy *copy, size_t index) noexcept
    void ol_group_copy_free(ol_group_copy *copy) noexcept


cdef extern from "partition/transaction_copy.h" nogil:
    ctypedef struct ol_transaction_copy:
        size_t count

    ctypedef struct ol_copied_transaction:
        ol_log_transaction known
        uint64_t positions
        size_t first_group
        size_t group_count

    int ol_transaction_copy_take(ol_transaction_copy *copy, ol_partition *partition, ol_error *error) noexcept
    ol_copied_transaction ol_transaction_copy_row(const ol_transaction_copy *copy, size_t index) noexcept
    ol_slice ol_transaction_copy_group(const ol_transaction_copy *copy, size_t index) noexcept
    void ol_transaction_copy_free(ol_transaction_copy *copy) noexcept


cdef extern from "log/files/offset_index.h" nogil:
    ctypedef enum ol_index_kind:
        OL_INDEX_OFFSET
        OL_INDEX_TIME

    int ol_index_check_bytes(ol_index_kind kind, ol_slice bytes, int64_t base_offset, int64_t log_size, int64_t next_offset,
                             ol_error *error) noexcept


cdef extern from "log/files/transaction_index.h" nogil:
    enum:
        OL_TRANSACTION_INDEX_ENTRY_SIZE

    ctypedef struct ol_aborted_transaction:
        int64_t producer_id
        int64_t first_offset
        int64_t last_offset
        int64_t last_stable_offset

    int ol_transaction_index_parse(ol_slice bytes, int64_t base_offset, ol_aborted_transaction *entries,
                                   ol_error *error) noexcept


cdef extern from "log/log.h" nogil:
    int ol_log_collect_aborted(ol_log *log, int64_t begin, int64_t up_to,
                               int (*visit)(void *context, const ol_aborted_transaction *transaction) noexcept,
                               void *context, ol_error *error) noexcept


cdef extern from "topic/recent_batches.h" nogil:
    ctypedef struct ol_recent_batches:
        pass

    void ol_recent_batches_free(ol_recent_batches *recent) noexcept


cdef extern from "topic/topic_log.h" nogil:
    ctypedef struct ol_topic_log:
        pass

    ctypedef enum ol_produce_refusal:
        OL_PRODUCE_ACCEPTED
        OL_PRODUCE_NOT_ONE_BATCH
        OL_PRODUCE_CORRUPT_MESSAGE
        OL_PRODUCE_INVALID_RECORD
        OL_PRODUCE_MESSAGE_TOO_LARGE
        OL_PRODUCE_INVALID_TIMESTAMP
        OL_PRODUCE_UNSUPPORTED_COMPRESSION
        OL_PRODUCE_INVALID_TXN_STATE
        OL_PRODUCE_OUT_OF_ORDER_SEQUENCE
        OL_PRODUCE_INVALID_PRODUCER_EPOCH

    ctypedef struct ol_produce_rules:
        size_t batch_bytes_max
        int64_t timestamp_min
        int64_t timestamp_max
        int64_t log_append_time
        bint takes_zstd
        bint needs_keys
        const ol_decompressor *decompressor

    ctypedef struct ol_produced_batch:
        ol_batch batch
        ol_produce_refusal refusal
        int32_t refused_record

    ctypedef struct ol_appended:
        int64_t base_offset
        int64_t next_offset
        int64_t log_append_time
        bint is_duplicate
        ol_produced_batch produced

    size_t ol_produced_batch_refused(const ol_produced_batch *produced, const ol_produce_rules *rules, int32_t *indexes,
                                     size_t capacity) noexcept

    ctypedef struct ol_timed_record:
        int64_t offset
        int64_t timestamp
        int32_t leader_epoch

    int ol_topic_log_open(const ol_log_options *options, int32_t leader_epoch, ol_topic_log **opened,
                          ol_log_recovery *recovery, ol_error *error) noexcept
    int ol_topic_log_close(ol_topic_log *topic, int64_t *end, ol_error *error) noexcept
    void ol_topic_log_abandon(ol_topic_log *topic) noexcept
    void ol_topic_log_swap_recent(ol_topic_log *topic, ol_recent_batches *recent) noexcept
    ol_log *ol_topic_log_log(const ol_topic_log *topic) noexcept
    int64_t ol_topic_log_first_unstable(ol_topic_log *topic) noexcept
    int64_t ol_topic_log_highest_producer_id(ol_topic_log *topic) noexcept
    int ol_topic_log_produce(ol_topic_log *topic, ol_slice bytes, const ol_produce_rules *rules, ol_appended *appended,
                             ol_error *error) noexcept
    ctypedef struct ol_retention_rules:
        int64_t now_ms
        int64_t retention_ms
        int64_t retention_bytes
        int64_t below

    int ol_topic_log_retained_from(ol_topic_log *topic, const ol_retention_rules *rules, int64_t *start,
                                   ol_error *error) noexcept
    int ol_topic_log_change_config(ol_topic_log *topic, const ol_log_config *config, ol_error *error) noexcept
    int ol_topic_log_find_time(ol_log *log, const ol_decompressor *decompressor, int64_t from_time, int64_t until,
                               ol_timed_record *found, ol_error *error) noexcept
    int ol_topic_log_find_newest(ol_log *log, const ol_decompressor *decompressor, int64_t until, ol_timed_record *found,
                                 ol_error *error) noexcept


cdef extern from "cleaner/cleaner.h" nogil:
    int ol_cleaner_run_topic(ol_topic_log *topic, const ol_clean_options *options, ol_clean_report *report,
                             ol_error *error) noexcept


cdef extern from "log/files/producers.h" nogil:
    ctypedef struct ol_producer:
        int64_t producer_id
        int64_t last_offset
        int64_t timestamp
        int64_t transaction_first_offset
        int32_t last_sequence
        int32_t offset_delta
        int32_t coordinator_epoch
        int16_t epoch

    ctypedef struct ol_producers:
        ol_producer *slots
        size_t slot_count
        size_t count

    ctypedef struct ol_producers_change:
        bint completed
        bint aborted
        ol_aborted_transaction transaction

    void ol_producers_free(ol_producers *producers) noexcept
    void ol_producers_clear(ol_producers *producers) noexcept
    int ol_producers_apply(ol_producers *producers, const ol_batch *batch, ol_producers_change *change,
                           ol_error *error) noexcept
    int ol_producers_decode(ol_producers *producers, ol_slice bytes, ol_error *error) noexcept


cdef extern from "format/schema.h" nogil:
    enum:
        OL_SCHEMA_NEVER

    ctypedef enum ol_field_kind:
        OL_FIELD_NONE
        OL_FIELD_BOOLEAN
        OL_FIELD_UUID
        OL_FIELD_STRING
        OL_FIELD_BYTES
        OL_FIELD_ARRAY
        OL_FIELD_STRUCT

    ctypedef struct ol_field:
        const char *name
        ol_field_kind kind
        ol_field_kind element
        bint nullable
        bint tagged
        bint null_by_default
        uint8_t tag
        int16_t first_version
        int16_t removed_in
        int16_t nullable_from
        int64_t default_value
        const ol_field *fields

    ctypedef struct ol_schema:
        const char *name
        const ol_field *fields
        int16_t first_version
        int16_t last_version
        int16_t flexible_from

    bint ol_field_in_version(const ol_field *field, int16_t version) noexcept

    ctypedef struct ol_schema_visitor:
        int (*begin_struct)(void *context, const ol_field *field, ol_error *error) noexcept nogil
        int (*end_struct)(void *context, const ol_field *field, ol_error *error) noexcept nogil
        int (*begin_array)(void *context, const ol_field *field, int32_t count, ol_error *error) noexcept nogil
        int (*end_array)(void *context, const ol_field *field, ol_error *error) noexcept nogil
        int (*integer)(void *context, const ol_field *field, int64_t value, ol_error *error) noexcept nogil
        int (*bytes)(void *context, const ol_field *field, ol_slice value, ol_error *error) noexcept nogil
        int (*null_value)(void *context, const ol_field *field, ol_error *error) noexcept nogil
        int (*unknown_tag)(void *context, uint32_t tag, ol_slice value, ol_error *error) noexcept nogil
        void *context

    int ol_schema_decode(const ol_schema *schema, int16_t version, ol_slice bytes, const ol_schema_visitor *visitor,
                         size_t *used, ol_error *error) noexcept


cdef extern from "format/group_schema.h" nogil:
    const ol_schema *ol_schema_of_key(int16_t key_type) noexcept
    const ol_schema *ol_schema_of_value(int16_t key_type) noexcept
    const ol_schema *ol_schema_of_subscription() noexcept


cdef extern from "format/transaction_schema.h" nogil:
    const ol_schema *ol_schema_of_transaction_key(int16_t key_type) noexcept
    const ol_schema *ol_schema_of_transaction_value(int16_t key_type) noexcept


cdef extern from "format/schema_encode.h" nogil:
    ctypedef struct ol_schema_writer:
        pass

    int ol_schema_writer_start(ol_schema_writer *writer, const ol_schema *schema, int16_t version, uint8_t *bytes,
                               size_t capacity, ol_error *error) noexcept
    int ol_schema_put_begin_struct(void *writer, const ol_field *field, ol_error *error) noexcept
    int ol_schema_put_end_struct(void *writer, const ol_field *field, ol_error *error) noexcept
    int ol_schema_put_begin_array(void *writer, const ol_field *field, int32_t count, ol_error *error) noexcept
    int ol_schema_put_end_array(void *writer, const ol_field *field, ol_error *error) noexcept
    int ol_schema_put_integer(void *writer, const ol_field *field, int64_t value, ol_error *error) noexcept
    int ol_schema_put_bytes(void *writer, const ol_field *field, ol_slice value, ol_error *error) noexcept
    int ol_schema_put_null(void *writer, const ol_field *field, ol_error *error) noexcept
    int ol_schema_writer_finish(ol_schema_writer *writer, size_t *size, ol_error *error) noexcept


cdef extern from "wire/value_pool.h" nogil:
    ctypedef struct ol_value:
        int64_t number
        const uint8_t *bytes
        ol_value *values

    ctypedef struct ol_value_pool:
        size_t limit

    int ol_value_pool_take(ol_value_pool *pool, size_t count, ol_value **values, ol_error *error) noexcept
    void ol_value_pool_clear(ol_value_pool *pool) noexcept
    void ol_value_pool_free(ol_value_pool *pool) noexcept
    ol_value ol_value_integer(int64_t number) noexcept
    ol_value ol_value_bytes(ol_slice bytes) noexcept


cdef extern from "wire/form.h" nogil:
    ctypedef struct ol_form:
        pass

    ctypedef struct ol_forms:
        const ol_schema *schema

    int ol_forms_get(ol_forms *forms, int16_t version, const ol_form **form, ol_error *error) noexcept
    void ol_forms_free(ol_forms *forms) noexcept
    size_t ol_message_width(const ol_field *fields) noexcept


cdef extern from "wire/message.h" nogil:
    int ol_message_read(const ol_form *form, ol_slice bytes, ol_value_pool *pool, ol_value **message, size_t *used,
                        ol_error *error) noexcept
    size_t ol_message_size_max(const ol_form *form, const ol_value *message) noexcept
    int ol_message_write(const ol_form *form, const ol_value *message, uint8_t *bytes, size_t capacity, size_t *size,
                         ol_error *error) noexcept


cdef extern from "wire/api.h" nogil:
    ctypedef struct ol_api:
        int16_t key
        int16_t advertised_from
        const char *name
        const ol_schema *request
        const ol_schema *response

    size_t ol_api_count() noexcept
    const ol_api *ol_api_at(size_t index) noexcept


cdef extern from "wire/header.h" nogil:
    enum:
        OL_RESPONSE_HEADER_MAX

    ctypedef struct ol_request_header:
        const ol_api *api
        int16_t api_key
        int16_t api_version
        int32_t correlation_id
        ol_slice client_id

    int ol_request_header_read(ol_slice request, ol_request_header *header, size_t *used, ol_error *error) noexcept
    size_t ol_response_header_write(const ol_request_header *header, uint8_t *bytes) noexcept


cdef extern from "base/chained_map.h" nogil:
    ctypedef struct ol_chained_map:
        size_t count


cdef extern from "front/commit_counts.h" nogil:
    ctypedef struct ol_commit_counts:
        pass

    ctypedef void (*ol_commits_found)(void *context, ol_slice group, uint64_t commits) noexcept

    void ol_commit_counts_add(ol_commit_counts *counts, ol_slice group) noexcept
    size_t ol_commit_counts_read(const ol_commit_counts *counts, size_t part, ol_commits_found found, void *context) noexcept


cdef extern from "front/admissions.h" nogil:
    ctypedef struct ol_admissions:
        ol_chained_map entries
        ol_commit_counts counts

    ctypedef struct ol_admission:
        pass

    ctypedef struct ol_admission_key:
        ol_slice group
        ol_slice member_id
        ol_slice group_instance_id
        int32_t generation

    ctypedef void (*ol_heard)(void *context, ol_slice member_id, double at) noexcept

    int ol_admissions_add(ol_admissions *admissions, const ol_admission_key *key, ol_error *error) noexcept
    void ol_admissions_revoke(ol_admissions *admissions, ol_slice group, ol_heard heard, void *context) noexcept


cdef extern from "front/known_topics.h" nogil:
    ctypedef struct ol_known_topics:
        pass

    int ol_known_topics_put(ol_known_topics *topics, ol_slice name, const uint8_t *id, int32_t partitions,
                            ol_error *error) noexcept
    void ol_known_topics_remove(ol_known_topics *topics, ol_slice name) noexcept


cdef extern from "front/front.h" nogil:
    enum:
        OL_API_OFFSET_COMMIT
        OL_API_OFFSET_FETCH
        OL_API_HEARTBEAT

    ctypedef struct ol_answers:
        uint8_t *bytes
        size_t size

    ctypedef struct ol_front:
        ol_admissions admissions
        ol_known_topics topics

    ctypedef struct ol_front_commit:
        const ol_item *items
        size_t count
        int32_t log_partition

    void ol_answers_free(ol_answers *answers) noexcept
    int ol_front_init(ol_front *front, int32_t partition_count, size_t metadata_units_max, uint64_t seed, size_t admissions_max,
                      ol_error *error) noexcept
    void ol_front_free(ol_front *front) noexcept
    void ol_front_set_led(ol_front *front, int32_t log_partition, c_bool is_led) noexcept
    bint ol_front_begin(ol_slice frame, ol_request_header *header, ol_slice *body) noexcept
    bint ol_front_begin_commit(ol_front *front, const ol_request_header *header, ol_slice body, int64_t now,
                               ol_front_commit *commit, ol_answers *answers) noexcept
    void ol_front_end_commit(const ol_front_commit *commit, double at, ol_answers *answers) noexcept
    bint ol_front_fetch(ol_front *front, const ol_request_header *header, ol_slice body, ol_partition *const *partitions,
                        ol_answers *answers) noexcept
    bint ol_front_heartbeat(ol_front *front, const ol_request_header *header, ol_slice body, double at,
                            ol_answers *answers) noexcept


cdef extern from "base/string_dictionary.h" nogil:
    ctypedef struct ol_string_dictionary:
        int64_t *ends
        uint8_t *bytes
        size_t count
        uint64_t seed

    void ol_string_dictionary_free(ol_string_dictionary *dictionary) noexcept
    int ol_string_dictionary_number(ol_string_dictionary *dictionary, ol_slice string, int32_t *number, ol_error *error) noexcept
    ol_slice ol_string_dictionary_get(const ol_string_dictionary *dictionary, size_t number) noexcept


cdef extern from "cleaner/survey.h" nogil:
    ctypedef struct ol_clean_share:
        int64_t records
        int64_t live_records
        int64_t superseded
        int64_t aborted
        int64_t expired_tombstones
        int64_t expired_markers
        int64_t keyless
        int64_t tombstones
        int64_t markers
        double bytes
        double live_bytes
        double freed_bytes

    ctypedef struct ol_clean_survey:
        ol_string_dictionary names
        ol_clean_share *shares
        size_t share_count
        int64_t segments
        int64_t batches

    void ol_clean_survey_free(ol_clean_survey *survey) noexcept
    int ol_cleaner_survey(ol_partition *partition, const ol_clean_options *options, bint closes_active,
                          ol_clean_survey *survey, ol_clean_report *report, ol_error *error) noexcept


cdef extern from "columns/position_columns.h" nogil:
    ctypedef struct ol_position_columns:
        size_t count
        size_t capacity
        int32_t *groups
        int32_t *topics
        int32_t *partitions
        int64_t *offsets
        int32_t *leader_epochs
        int64_t *commit_timestamps
        int64_t *expire_timestamps
        int32_t *log_partitions
        int64_t *log_offsets
        int32_t *metadata_ends
        uint8_t *metadata
        uint8_t *topic_ids
        uint8_t *topic_id_valid
        size_t topic_id_count
        ol_string_dictionary group_names
        ol_string_dictionary topic_names

    void ol_position_columns_free(ol_position_columns *columns) noexcept
    int ol_position_columns_reserve(ol_position_columns *columns, size_t count, ol_error *error) noexcept
    int ol_position_columns_append(ol_position_columns *columns, int32_t log_partition, const ol_table_row *row, ol_error *error) noexcept
    void ol_position_columns_release(ol_position_columns *columns) noexcept
    int ol_position_columns_append_table(ol_position_columns *columns, int32_t log_partition, const ol_table *table, ol_table_cursor *cursor,
                                ol_error *error) noexcept
    int ol_position_columns_append_group(ol_position_columns *columns, int32_t log_partition, const ol_table *table, ol_slice group,
                                ol_table_cursor *cursor, ol_error *error) noexcept


cdef extern from "retention/group_rules.h" nogil:
    const int64_t OL_RETENTION_NEVER

    ctypedef struct ol_retention_rule:
        ol_slice group
        bint is_prefix
        int64_t retention_ms

    ctypedef struct ol_retention_rules:
        pass

    int ol_retention_rules_create(const ol_retention_rule *rules, size_t count, int64_t default_ms, ol_retention_rules **created,
                                  ol_error *error) noexcept
    void ol_retention_rules_destroy(ol_retention_rules *rules) noexcept


cdef extern from "retention/expiry_rule.h" nogil:
    ctypedef enum ol_group_kind:
        OL_GROUP_CLASSIC

    ctypedef struct ol_group_view:
        ol_group_kind kind
        bint is_empty
        bint is_stable
        bint is_consumer_protocol
        bint subscription_known
        bint is_held
        int64_t state_timestamp

    ctypedef struct ol_group_state:
        c_bool (*view)(void *context, ol_slice group, ol_group_view *view) noexcept nogil
        c_bool (*is_subscribed)(void *context, ol_slice group, ol_slice topic) noexcept nogil
        void (*release)(void *context, ol_slice group) noexcept nogil
        void *context


cdef extern from "retention/report_rows.h" nogil:
    ctypedef struct ol_expiring_row:
        int32_t group
        int32_t topic

    ctypedef struct ol_expiring_rows:
        ol_expiring_row *rows
        size_t count
        ol_string_dictionary group_names
        ol_string_dictionary topic_names

    void ol_expiring_rows_free(ol_expiring_rows *rows) noexcept


cdef extern from "retention/run.h" nogil:
    ctypedef struct ol_retention_options:
        const ol_retention_rules *rules
        const ol_group_state *groups
        int64_t now_ms
        const atomic_flag_value *stop

    ctypedef struct ol_retention_report:
        uint64_t groups
        uint64_t groups_never
        uint64_t groups_held
        uint64_t groups_removed
        uint64_t positions_expired
        uint64_t positions_pending
        uint64_t batches
        int64_t end_offset
        uint64_t term
        bint stopped

    int ol_retention_expire(ol_partition *partition, const ol_retention_options *options, ol_retention_report *report,
                            ol_error *error) noexcept
    int ol_retention_expire_group(ol_partition *partition, const ol_retention_options *options, ol_slice group,
                                  ol_retention_report *report, ol_error *error) noexcept
    int ol_retention_preview(ol_partition *partition, const ol_retention_options *options, int32_t partition_number,
                             ol_expiring_rows *rows, ol_retention_report *report, ol_error *error) noexcept


cdef extern from "partition/flusher.h" nogil:
    enum:
        OL_FLUSHER_THREADS

    ctypedef struct ol_flusher:
        pass

    int ol_flusher_create(ol_flusher **flusher, ol_error *error) noexcept
    void ol_flusher_begin(ol_flusher *flusher, ol_partition **partitions, size_t count) noexcept
    void ol_flusher_remove(ol_flusher *flusher, ol_partition *partition) noexcept
    void ol_flusher_stop(ol_flusher *flusher) noexcept
    void ol_flusher_abandon(ol_flusher *flusher) noexcept


cdef extern from "partition/preallocator.h" nogil:
    ctypedef struct ol_preallocator:
        pass

    int ol_preallocator_start(ol_preallocator **preparer, ol_flusher *flusher, int64_t flush_interval_ms,
                              ol_error *error) noexcept
    int ol_preallocator_add(ol_preallocator *preparer, ol_partition *partition, ol_error *error) noexcept
    void ol_preallocator_remove(ol_preallocator *preparer, ol_partition *partition) noexcept
    void ol_preallocator_kick(ol_preallocator *preparer) noexcept
    void ol_preallocator_stop(ol_preallocator *preparer) noexcept
    void ol_preallocator_abandon(ol_preallocator *preparer) noexcept


cdef extern from *:
    """
    /* From CPython 3.14 on, a tuple caches its hash.  tp_alloc sets this field to 0, which would be taken for the hash.
     * The value -1 says that the hash is not known yet. */
    #if PY_VERSION_HEX >= 0x030E0000
    #define OL_CLEAR_TUPLE_HASH(tuple) ((void)(((PyTupleObject *)(tuple))->ob_hash = -1))
    #else
    #define OL_CLEAR_TUPLE_HASH(tuple) ((void)(tuple))
    #endif
    """
    void clear_tuple_hash "OL_CLEAR_TUPLE_HASH"(void *tuple) noexcept


cdef extern from "Python.h":
    # Missing in Cython's own declarations: makes an instance of a tuple subclass without calling its type.
    ctypedef struct tuple_type "PyTypeObject":
        void *(*tp_alloc)(tuple_type *kind, Py_ssize_t size)

    # Declared without Cython's handling of exceptions, which would save and restore the current one at every call: the caller
    # checks for NULL.
    const char *utf8_or_null "PyUnicode_AsUTF8AndSize"(object text, Py_ssize_t *size) noexcept
    void *text_or_null "PyUnicode_DecodeUTF8"(const char *data, Py_ssize_t size, const char *errors) noexcept


# A number of bytes that several threads change together, without a lock or waiting.
cdef extern from *:
    """
    static inline int64_t ol_account_add(int64_t *taken, int64_t change) {
        return __atomic_add_fetch(taken, change, __ATOMIC_RELAXED);
    }
    """
    int64_t ol_account_add(int64_t *taken, int64_t change) noexcept nogil
