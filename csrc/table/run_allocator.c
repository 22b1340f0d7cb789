/* table/run_allocator.c: keeps a bitmap of free units for each page, and lists the pages by their
 * longest free run. */
#include "table/run_allocator.h"

#include <string.h>

/* A page's bitmap as one number, so that runs can cross the middle of a page. */
typedef unsigned __int128 page_bits;

static ol_run_allocator_page *page_at(const ol_run_allocator *run_allocator, uint32_t page) {
    return (ol_run_allocator_page *)run_allocator->pages.base + page;
}

static page_bits free_bits(const ol_run_allocator_page *page) {
    return (page_bits)page->free[1] << 64 | page->free[0];
}

static void set_free_bits(ol_run_allocator_page *page, page_bits bits) {
    page->free[0] = (uint64_t)bits;
    page->free[1] = (uint64_t)(bits >> 64);
}

static page_bits bits_of(unsigned first, unsigned length) {
    return (((page_bits)1 << length) - 1) << first;
}

/* ------------------------------------------------------------------------------------ free runs */

/* Returns the length of the longest run of ones, at most OL_RUN_LENGTH_MAX. */
static unsigned longest_free(page_bits ones) {
    if (!ones) return 0;
    /* power[k] marks the places where 2^k ones begin. */
    page_bits power[6] = {ones};
    for (int k = 1; k < 6; k++) power[k] = power[k - 1] & power[k - 1] >> (1u << (k - 1));
    if (power[5]) return 32;
    /* `starts` marks the places where `length` ones begin; try to lengthen by 16, 8, 4, 2, 1. */
    page_bits starts = ~(page_bits)0;
    unsigned length = 0;
    for (int k = 4; k >= 0; k--) {
        page_bits longer = starts & power[k] >> length;
        if (!longer) continue;
        starts = longer;
        length += 1u << k;
    }
    return length;
}

/* Returns the places where runs of at least `length` ones begin. */
static page_bits starts_of_free(page_bits ones, unsigned length) {
    page_bits power = ones, starts = ~(page_bits)0;
    unsigned done = 0;
    for (unsigned size = 1; size <= length; size *= 2) {
        if (length & size) {
            starts &= power >> done;
            done += size;
        }
        power &= power >> size;
    }
    return starts;
}

/* --------------------------------------------------------------------------------- aligned runs */

static page_bits repeat(uint64_t pattern) {
    return (page_bits)pattern << 64 | pattern;
}

/* Return the places where aligned pairs and fours of ones begin. */
static page_bits pairs_of(page_bits ones) {
    return ones & ones >> 1 & repeat(0x5555555555555555u);
}
static page_bits fours_of(page_bits ones) {
    page_bits pairs = pairs_of(ones);
    return pairs & pairs >> 2 & repeat(0x1111111111111111u);
}

static unsigned longest_aligned(page_bits ones) {
    if (fours_of(ones)) return 4;
    if (pairs_of(ones)) return 2;
    return ones != 0;
}

/* Returns the best places for a run of `length`: those in the smallest hole that fits it. */
static page_bits starts_of_aligned(page_bits ones, unsigned length) {
    page_bits pairs = pairs_of(ones), fours = fours_of(ones);
    page_bits lone_pairs = pairs & ~(fours | fours << 2), lone_ones = ones & ~(pairs | pairs << 1);
    if (length == 1 && lone_ones) return lone_ones;
    if (length <= 2 && lone_pairs) return lone_pairs;
    return fours;
}

/* ------------------------------------------------------------------------------ pages and lists */

static unsigned longest_run(const ol_run_allocator *run_allocator, page_bits ones) {
    return run_allocator->aligned ? longest_aligned(ones) : longest_free(ones);
}

static unsigned find_run(const ol_run_allocator *run_allocator, page_bits ones, unsigned length) {
    page_bits starts = run_allocator->aligned ? starts_of_aligned(ones, length)
                                     : starts_of_free(ones, length);
    OL_ASSERT(starts != 0);
    uint64_t low = (uint64_t)starts;
    return (unsigned)(low ? __builtin_ctzll(low) : 64 + __builtin_ctzll((uint64_t)(starts >> 64)));
}

static void unlink_page(ol_run_allocator *run_allocator, uint32_t number, unsigned list) {
    if (list == 0) return;
    ol_run_allocator_page *page = page_at(run_allocator, number);
    if (page->next != 0) page_at(run_allocator, page->next - 1)->previous = page->previous;
    if (page->previous != 0) {
        page_at(run_allocator, page->previous - 1)->next = page->next;
    } else {
        run_allocator->lists[list] = page->next;
        if (page->next == 0) run_allocator->lists_used &= ~((uint64_t)1 << list);
    }
}

