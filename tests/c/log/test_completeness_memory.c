/* Each allocation of an open fails once, of a directory that is whole, that lost a segment, or its manifest, on which a broker worked, or
 * whose loss is accepted (docs/durability.md, "Complete or not"). */
#include "completeness_fixture.h"
#include "fault_memory.h"

enum { BATCHES = 58 };

typedef enum harm { HARM_NONE, HARM_LOSS, HARM_OF_MANIFEST, HARM_BESIDE_BROKER, HARM_ACCEPTED, HARMS } harm;

static void harm_scene(place *p, harm kind) {
    scene_make(p, BATCHES, kind == HARM_NONE);
    p->options.clean = kind == HARM_NONE;
    if (kind == HARM_OF_MANIFEST) scene_cut(p, OL_MANIFEST_FILE, 100);
    else if (kind != HARM_NONE) scene_remove_segment(p, 16);
    if (kind == HARM_BESIDE_BROKER) checkpoint_as_broker(p, BATCHES, 16);
}

static void check_harm(place *p, harm kind) {
    if (kind == HARM_NONE) CHECK_COMPLETE(p);
    else if (kind == HARM_OF_MANIFEST) CHECK_FINDINGS(p, {false, 0, INT64_MAX});
    else CHECK_FINDINGS(p, {true, 16, 32});
}

/* Memory that runs out during an open is reported as such; the next open comes to the verdict of the first. */
OL_TEST(an_open_without_memory_judges_nothing) {
    int64_t failed = 0;
    for (harm kind = HARM_NONE; kind < HARMS; kind++) {
        bool fired = true;
        for (int64_t at = 1; fired; at++) {
            place p;
            ol_error error;
            ol_log *log = NULL;
            ol_log_recovery recovery;
            harm_scene(&p, kind);
            p.options.accept_loss = kind == HARM_ACCEPTED;
            fault_memory_at(at);
            int status = ol_log_open(&p.options, &log, &recovery, &error);
            fired = fault_memory_calls() >= at;
            fault_memory_at(0);
            p.options.accept_loss = false;
            if (status == OL_OK) {
                ol_log_abandon(log);
            } else {
                OL_CHECK_INT(status, OL_NO_MEMORY);
                check_harm(&p, kind);
                failed++;
            }
            fixture_remove(p.root);
        }
    }
    printf("  %" PRId64 " opens failed\n", failed);
    OL_CHECK(failed > 200);
}

OL_TEST_MAIN()
