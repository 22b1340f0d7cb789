/* wire/api.c: the list of APIs as data. */
#include "wire/api.h"

#include "wire/tables.h"

#define ENTRY(api_key, api, from) \
    {api_key, from, #api, &ol_message_##api##Request, &ol_message_##api##Response},
static const ol_api apis[] = {OL_WIRE_APIS(ENTRY)};

enum {
    API_COUNT = sizeof apis / sizeof apis[0],
    KEY_MAX = 60,
};

/* One more than the index of the API; 0: no such API. */
#define POSITION(api_key, api, from) [api_key] = POSITION_OF_##api + 1,
#define NUMBER(api_key, api, from) POSITION_OF_##api,
enum { OL_WIRE_APIS(NUMBER) };
static const uint8_t positions[KEY_MAX + 1] = {OL_WIRE_APIS(POSITION)};

const ol_api *ol_api_of_key(int16_t key) {
    if (key < 0 || key > KEY_MAX || positions[key] == 0) return NULL;
    return &apis[positions[key] - 1];
}

size_t ol_api_count(void) { return API_COUNT; }

const ol_api *ol_api_at(size_t index) {
    OL_ASSERT(index < API_COUNT);
    return &apis[index];
}
