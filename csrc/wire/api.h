/* wire/api: the APIs of Kafka's protocol that the server supports, and the schemas of their
 * requests and responses.
 *
 * Everything here is constant, so no locks are needed.
 */
#ifndef OL_WIRE_API_H
#define OL_WIRE_API_H

#include "format/schema.h"

/* The key of ApiVersions.  Its responses always have header version 0, and the server answers it
 * even if its version is not supported (docs/format/wire.md §11.1). */
enum { OL_API_VERSIONS = 18 };

/* The schemas of the request and of the response have the same versions.  The server advertises the
 * versions from `advertised_from` on.  It also accepts older versions, because clients that do not
 * ask for the supported versions use them. */
typedef struct ol_api {
    int16_t key;
    int16_t advertised_from;
    const char *name;
    const ol_schema *request;
    const ol_schema *response;
} ol_api;

/* Returns the API with this key, or NULL if the server does not support it. */
const ol_api *ol_api_of_key(int16_t key);

/* Return the number of APIs, and the API at an index in ascending order of their keys. */
size_t ol_api_count(void);
const ol_api *ol_api_at(size_t index);

static inline bool ol_api_has_version(const ol_api *api, int16_t version) {
    return version >= api->request->first_version && version <= api->request->last_version;
}

#endif
