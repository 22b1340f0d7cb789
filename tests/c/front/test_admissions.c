/* front/admissions: beside a plain array; names that share a hash; the limit and what is forgotten; memory that runs out. */
#include "front/admissions.h"

#include "base/bytes.h"
#include "colliding_names.h"
#include "fault_memory.h"

enum { GROUPS = 12, MEMBERS = 4, GENERATIONS = 3, INSTANCES = 3, SEED = 4711, STEPS = 40000 };
enum { KEYS = GROUPS * (MEMBERS + 1) * GENERATIONS * INSTANCES };

typedef struct plain {
    bool is_there;
    double heard_at;            /* below 0: not yet */
} plain;

static plain model[KEYS];
static size_t admitted;

/* The parts of a key, by its place in the model. */
typedef struct parts {
    size_t group, member, generation, instance;
} parts;

static parts parts_of(size_t place) {
    parts found;
    found.group = place % GROUPS, place /= GROUPS;
    found.member = place % (MEMBERS + 1), place /= MEMBERS + 1;
    found.generation = place % GENERATIONS, place /= GENERATIONS;
    found.instance = place;
    return found;
}

static bool has_member(size_t place) { return parts_of(place).member > 0; }

typedef struct name_bytes {
    uint8_t group[COLLIDING_SIZE], member[COLLIDING_SIZE];
} name_bytes;

/* Half of the groups share a hash, and so do half of the members.  Member 0 is none. */
static ol_slice group_name(size_t group, name_bytes *names) {
    if (group % 2 == 0) return colliding_name(SEED, group, names->group);
    return ol_slice_of(names->group, (size_t)snprintf((char *)names->group, COLLIDING_SIZE, "group-%zu", group));
}

static ol_slice member_name(size_t member, name_bytes *names) {
    if (member == 0) return ol_slice_of("", 0);
    if (member % 2 == 0) return colliding_name(SEED, member, names->member);
    return ol_slice_of(names->member, (size_t)snprintf((char *)names->member, COLLIDING_SIZE, "member-%zu", member));
}

static ol_admission_key key_of(size_t place, name_bytes *names) {
    parts each = parts_of(place);
    ol_slice instances[INSTANCES] = {ol_slice_null(), ol_slice_of("", 0), ol_slice_of("instance", 8)};
    return (ol_admission_key){.group = group_name(each.group, names),
                              .member_id = member_name(each.member, names),
                              .group_instance_id = instances[each.instance],
                              .generation = (int32_t)each.generation - 1};
}

static ol_admission *find(const ol_admissions *admissions, size_t place) {
    name_bytes names;
    ol_admission_key key = key_of(place, &names);
    return ol_admissions_find(admissions, &key);
}

static void check_all(const ol_admissions *admissions) {
    for (size_t place = 0; place < KEYS; place++) {
        OL_CHECK_INT(find(admissions, place) != NULL, model[place].is_there);
    }
    OL_CHECK_INT(admissions->entries.count, admitted);
    size_t memberless = 0;
    for (size_t place = 0; place < KEYS; place++) memberless += model[place].is_there && !has_member(place);
    OL_CHECK_INT(admissions->memberless, memberless);
}

static void forget_model(size_t place) {
    admitted -= model[place].is_there;
    model[place] = (plain){.heard_at = -1};
}

static void reset_model(void) {
    for (size_t place = 0; place < KEYS; place++) model[place] = (plain){.heard_at = -1};
    admitted = 0;
}

/* Groups of which no member is admitted are forgotten. */
static void forget_memberless(void) {
    bool has[GROUPS] = {false};
    for (size_t place = 0; place < KEYS; place++) {
        has[parts_of(place).group] |= model[place].is_there && has_member(place);
    }
    for (size_t place = 0; place < KEYS; place++) {
        if (!has[parts_of(place).group]) forget_model(place);
    }
}

static void add(ol_admissions *admissions, size_t place) {
    name_bytes names;
    ol_error error;
    ol_admission_key key = key_of(place, &names);
    int status = ol_admissions_add(admissions, &key, &error);
    if (!model[place].is_there && admitted >= admissions->limit) forget_memberless();
    bool is_full = !model[place].is_there && admitted >= admissions->limit;
    OL_CHECK_INT(status, is_full ? OL_LIMIT : OL_OK);
    if (is_full) return;
    admitted += !model[place].is_there;
    model[place].is_there = true;
}

/* The members that a revocation hands over: each one that was heard of, with its latest times. */
typedef struct heard_members {
    double at[MEMBERS + 1][GENERATIONS * INSTANCES];
    size_t counts[MEMBERS + 1];
} heard_members;