static void link_page(ol_run_allocator *run_allocator, uint32_t number, unsigned list) {
    if (list == 0) return;
    ol_run_allocator_page *page = page_at(run_allocator, number);
    page->previous = 0;
    page->next = run_allocator->lists[list];
    if (page->next != 0) page_at(run_allocator, page->next - 1)->previous = number + 1;
    run_allocator->lists[list] = number + 1;
    run_allocator->lists_used |= (uint64_t)1 << list;
}

static void change_page(ol_run_allocator *run_allocator, uint32_t number, page_bits bits) {
    ol_run_allocator_page *page = page_at(run_allocator, number);
    unsigned before = longest_run(run_allocator, free_bits(page)),
             after = longest_run(run_allocator, bits);
    set_free_bits(page, bits);
    if (before == after) return;
    unlink_page(run_allocator, number, before);
    link_page(run_allocator, number, after);
}

void ol_run_allocator_init(ol_run_allocator *run_allocator, uint32_t unit_size,
                           uint64_t index_limit, bool aligned) {
    memset(run_allocator, 0, sizeof *run_allocator);
    run_allocator->unit_size = unit_size;
    run_allocator->aligned = aligned;
    run_allocator->page_count_max = (uint32_t)(index_limit / OL_RUN_ALLOCATOR_PAGE_UNITS);
}

void ol_run_allocator_free_all(ol_run_allocator *run_allocator) {
    ol_arena_free(&run_allocator->units);
    ol_arena_free(&run_allocator->pages);
}

static int add_page(ol_run_allocator *run_allocator, ol_error *error) {
    if (run_allocator->page_count == run_allocator->page_count_max) {
        return ol_fail(error, OL_LIMIT, "the table's index space is full");
    }
    /* If the second step fails, the next attempt reuses these units. */
    size_t needed = ((size_t)run_allocator->page_count + 1) * OL_RUN_ALLOCATOR_PAGE_UNITS *
                    run_allocator->unit_size;
    if (run_allocator->units.used < needed) {
        int status = ol_arena_extend(&run_allocator->units, needed - run_allocator->units.used,
                                     error);
        if (status != OL_OK) return status;
    }
    int status = ol_arena_extend(&run_allocator->pages, sizeof(ol_run_allocator_page), error);
    if (status != OL_OK) return status;
    uint32_t number = run_allocator->page_count++;
    set_free_bits(page_at(run_allocator, number), ~(page_bits)0);
    run_allocator->free_units += OL_RUN_ALLOCATOR_PAGE_UNITS;
    link_page(run_allocator, number, longest_run(run_allocator, ~(page_bits)0));
    return OL_OK;
}

int ol_run_allocator_allocate(ol_run_allocator *run_allocator, unsigned length, uint32_t *index,
                              ol_error *error) {
    OL_ASSERT(length >= 1 && length <= OL_RUN_LENGTH_MAX);
    OL_ASSERT(!run_allocator->aligned || length == 1 || length == 2 ||
              length == OL_RUN_ALIGNED_MAX);
    if (run_allocator->lists_used >> length == 0) {
        int status = add_page(run_allocator, error);
        if (status != OL_OK) return status;
    }
    unsigned list = length + (unsigned)__builtin_ctzll(run_allocator->lists_used >> length);
    uint32_t number = run_allocator->lists[list] - 1;
    page_bits bits = free_bits(page_at(run_allocator, number));
    unsigned first = find_run(run_allocator, bits, length);
    change_page(run_allocator, number, bits & ~bits_of(first, length));
    run_allocator->free_units -= length;
    *index = number * OL_RUN_ALLOCATOR_PAGE_UNITS + first;
    return OL_OK;
}

void ol_run_allocator_free(ol_run_allocator *run_allocator, uint32_t index, unsigned length) {
    uint32_t number = index / OL_RUN_ALLOCATOR_PAGE_UNITS;
    unsigned first = index % OL_RUN_ALLOCATOR_PAGE_UNITS;
    OL_ASSERT(number < run_allocator->page_count && length >= 1 &&
              first + length <= OL_RUN_ALLOCATOR_PAGE_UNITS);
    page_bits bits = free_bits(page_at(run_allocator, number)), mask = bits_of(first, length);
    OL_ASSERT((bits & mask) == 0);
    change_page(run_allocator, number, bits | mask);
    run_allocator->free_units += length;
}

uint64_t ol_run_allocator_resident(const ol_run_allocator *run_allocator) {
    return ol_arena_resident(&run_allocator->units) + ol_arena_resident(&run_allocator->pages);
}

