/* table/chunk_tree.c: builds a tree of arrays of chunks, divides full arrays, and joins small
 * ones. */
#include "table/chunk_tree_impl.h"

#include <string.h>

/* Neighbours that together hold no more than this are joined.  The limit is less than a leaf or a
 * branch can hold, so that a few calls around it do not join and divide in turn. */
enum {
    JOIN_CHUNKS_MAX = OL_CHUNKS_SPARSE_MAX * 3 / 4,
    JOIN_CHILDREN_MAX = OL_CHUNKS_BRANCH_MAX * 3 / 4,
};

/* -------------------------------------------------------------------------------------- finding */

static ol_chunk_array *named(const ol_partition_map *partition_map, uint32_t name) {
    return ol_chunk_array_named(partition_map, name);
}

static bool is_branch(const ol_partition_map *partition_map, uint32_t name) {
    return named(partition_map, name)->form == OL_CHUNKS_BRANCH;
}

/* Returns the place of the child that a number belongs to. */
static uint32_t child_of(const ol_chunk_array *branch, uint32_t number) {
    const uint32_t *numbers = ol_partition_map_numbers(branch);
    uint32_t at = 0;
    for (uint32_t length = branch->count; length > 1;) {
        uint32_t half = length / 2;
        at += numbers[at + half] <= number ? half : 0;
        length -= half;
    }
    return at;
}

ol_chunk *ol_partition_map_find_sorted(const ol_partition_map *partition_map,
                                       ol_chunk_array *array, uint32_t number) {
    while (array->form == OL_CHUNKS_BRANCH) {
        array = named(partition_map, array->chunk[child_of(array, number)].run);
    }
    uint32_t at = number - array->base;
    if (array->form == OL_CHUNKS_SPARSE) {
        const uint32_t *numbers = ol_partition_map_numbers(array);
        for (at = 0; at < array->count && numbers[at] != number;) at++;
    }
    return at < array->count && array->chunk[at].bitmap != 0 ? &array->chunk[at] : NULL;
}

static uint32_t leftmost_leaf(const ol_partition_map *partition_map, uint32_t name) {
    while (is_branch(partition_map, name)) name = named(partition_map, name)->chunk[0].run;
    return name;
}

uint32_t ol_partition_map_first_leaf(const ol_partition_map *partition_map, const ol_chunk *root) {
    OL_ASSERT(root->bitmap == 0);
    return root->run == 0 ? 0 : leftmost_leaf(partition_map, root->run);
}

uint32_t ol_partition_map_next_leaf(const ol_partition_map *partition_map, const ol_chunk *root,
                                    uint32_t number) {
    uint32_t after = 0;         /* the next child in the lowest branch on the path that has one */
    const ol_chunk_array *array = named(partition_map, root->run);
    while (array->form == OL_CHUNKS_BRANCH) {
        uint32_t at = child_of(array, number);
        if (at + 1 < array->count) after = array->chunk[at + 1].run;
        array = named(partition_map, array->chunk[at].run);
    }
    return after == 0 ? 0 : leftmost_leaf(partition_map, after);
}

/* Where the name of a leaf is stored: in a branch, or, if branch is 0, in the root itself. */
typedef struct leaf_slot {
    uint32_t branch;
    uint32_t at;
} leaf_slot;

static leaf_slot slot_of(const ol_partition_map *partition_map, const ol_chunk *root,
                         uint32_t number) {
    leaf_slot slot = {0, 0};
    for (uint32_t name = root->run; is_branch(partition_map, name);) {
        const ol_chunk_array *branch = named(partition_map, name);
        slot = (leaf_slot){name, child_of(branch, number)};
        name = branch->chunk[slot.at].run;
    }
    return slot;
}

static uint32_t *name_in(const ol_partition_map *partition_map, ol_chunk *root, leaf_slot slot) {
    return slot.branch == 0 ? &root->run : &named(partition_map, slot.branch)->chunk[slot.at].run;
}

