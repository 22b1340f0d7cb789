/* front/heartbeat.c: answers a Heartbeat of an admitted member.  Its group has not changed, so the
 * answer has no error. */
#include "front/front_impl.h"

bool ol_front_heartbeat(ol_front *front, const ol_request_header *header, ol_slice body, double at,
                        ol_answers *answers) {
    const ol_value *request = ol_front_read(front, header, body);
    if (request == NULL || request[HEARTBEAT_MEMBER].number == 0) return false;
    ol_admission_key key = {.group = ol_value_slice(&request[HEARTBEAT_GROUP]),
                            .generation = (int32_t)request[HEARTBEAT_GENERATION].number,
                            .member_id = ol_value_slice(&request[HEARTBEAT_MEMBER]),
                            .group_instance_id = ol_value_slice(&request[HEARTBEAT_INSTANCE])};
    ol_admission *admission = ol_admissions_find(&front->admissions, &key);
    if (admission == NULL) return false;
    static const ol_value alive[BEATEN_WIDTH];
    size_t size = ol_front_write(front, header, alive, answers);
    if (size == 0) return false;
    ol_admission_hear(admission, at);
    answers->size += size;
    return true;
}
