/* wire/api: the requests of Kafka's protocol that the server knows, and the schemas of both sides.
 *
 * Everything here is constant.  Locks: none.
 */
#ifndef OL_WIRE_API_H
#define OL_WIRE_API_H

#include "format/schema.h"

/* ApiVersions: its responses always have header version 0, and it is answered even in an
 * unsupported version (docs/format/wire.md §11.1). */
enum { OL_API_VERSIONS = 18 };

/* The schemas of requests and answers have the same versions.  The versions from `advertised_from`
 * on are advertised; older ones are used by clients that do not ask for the versions. */
typedef struct ol_api {
    int16_t key;
    int16_t advertised_from;
    const char *name;
    const ol_schema *request;
    const ol_schema *response;
} ol_api;

/* NULL: no such API. */
const ol_api *ol_api_of_key(int16_t key);

/* Return the number of APIs, and each API, in ascending order of their keys. */
size_t ol_api_count(void);
const ol_api *ol_api_at(size_t index);

static inline bool ol_api_has_version(const ol_api *api, int16_t version) {
    return version >= api->request->first_version && version <= api->request->last_version;
}

#endif