static unsigned depth_of(const ol_partition_map *partition_map, const ol_chunk *root) {
    unsigned depth = 0;
    for (uint32_t name = root->run; is_branch(partition_map, name); depth++) {
        name = named(partition_map, name)->chunk[0].run;
    }
    return depth;
}

/* ---------------------------------------------------------------------------- one leaf, rebuilt */

static int rebuild_leaf(ol_partition_map *partition_map, ol_chunk *root, leaf_slot slot,
                        ol_chunk_span span, ol_error *error) {
    uint32_t name;
    int status = ol_chunk_array_allocate_leaf(partition_map, span, &name, error);
    if (status != OL_OK) return status;
    uint32_t *place = name_in(partition_map, root, slot), old = *place;
    const ol_chunk_array *source = named(partition_map, old);
    ol_chunk_array_copy(partition_map, named(partition_map, name), source, 0, source->count);
    ol_chunk_array_free(partition_map, old);
    *place = name;
    return OL_OK;
}

/* ----------------------------------------------------------------------------- room in branches */

/* Copies children to the end of a branch that has space for them.  `number` is where the first of
 * them begins. */
static void copy_children(ol_partition_map *partition_map, ol_chunk_array *target,
                          const ol_chunk_array *source, uint32_t from, uint32_t number) {
    uint32_t length = source->count - from;
    uint32_t *numbers = ol_partition_map_numbers(target);
    memcpy(target->chunk + target->count, source->chunk + from, length * sizeof(ol_chunk));
    memcpy(numbers + target->count, ol_partition_map_numbers(source) + from,
           length * sizeof(uint32_t));
    numbers[target->count] = number;
    target->count += length;
    OL_ASSERT(target->count <= target->capacity);
    partition_map->moved += length;
}

/* Gives the branch that the root names another capacity, not below its count. */
static int resize_branch(ol_partition_map *partition_map, ol_chunk *root, uint32_t capacity,
                         ol_error *error) {
    uint32_t name;
    int status = ol_chunk_array_allocate(partition_map, capacity, OL_CHUNKS_BRANCH, &name, error);
    if (status != OL_OK) return status;
    copy_children(partition_map, named(partition_map, name), named(partition_map, root->run), 0,
                  0);
    ol_chunk_array_free(partition_map, root->run);
    root->run = name;
    return OL_OK;
}

static int widen(ol_partition_map *partition_map, ol_chunk *root, ol_error *error) {
    const ol_chunk_array *branch = named(partition_map, root->run);
    return branch->count < branch->capacity
               ? OL_OK
               : resize_branch(partition_map, root, branch->count + 1, error);
}

static void insert_child(ol_partition_map *partition_map, ol_chunk_array *branch, uint32_t at,
                         uint32_t number, uint32_t name) {
    uint32_t *numbers = ol_partition_map_numbers(branch), length = branch->count - at;
    OL_ASSERT(branch->count < branch->capacity && at != 0);
    memmove(branch->chunk + at + 1, branch->chunk + at, length * sizeof(ol_chunk));
    memmove(numbers + at + 1, numbers + at, length * sizeof(uint32_t));
    branch->chunk[at] = (ol_chunk){.run = name};
    numbers[at] = number;
    branch->count++;
    partition_map->moved += length;
}

static void remove_child(ol_partition_map *partition_map, ol_chunk_array *branch, uint32_t at) {
    uint32_t *numbers = ol_partition_map_numbers(branch), length = --branch->count - at;
    memmove(branch->chunk + at, branch->chunk + at + 1, length * sizeof(ol_chunk));
    memmove(numbers + at, numbers + at + 1, length * sizeof(uint32_t));
    numbers[0] = 0;
    partition_map->moved += length;
}

