/* wire/header.c: the bytes before the body of a message. */
#include "wire/header.h"

#include "base/bytes.h"

enum { FIXED_SIZE = 8 };    /* key, version, correlation id */

static int cut(ol_error *error, const char *part) {
    return ol_fail(error, OL_CORRUPT, "the request ends within its %s", part);
}

/* Client ids keep the two bytes of their size in every version. */
static const uint8_t *read_client_id(const uint8_t *p, const uint8_t *limit, ol_slice *client_id) {
    if (limit - p < 2) return NULL;
    int16_t size = ol_load_i16(p);
    p += 2;
    *client_id = ol_slice_null();
    if (size < 0) return p;
    if (limit - p < size) return NULL;
    *client_id = ol_slice_of(p, (size_t)size);
    return p + size;
}

static const uint8_t *pass_over_tags(const uint8_t *p, const uint8_t *limit) {
    uint32_t count, tag, size;
    p = ol_read_uvarint(p, limit, &count);
    for (; p != NULL && count > 0; count--) {
        p = ol_read_uvarint(p, limit, &tag);
        if (p != NULL) p = ol_read_uvarint(p, limit, &size);
        if (p == NULL || (size_t)(limit - p) < size) return NULL;
        p += size;
    }
    return p;
}

int ol_request_header_read(ol_slice request, ol_request_header *header, size_t *used,
                           ol_error *error) {
    const uint8_t *p = request.data, *limit = request.data + request.size;
    if (request.size < FIXED_SIZE) return cut(error, "header");
    *header = (ol_request_header){.api_key = ol_load_i16(p),
                                  .api_version = ol_load_i16(p + 2),
                                  .correlation_id = ol_load_i32(p + 4)};
    header->api = ol_api_of_key(header->api_key);
    if (header->api == NULL) {
        return ol_fail(error, OL_UNSUPPORTED, "API key %d is not supported", header->api_key);
    }
    if (!ol_api_has_version(header->api, header->api_version)) {
        return ol_fail(error, OL_UNSUPPORTED, "version %d of %s is not supported",
                       header->api_version, header->api->name);
    }
    p = read_client_id(p + FIXED_SIZE, limit, &header->client_id);
    if (p == NULL) return cut(error, "client id");
    if (header->api_version >= header->api->request->flexible_from) p = pass_over_tags(p, limit);
    if (p == NULL) return cut(error, "tags");
    *used = (size_t)(p - request.data);
    return OL_OK;
}

size_t ol_response_header_write(const ol_request_header *header, uint8_t *bytes) {
    ol_store_i32(bytes, header->correlation_id);
    /* Clients read the answer to ApiVersions before they know which versions the server
     * supports. */
    if (header->api_key == OL_API_VERSIONS) return 4;
    if (header->api_version < header->api->response->flexible_from) return 4;
    bytes[4] = 0;
    return 5;
}
