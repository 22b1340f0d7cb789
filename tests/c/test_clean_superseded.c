/* The bits by which one pass of the cleaner tells the next what it need not look at: against a model, and within their memory. */
#include "ol_clean_superseded.h"
#include "ol_test.h"

enum { OFFSETS = 5000, FROM = 1000 };

static void check_all(const ol_clean_superseded *bits, const bool *plain, const bool *gone, int64_t end) {
    for (int64_t offset = 0; offset < OFFSETS; offset++) {
        bool covered = offset >= FROM && offset < end;
        OL_CHECK_INT(ol_clean_superseded_is_gone(bits, offset), covered && plain[offset] && gone[offset]);
    }
    OL_CHECK(!ol_clean_superseded_is_gone(bits, INT64_MAX));
}

/* Keys drawn at random; a gap here and there. */
static void put_some(ol_clean_superseded *bits, bool *plain, bool *gone) {
    int64_t latest[100];
    for (int i = 0; i < 100; i++) latest[i] = -1;
    memset(plain, 0, OFFSETS);
    memset(gone, 0, OFFSETS);
    for (int64_t offset = FROM; offset < OFFSETS; offset += 1 + (ol_test_below(9) == 0)) {
        int64_t *previous = &latest[ol_test_below(100)];
        plain[offset] = ol_test_below(4) != 0;
        if (*previous >= 0) gone[*previous] = true;
        ol_clean_superseded_put(bits, offset, plain[offset], *previous);
        *previous = offset;
    }
}

OL_TEST(a_plain_record_is_gone_once_a_later_one_was_put) {
    static const size_t memories[] = {1 << 20, 600, 16, 15, 0};
    static const int64_t covered[] = {OFFSETS, FROM + 600 / 16 * 64, FROM + 64, FROM, FROM};
    static bool plain[OFFSETS], gone[OFFSETS];
    for (size_t i = 0; i < sizeof memories / sizeof *memories; i++) {
        ol_clean_superseded bits = {0};
        /* Used again it has forgotten all. */
        for (int round = 0; round < 3; round++) {
            ol_clean_superseded_start(&bits, FROM, OFFSETS, memories[i]);
            memset(gone, 0, sizeof gone);
            check_all(&bits, plain, gone, covered[i]);
            put_some(&bits, plain, gone);
            check_all(&bits, plain, gone, covered[i]);
        }
        ol_clean_superseded_free(&bits);
    }
}

OL_TEST(a_record_below_what_is_there_supersedes_nothing) {
    ol_clean_superseded bits = {0};
    ol_clean_superseded_start(&bits, 0, 64, 1024);
    ol_clean_superseded_put(&bits, 9, true, -1);
    ol_clean_superseded_put(&bits, 5, true, 9);
    OL_CHECK(!ol_clean_superseded_is_gone(&bits, 9) && !ol_clean_superseded_is_gone(&bits, 5));
    ol_clean_superseded_start(&bits, 0, 0, 1024);
    OL_CHECK(!ol_clean_superseded_is_gone(&bits, 0));
    ol_clean_superseded_free(&bits);
}

OL_TEST_MAIN()