bool ol_run_allocator_is_free(const ol_run_allocator *run_allocator, uint32_t index) {
    OL_ASSERT(index / OL_RUN_ALLOCATOR_PAGE_UNITS < run_allocator->page_count);
    unsigned bit = index % OL_RUN_ALLOCATOR_PAGE_UNITS;
    return page_at(run_allocator, index / OL_RUN_ALLOCATOR_PAGE_UNITS)->free[bit / 64] >>
               (bit % 64) &
           1;
}

void ol_run_allocator_verify(const ol_run_allocator *run_allocator) {
    uint64_t free_units = 0, listed = 0, should_be_listed = 0;
    for (uint32_t i = 0; i < run_allocator->page_count; i++) {
        page_bits bits = free_bits(page_at(run_allocator, i));
        unsigned longest = 0, current = 0;
        for (unsigned bit = 0; bit < OL_RUN_ALLOCATOR_PAGE_UNITS; bit++) {
            bool is_free = bits >> bit & 1;
            free_units += is_free;
            current = is_free ? current + 1 : 0;
            if (current > longest) longest = current;
        }
        OL_ASSERT(longest_free(bits) ==
                  (longest < OL_RUN_LENGTH_MAX ? longest : OL_RUN_LENGTH_MAX));
        should_be_listed += longest != 0;
    }
    for (unsigned list = 0; list <= OL_RUN_LENGTH_MAX; list++) {
        OL_ASSERT((run_allocator->lists[list] != 0) ==
                  (bool)(run_allocator->lists_used >> list & 1));
        uint32_t previous = 0;
        for (uint32_t link = run_allocator->lists[list]; link != 0;
             link = page_at(run_allocator, link - 1)->next) {
            const ol_run_allocator_page *page = page_at(run_allocator, link - 1);
            OL_ASSERT(page->previous == previous &&
                      longest_run(run_allocator, free_bits(page)) == list);
            OL_ASSERT(++listed <= run_allocator->page_count);
            previous = link;
        }
    }
    OL_ASSERT(listed == should_be_listed && free_units == run_allocator->free_units &&
              run_allocator->lists[0] == 0);
}

/* ----------------------------------------------------------------------------------- validation */

/* Every page with a free unit is in the list of its longest free run, and in no other. */
static bool are_lists_sound(const ol_run_allocator *run_allocator, uint64_t listed_expected) {
    uint64_t listed = 0;
    for (unsigned list = 0; list <= OL_RUN_LENGTH_MAX; list++) {
        if ((run_allocator->lists[list] != 0) != (bool)(run_allocator->lists_used >> list & 1)) {
            return false;
        }
        uint32_t previous = 0;
        for (uint32_t link = run_allocator->lists[list]; link != 0;
             link = page_at(run_allocator, link - 1)->next) {
            if (link > run_allocator->page_count || ++listed > listed_expected) return false;
            const ol_run_allocator_page *page = page_at(run_allocator, link - 1);
            if (page->previous != previous || longest_run(run_allocator, free_bits(page)) != list) {
                return false;
            }
            previous = link;
        }
    }
    return listed == listed_expected && run_allocator->lists[0] == 0 &&
           run_allocator->lists_used >> OL_RUN_LENGTH_MAX <= 1;
}

int ol_run_allocator_validate(const ol_run_allocator *run_allocator, ol_error *error) {
    uint64_t free_units = 0, with_free = 0;
    bool sound = run_allocator->page_count <= run_allocator->page_count_max &&
                 run_allocator->pages.used ==
                     (size_t)run_allocator->page_count * sizeof(ol_run_allocator_page) &&
                 run_allocator->units.used / run_allocator->unit_size /
                         OL_RUN_ALLOCATOR_PAGE_UNITS >=
                     run_allocator->page_count;
    for (uint32_t i = 0; sound && i < run_allocator->page_count; i++) {
        const ol_run_allocator_page *page = page_at(run_allocator, i);
        unsigned count = (unsigned)(__builtin_popcountll(page->free[0]) +
                                    __builtin_popcountll(page->free[1]));
        free_units += count;
        with_free += count != 0;
    }
    if (!sound || free_units != run_allocator->free_units ||
        !are_lists_sound(run_allocator, with_free)) {
        return ol_fail(error, OL_CORRUPT, "the list of free runs is inconsistent");
    }
    return OL_OK;
}

bool ol_run_allocator_validate_taken(const ol_run_allocator *run_allocator,
                                     const ol_ownership_bits *taken) {
    uint64_t wrong = 0;
    for (uint32_t i = 0; i < run_allocator->page_count; i++) {
        const ol_run_allocator_page *page = page_at(run_allocator, i);
        wrong |= ~(page->free[0] ^ taken->words[2 * (size_t)i]) |
                 ~(page->free[1] ^ taken->words[2 * (size_t)i + 1]);
    }
    return wrong == 0;
}