static void note(void *context, ol_slice member_id, double at) {
    heard_members *heard = context;
    name_bytes names;
    size_t member = 1;
    while (member <= MEMBERS && !ol_slice_equal(member_name(member, &names), member_id)) member++;
    OL_CHECK(member <= MEMBERS && heard->counts[member] < GENERATIONS * INSTANCES);
    heard->at[member][heard->counts[member]++] = at;
}

static void revoke(ol_admissions *admissions, size_t group) {
    name_bytes names;
    heard_members heard = {0};
    ol_admissions_revoke(admissions, group_name(group, &names), note, &heard);
    for (size_t place = 0; place < KEYS; place++) {
        if (parts_of(place).group != group) continue;
        size_t member = parts_of(place).member;
        if (model[place].is_there && member > 0 && model[place].heard_at >= 0) {
            size_t i = 0;
            while (i < heard.counts[member] && heard.at[member][i] != model[place].heard_at) i++;
            OL_CHECK(i < heard.counts[member]);
            heard.at[member][i] = heard.at[member][--heard.counts[member]];
        }
        forget_model(place);
    }
    for (size_t member = 1; member <= MEMBERS; member++) OL_CHECK_INT(heard.counts[member], 0);
}

static bool is_chosen(void *context, ol_slice group) {
    name_bytes names;
    size_t number = 0;
    while (!ol_slice_equal(group_name(number, &names), group)) number++;
    return (*(uint64_t *)context >> number & 1) != 0;
}

static void revoke_some(ol_admissions *admissions) {
    uint64_t chosen = ol_test_random() & ol_test_random();
    ol_admissions_revoke_if(admissions, is_chosen, &chosen);
    for (size_t place = 0; place < KEYS; place++) {
        if ((chosen >> parts_of(place).group & 1) != 0) forget_model(place);
    }
}

static void play(size_t limit) {
    ol_admissions admissions = {.seed = SEED, .limit = limit, .counts = {.seed = SEED, .limit = GROUPS / 2}};
    reset_model();
    for (int step = 0; step < STEPS; step++) {
        size_t place = ol_test_below(KEYS);
        uint64_t way = ol_test_below(100);
        if (way < 60) {
            add(&admissions, place);
        } else if (way < 90) {
            ol_admission *found = find(&admissions, place);
            OL_CHECK_INT(found != NULL, model[place].is_there);
            if (found != NULL) ol_admission_hear(found, model[place].heard_at = step);
        } else if (way < 99) {
            revoke(&admissions, parts_of(place).group);
        } else {
            revoke_some(&admissions);
        }
        OL_CHECK_INT(find(&admissions, place) != NULL, model[place].is_there);
        if (step % 100 == 0) check_all(&admissions);
    }
    check_all(&admissions);
    ol_admissions_free(&admissions);
}

OL_TEST(requests_are_admitted_and_revoked) { play(SIZE_MAX); }

OL_TEST(beyond_the_limit_those_without_members_are_forgotten) {
    play(60);
    play(7);
    play(1);
    play(0);
}

OL_TEST(a_full_set_of_members_admits_again_when_one_goes) {
    ol_admissions admissions = {.seed = SEED, .limit = MEMBERS};
    reset_model();
    size_t full[MEMBERS];
    for (size_t member = 1; member <= MEMBERS; member++) add(&admissions, full[member - 1] = member * GROUPS + member);
    OL_CHECK_INT(admitted, MEMBERS);
    add(&admissions, 0);                /* of nobody */
    add(&admissions, GROUPS);           /* of another member */
    OL_CHECK_INT(admitted, MEMBERS);
    revoke(&admissions, parts_of(full[0]).group);
    add(&admissions, GROUPS);
    OL_CHECK_INT(admitted, MEMBERS);
    check_all(&admissions);
    ol_admissions_free(&admissions);
}

OL_TEST(an_admission_that_finds_no_memory_changes_nothing) {
    ol_admissions admissions = {.seed = SEED, .limit = SIZE_MAX};
    int refused = 0;
    reset_model();
    for (size_t place = 0; place < KEYS; place++) {
        name_bytes names;
        ol_error error;
        ol_admission_key key = key_of(place, &names);
        for (int64_t at = 1;; at++) {
            fault_memory_at(at);
            int status = ol_admissions_add(&admissions, &key, &error);
            fault_memory_at(0);
            if (status == OL_OK) break;
            OL_CHECK_INT(status, OL_NO_MEMORY);
            OL_CHECK(find(&admissions, place) == NULL);
            refused++;
        }
        model[place].is_there = true;
        admitted++;
    }
    check_all(&admissions);
    OL_CHECK(refused > KEYS);
    for (size_t group = 0; group < GROUPS; group++) revoke(&admissions, group);
    OL_CHECK_INT(admissions.groups.count + admissions.entries.count, 0);
    ol_admissions_free(&admissions);
}

OL_TEST_MAIN()