/* Divides a full child, itself a branch, of a branch that has space for one more. */
static int divide_branch(ol_partition_map *partition_map, uint32_t parent, uint32_t at,
                         ol_error *error) {
    enum { LEFT = OL_CHUNKS_BRANCH_MAX / 2 };
    uint32_t name;
    int status = ol_chunk_array_allocate(partition_map, OL_CHUNKS_BRANCH_MAX - LEFT,
                                         OL_CHUNKS_BRANCH, &name, error);
    if (status != OL_OK) return status;
    ol_chunk_array *branch = named(partition_map, parent),
                   *left = named(partition_map, branch->chunk[at].run);
    uint32_t number = ol_partition_map_numbers(left)[LEFT];
    copy_children(partition_map, named(partition_map, name), left, LEFT, 0);
    left->count = LEFT;
    insert_child(partition_map, branch, at + 1, number, name);
    return OL_OK;
}

/* Puts a branch above what the root names. */
static int add_level(ol_partition_map *partition_map, ol_chunk *root, ol_error *error) {
    if (depth_of(partition_map, root) == OL_CHUNKS_DEPTH_MAX) {
        return ol_fail(error, OL_LIMIT, "the tree of a topic's partition numbers is too deep");
    }
    uint32_t name;
    int status = ol_chunk_array_allocate(partition_map, 2, OL_CHUNKS_BRANCH, &name, error);
    if (status != OL_OK) return status;
    ol_chunk_array *branch = named(partition_map, name);
    branch->chunk[0] = *root;
    branch->count = 1;
    *root = (ol_chunk){.run = name};
    return OL_OK;
}

/* Removes the root's branches that have a single child. */
static void drop_levels(ol_partition_map *partition_map, ol_chunk *root) {
    while (is_branch(partition_map, root->run) && named(partition_map, root->run)->count == 1) {
        uint32_t name = root->run;
        *root = named(partition_map, name)->chunk[0];
        ol_chunk_array_free(partition_map, name);
    }
}

/* Like make_room, below a branch that is not full itself. */
static int make_room_below(ol_partition_map *partition_map, ol_chunk *root, uint32_t number,
                           ol_error *error) {
    uint32_t at = child_of(named(partition_map, root->run), number);
    ol_chunk child = named(partition_map, root->run)->chunk[at];
    if (!is_branch(partition_map, child.run)) return widen(partition_map, root, error);
    if (named(partition_map, child.run)->count == OL_CHUNKS_BRANCH_MAX) {
        int status = widen(partition_map, root, error);
        if (status == OL_OK) status = divide_branch(partition_map, root->run, at, error);
        if (status != OL_OK) return status;
        at = child_of(named(partition_map, root->run), number);
        child = named(partition_map, root->run)->chunk[at];
    }
    int status = make_room_below(partition_map, &child, number, error);
    named(partition_map, root->run)->chunk[at] = child;
    return status;
}

/* Makes space for one more child in the branch above the leaf of a number; this branch may be a new
 * one.  A failure may change the arrays, but not the chunks; the caller then drops the levels. */
static int make_room(ol_partition_map *partition_map, ol_chunk *root, uint32_t number,
                     ol_error *error) {
    const ol_chunk_array *array = named(partition_map, root->run);
    if (array->form != OL_CHUNKS_BRANCH || array->count == OL_CHUNKS_BRANCH_MAX) {
        int status = add_level(partition_map, root, error);
        if (status != OL_OK) return status;
    }
    return make_room_below(partition_map, root, number, error);
}

/* ------------------------------------------------------------------------------ leaves, divided */

/* Returns the place in a leaf after the first half of its chunks. */
static uint32_t middle_of(const ol_chunk_array *leaf) {
    uint32_t half = leaf->living / 2, place = 0;
    for (uint32_t seen = 0; seen < half; place++) seen += leaf->chunk[place].bitmap != 0;
    return place;
}

