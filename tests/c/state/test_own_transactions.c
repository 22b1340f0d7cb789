/* state/own_transactions: an id is recorded once, and released once. */
#include "ol_test.h"
#include "state/own_transactions.h"

OL_TEST(open_transactions_of_ours_are_remembered_once) {
    ol_own_transactions own = {NULL, 0, 0};
    ol_error error;
    for (int64_t id = 1; id < 40; id++) {
        OL_CHECK_OK(ol_own_transactions_open(&own, id % 20, &error), &error);
    }
    OL_CHECK_INT(own.count, 20);
    ol_own_transactions_close(&own, 3);
    ol_own_transactions_close(&own, 99);
    OL_CHECK_INT(own.count, 19);
    ol_own_transactions_free(&own);
}

OL_TEST_MAIN()
