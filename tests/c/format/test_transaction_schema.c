/* The records of __transaction_state by their schemas: vectors of both versions, read and written, and what is refused. */
#include "base/bytes.h"
#include "format/schema_encode.h"
#include "format/transaction_schema.h"
#include "ol_test.h"
#include "schema_json.h"

#define HEAD "{\"producerId\":7,"
#define MIDDLE "\"producerEpoch\":3,\"transactionTimeoutMs\":60000,\"transactionStatus\":1,"
#define PARTITIONS "\"transactionPartitions\":[{\"topic\":\"t\",\"partitionIds\":[0,2]}],"
#define TIMES "\"transactionLastUpdateTimestampMs\":1700000000000,\"transactionStartTimestampMs\":1700000000000"

static const struct {
    int16_t version;
    const char *hex, *json;
} values[] = {
    {0, "0000000000000007" "0003" "0000ea60" "01" "00000001" "000174" "00000002" "0000000000000002" "0000018bcfe56800" "0000018bcfe56800",
     HEAD MIDDLE PARTITIONS TIMES "}"},
    {0, "0000000000000007" "0003" "0000ea60" "01" "ffffffff" "0000018bcfe56800" "0000018bcfe56800",
     HEAD MIDDLE "\"transactionPartitions\":null," TIMES "}"},
    {1, "0000000000000007" "0003" "0000ea60" "01" "02" "0274" "03" "0000000000000002" "00" "0000018bcfe56800" "0000018bcfe56800" "00",
     HEAD MIDDLE PARTITIONS TIMES "}"},
    {1, "0000000000000007" "0003" "0000ea60" "01" "00" "0000018bcfe56800" "0000018bcfe56800"
     "04" "0008" "0000000000000005" "0108" "0000000000000006" "0202" "0002" "0302" "0009",
     HEAD MIDDLE "\"transactionPartitions\":null," TIMES
     ",\"previousProducerId\":5,\"nextProducerId\":6,\"clientTransactionVersion\":2,\"nextProducerEpoch\":9}"},
};

static void check_vector(const ol_schema *schema, int16_t version, const char *hex, const char *json) {
    size_t size, used, written;
    uint8_t *bytes = ol_test_unhex(hex, &size), out[256];
    schema_json j;
    ol_error error;
    OL_CHECK_OK(schema_to_json(schema, version, ol_slice_of(bytes, size), &j, &used, &error), &error);
    if (strcmp(j.text, json) != 0) fprintf(stderr, "%s\n%s\n", j.text, json);
    OL_CHECK(strcmp(j.text, json) == 0);
    OL_CHECK_INT(used, size);
    free(j.text);
    ol_schema_writer writer;
    OL_CHECK_OK(ol_schema_writer_start(&writer, schema, version, out, sizeof out, &error), &error);
    ol_schema_visitor visitor = ol_schema_writer_visitor(&writer);
    OL_CHECK_OK(ol_schema_decode(schema, version, ol_slice_of(bytes, size), &visitor, NULL, &error), &error);
    OL_CHECK_OK(ol_schema_writer_finish(&writer, &written, &error), &error);
    OL_CHECK(written == size && memcmp(out, bytes, size) == 0);
    for (size_t left = 0; left < size; left++) {
        uint8_t *cut = memcpy(malloc(left ? left : 1), bytes, left);
        ol_schema_visitor nothing = {0};
        OL_CHECK_INT(ol_schema_decode(schema, version, ol_slice_of(cut, left), &nothing, NULL, &error), OL_CORRUPT);
        free(cut);
    }
    free(bytes);
}

OL_TEST(vectors_are_read_and_written) {
    check_vector(ol_schema_of_transaction_key(0), 0, "00026964", "{\"transactionalId\":\"id\"}");
    for (size_t k = 0; k < sizeof values / sizeof values[0]; k++) {
        check_vector(ol_schema_of_transaction_value(0), values[k].version, values[k].hex, values[k].json);
    }
}

OL_TEST(only_type_0_and_two_versions_are_known) {
    ol_error error;
    ol_schema_visitor nothing = {0};
    OL_CHECK(ol_schema_of_transaction_key(1) == NULL && ol_schema_of_transaction_value(-1) == NULL);
    OL_CHECK_INT(ol_schema_decode(ol_schema_of_transaction_value(0), 2, ol_slice_of("", 0), &nothing, NULL, &error), OL_UNSUPPORTED);
}

OL_TEST_MAIN()