/* Divides a leaf of a branch that has space for one more. */
static int divide_leaf(ol_partition_map *partition_map, leaf_slot slot, ol_error *error) {
    const ol_chunk_array *leaf = named(partition_map, *name_in(partition_map, NULL, slot));
    uint32_t end = middle_of(leaf), begin = end, left_name, right_name;
    while (leaf->chunk[begin].bitmap == 0) begin++;
    ol_chunk_span left = ol_chunk_array_span(leaf), right = left;
    left.last = ol_chunk_array_number(leaf, end - 1);
    right.first = ol_chunk_array_number(leaf, begin);
    left.living = leaf->living / 2;
    right.living -= left.living;
    int status = ol_chunk_array_allocate_leaf(partition_map, left, &left_name, error);
    if (status != OL_OK) return status;
    status = ol_chunk_array_allocate_leaf(partition_map, right, &right_name, error);
    if (status != OL_OK) {
        ol_chunk_array_free(partition_map, left_name);
        return status;
    }
    uint32_t *place = name_in(partition_map, NULL, slot), old = *place;
    leaf = named(partition_map, old);
    ol_chunk_array_copy(partition_map, named(partition_map, left_name), leaf, 0, end);
    ol_chunk_array_copy(partition_map, named(partition_map, right_name), leaf, begin, leaf->count);
    ol_chunk_array_free(partition_map, old);
    *place = left_name;
    insert_child(partition_map, named(partition_map, slot.branch), slot.at + 1, right.first,
                 right_name);
    return OL_OK;
}

/* Adds a chunk before or after all others of a leaf, as a leaf of its own beside it. */
static int add_leaf(ol_partition_map *partition_map, leaf_slot slot, uint32_t number,
                    ol_chunk chunk, ol_error *error) {
    ol_chunk_span one = ol_chunk_span_of_one(number);
    uint32_t name;
    int status = ol_chunk_array_allocate_leaf(partition_map, one, &name, error);
    if (status != OL_OK) return status;
    ol_chunk_array_put(partition_map, named(partition_map, name), number, chunk);
    uint32_t *place = name_in(partition_map, NULL, slot);
    ol_chunk_span beside = ol_chunk_array_span(named(partition_map, *place));
    if (number < beside.first) {
        uint32_t new_name = name;
        name = *place;
        *place = new_name;
        number = beside.first;
    }
    insert_child(partition_map, named(partition_map, slot.branch), slot.at + 1, number, name);
    return OL_OK;
}

/* ----------------------------------------------------------------------------- joining, pruning */

/* Returns whether two neighbouring leaves should be joined. */
static bool should_join(const ol_chunk_array *left, const ol_chunk_array *right) {
    ol_chunk_span span = {(uint64_t)left->living + right->living, ol_chunk_array_number(left, 0),
                          ol_chunk_array_number(right, right->count - 1)};
    return ol_chunk_span_fits(span) && (span.living <= JOIN_CHUNKS_MAX ||
                                        ol_chunk_span_form(span) == OL_CHUNKS_DENSE);
}

/* Sets the name of a leaf that holds what two neighbouring leaves hold; it may be the left one. */
static bool join_leaves(ol_partition_map *partition_map, uint32_t left_name, uint32_t right_name,
                        uint32_t *name) {
    ol_error ignored;
    const ol_chunk_array *left = named(partition_map, left_name),
                         *right = named(partition_map, right_name);
    if (!should_join(left, right)) return false;
    ol_chunk_span span = ol_chunk_span_join(ol_chunk_array_span(left), ol_chunk_array_span(right));
    *name = left_name;
    if (!ol_chunk_array_has_room_for(left, span)) {
        if (ol_chunk_array_allocate_leaf(partition_map, span, name, &ignored) != OL_OK) {
            return false;
        }
        left = named(partition_map, left_name);
        ol_chunk_array_copy(partition_map, named(partition_map, *name), left, 0, left->count);
        ol_chunk_array_free(partition_map, left_name);
    }
    right = named(partition_map, right_name);
    ol_chunk_array_copy(partition_map, named(partition_map, *name), right, 0, right->count);
    ol_chunk_array_free(partition_map, right_name);
    return true;
}

