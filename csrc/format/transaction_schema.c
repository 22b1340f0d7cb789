/* format/transaction_schema.c: a list of fields per struct, in the order of Kafka's schemas. */
#include "format/transaction_schema.h"

#include "format/schema_table_internal.h"

static const ol_field transaction_key[] = {{FIELD("transactionalId", STRING)}, END};

static const ol_field partitions[] = {{FIELD("topic", STRING)},
                                      {ARRAY_OF("partitionIds", I32)},
                                      END};
static const ol_field transaction_value[] = {
    {FIELD("producerId", I64)},
    {FIELD("previousProducerId", I64), SINCE(1), TAG(0), DEFAULT(-1)},
    {FIELD("nextProducerId", I64), SINCE(1), TAG(1), DEFAULT(-1)},
    {FIELD("producerEpoch", I16)},
    {FIELD("nextProducerEpoch", I16), SINCE(1), TAG(3), DEFAULT(-1)},
    {FIELD("transactionTimeoutMs", I32)},
    {FIELD("transactionStatus", I8)},
    {ARRAY_OF_STRUCTS("transactionPartitions", partitions), NULLABLE},
    {FIELD("transactionLastUpdateTimestampMs", I64)},
    {FIELD("transactionStartTimestampMs", I64)},
    {FIELD("clientTransactionVersion", I16), SINCE(1), TAG(2)},
    END};

static const ol_schema key_schema = {"TransactionLogKey", transaction_key, 0, 0, OL_SCHEMA_NEVER};
static const ol_schema value_schema = {"TransactionLogValue", transaction_value, 0, 1, 1};

const ol_schema *ol_schema_of_transaction_key(int16_t key_type) {
    return key_type == 0 ? &key_schema : NULL;
}

const ol_schema *ol_schema_of_transaction_value(int16_t key_type) {
    return key_type == 0 ? &value_schema : NULL;
}
