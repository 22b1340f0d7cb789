/* wire/header: the headers of requests and responses (docs/format/wire.md §11.1).
 *
 * On the wire, the size of a message precedes its header.  The connection handles these four bytes
 * and does not pass them to the functions here.  Ownership: the client id points into the bytes of
 * the request.  The functions take no locks.
 */
#ifndef OL_WIRE_HEADER_H
#define OL_WIRE_HEADER_H

#include "wire/api.h"

typedef struct ol_request_header {
    const ol_api *api;          /* NULL: unknown */
    int16_t api_key;
    int16_t api_version;
    int32_t correlation_id;
    ol_slice client_id;         /* null is a value */
} ol_request_header;

enum { OL_RESPONSE_HEADER_MAX = 5 };

/* Reads the header of a request, and sets *used to the size of the header.  Unknown tags are
 * skipped.
 *
 * Fails with OL_CORRUPT if the header ends early.  Fails with OL_UNSUPPORTED if the server does not
 * support the API or its version.  The API key, the version and the correlation id are set even
 * then.  After OL_UNSUPPORTED a broker closes the connection, unless the API is ApiVersions.  It
 * answers ApiVersions in version 0, with the versions that it supports. */
int ol_request_header_read(ol_slice request, ol_request_header *header, size_t *used,
                           ol_error *error) OL_NODISCARD;

/* Writes the header of the response, and returns its size, which is at most
 * OL_RESPONSE_HEADER_MAX. */
size_t ol_response_header_write(const ol_request_header *header, uint8_t *bytes);

#endif