/* Does the same for branches.  `number` is where the right one begins. */
static bool join_branches(ol_partition_map *partition_map, uint32_t left_name, uint32_t right_name,
                          uint32_t number, uint32_t *name) {
    ol_error ignored;
    uint32_t count = named(partition_map, left_name)->count +
                     named(partition_map, right_name)->count;
    if (count > JOIN_CHILDREN_MAX ||
        ol_chunk_array_allocate(partition_map, count, OL_CHUNKS_BRANCH, name, &ignored) != OL_OK) {
        return false;
    }
    ol_chunk_array *joined = named(partition_map, *name);
    copy_children(partition_map, joined, named(partition_map, left_name), 0, 0);
    copy_children(partition_map, joined, named(partition_map, right_name), 0, number);
    ol_chunk_array_free(partition_map, left_name);
    ol_chunk_array_free(partition_map, right_name);
    return true;
}

/* Joins the child at a place of a branch with the next one, if they are small.  A failed allocation
 * leaves them apart; that costs memory and nothing else. */
static void join_at(ol_partition_map *partition_map, uint32_t branch_name, uint32_t at) {
    const ol_chunk_array *branch = named(partition_map, branch_name);
    if (at + 1 >= branch->count) return;
    uint32_t left = branch->chunk[at].run, right = branch->chunk[at + 1].run, name,
             number = ol_partition_map_numbers(branch)[at + 1];
    bool joined = is_branch(partition_map, left)
                      ? join_branches(partition_map, left, right, number, &name)
                      : join_leaves(partition_map, left, right, &name);
    if (!joined) return;
    named(partition_map, branch_name)->chunk[at].run = name;
    remove_child(partition_map, named(partition_map, branch_name), at + 1);
}

/* Joins arrays that have become small on the path to a number, from the leaf up. */
static void join_below(ol_partition_map *partition_map, ol_chunk *root, uint32_t number) {
    if (!is_branch(partition_map, root->run)) return;
    uint32_t at = child_of(named(partition_map, root->run), number);
    ol_chunk child = named(partition_map, root->run)->chunk[at];
    join_below(partition_map, &child, number);
    named(partition_map, root->run)->chunk[at] = child;
    join_at(partition_map, root->run, at);
    if (at != 0) join_at(partition_map, root->run, at - 1);
    const ol_chunk_array *branch = named(partition_map, root->run);
    ol_error ignored;
    if (ol_partition_map_units(branch->count, OL_CHUNKS_BRANCH) * 2 <
        ol_partition_map_units(branch->capacity, OL_CHUNKS_BRANCH)) {
        (void)!resize_branch(partition_map, root, branch->count, &ignored);
    }
}

static void join(ol_partition_map *partition_map, ol_chunk *root, uint32_t number) {
    join_below(partition_map, root, number);
    drop_levels(partition_map, root);
}

/* Frees the leaf of a number, which is empty, and the branches that are left without a child. */
static void prune(ol_partition_map *partition_map, ol_chunk *root, uint32_t number) {
    ol_chunk_array *array = named(partition_map, root->run);
    if (array->form == OL_CHUNKS_BRANCH) {
        uint32_t at = child_of(array, number);
        prune(partition_map, &array->chunk[at], number);
        if (array->chunk[at].run == 0) remove_child(partition_map, array, at);
    }
    if (array->count != 0) return;
    ol_chunk_array_free(partition_map, root->run);
    *root = (ol_chunk){0};
}

/* Rebuilds or divides a leaf that takes more than twice what its chunks need.  A failed allocation
 * leaves it as it is; that costs memory and nothing else. */
static void shrink(ol_partition_map *partition_map, ol_chunk *root, uint32_t number) {
    ol_error ignored;
    leaf_slot slot = slot_of(partition_map, root, number);
    const ol_chunk_array *leaf = named(partition_map, *name_in(partition_map, root, slot));
    if (ol_partition_map_units(leaf->living, OL_CHUNKS_SPARSE) * 2 >=
        ol_partition_map_units(leaf->capacity, leaf->form)) {
        return;
    }
    ol_chunk_span span = ol_chunk_array_span(leaf);
    if (ol_chunk_span_fits(span)) {
        (void)!rebuild_leaf(partition_map, root, slot, span, &ignored);
        return;
    }
    int status = make_room(partition_map, root, number, &ignored);
    if (status == OL_OK) {
        status = divide_leaf(partition_map, slot_of(partition_map, root, number), &ignored);
    }
    if (status != OL_OK) return;
    shrink(partition_map, root, span.first);
    shrink(partition_map, root, span.last);
}

/* ----------------------------------------------------------------------------- adding, removing */

/* Puts a chunk into a leaf that has space for it.  Once a dense leaf has no empty place, it is
 * joined with neighbours of the same kind, so a range that was filled in any order ends as a few
 * large leaves. */
static void put(ol_partition_map *partition_map, ol_chunk *root, leaf_slot slot, uint32_t number,
                ol_chunk chunk) {
    ol_chunk_array *leaf = named(partition_map, *name_in(partition_map, root, slot));
    ol_chunk_array_put(partition_map, leaf, number, chunk);
    if (leaf->form == OL_CHUNKS_DENSE && leaf->living == leaf->count) {
        join(partition_map, root, number);
    }
}

/* Adds a chunk to an array or a tree.  A leaf with too many chunks is divided; the halves then have
 * space. */
static int add(ol_partition_map *partition_map, ol_chunk *root, uint32_t number, ol_chunk chunk,
               ol_error *error) {
    for (;;) {
        leaf_slot slot = slot_of(partition_map, root, number);
        const ol_chunk_array *leaf = named(partition_map, *name_in(partition_map, root, slot));
        if (ol_chunk_array_has_room(leaf, number)) {
            put(partition_map, root, slot, number, chunk);
            return OL_OK;
        }
        ol_chunk_span present = ol_chunk_array_span(leaf),
                      span = ol_chunk_span_join(present, ol_chunk_span_of_one(number));
        if (ol_chunk_span_fits(span)) {
            int status = rebuild_leaf(partition_map, root, slot, span, error);
            if (status == OL_OK) put(partition_map, root, slot, number, chunk);
            return status;
        }
        int status = make_room(partition_map, root, number, error);
        if (status != OL_OK) return status;
        slot = slot_of(partition_map, root, number);
        if (number < present.first || number > present.last) {
            return add_leaf(partition_map, slot, number, chunk, error);
        }
        status = divide_leaf(partition_map, slot, error);
        if (status != OL_OK) return status;
    }
}

int ol_chunk_tree_add(ol_partition_map *partition_map, ol_chunk *root, uint32_t number,
                      ol_chunk chunk, ol_error *error) {
    int status = add(partition_map, root, number, chunk, error);
    if (status != OL_OK) drop_levels(partition_map, root);
    return status;
}

int ol_chunk_tree_reserve(ol_partition_map *partition_map, ol_chunk *root, ol_chunk_span more,
                          ol_error *error) {
    const ol_chunk_array *array = named(partition_map, root->run);
    if (array->form == OL_CHUNKS_BRANCH) return OL_OK;
    ol_chunk_span span = ol_chunk_span_join(ol_chunk_array_span(array), more);
    if (ol_chunk_array_has_room_for(array, span) || !ol_chunk_span_fits(span)) return OL_OK;
    return rebuild_leaf(partition_map, root, (leaf_slot){0, 0}, span, error);
}

void ol_chunk_tree_remove(ol_partition_map *partition_map, ol_chunk *root, uint32_t number) {
    leaf_slot slot = slot_of(partition_map, root, number);
    ol_chunk_array *leaf = named(partition_map, *name_in(partition_map, root, slot));
    ol_chunk_array_take(partition_map, leaf, number);
    if (leaf->living == 0) {
        prune(partition_map, root, number);
    } else {
        shrink(partition_map, root, number);
    }
    if (root->run != 0) join(partition_map, root, number);
}
