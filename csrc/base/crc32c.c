/* base/crc32c.c: the portable checksums, and the choice of an implementation. */
#include "base/crc32c.h"

#include <string.h>

#include "base/crc32c_hardware.h"

/* Both polynomials are used reflected: bit 31 of a value is the coefficient of x^0. */
#define CASTAGNOLI 0x82f63b78u
#define IEEE 0xedb88320u

/* table[k][b]: the contribution of byte b to the CRC state when k more bytes follow it ("slicing by
 * 8"). */
typedef struct slicing {
    uint32_t table[8][256];
} slicing;

static slicing castagnoli_slicing;
static slicing ieee_slicing;
static ol_crc32c_function chosen;
static const char *chosen_name;

static void slicing_fill(slicing *s, uint32_t polynomial) {
    for (uint32_t b = 0; b < 256; b++) {
        uint32_t state = b;
        for (int bit = 0; bit < 8; bit++) state = (state >> 1) ^ (polynomial & (~(state & 1) + 1));
        s->table[0][b] = state;
    }
    for (size_t k = 1; k < 8; k++) {
        for (uint32_t b = 0; b < 256; b++) {
            uint32_t before = s->table[k - 1][b];
            s->table[k][b] = (before >> 8) ^ s->table[0][before & 0xff];
        }
    }
}

static uint32_t slicing_extend(const slicing *s, uint32_t crc, const uint8_t *p, size_t size) {
    uint32_t state = ~crc;
    for (; size >= 8; size -= 8, p += 8) {
        uint64_t word;
        memcpy(&word, p, sizeof word);
        word ^= state;
        state = s->table[7][word & 0xff] ^ s->table[6][(word >> 8) & 0xff] ^
                s->table[5][(word >> 16) & 0xff] ^ s->table[4][(word >> 24) & 0xff] ^
                s->table[3][(word >> 32) & 0xff] ^ s->table[2][(word >> 40) & 0xff] ^
                s->table[1][(word >> 48) & 0xff] ^ s->table[0][word >> 56];
    }
    for (; size > 0; size--, p++) state = (state >> 8) ^ s->table[0][(state ^ *p) & 0xff];
    return ~state;
}

static uint32_t crc32c_tables(uint32_t crc, const void *data, size_t size) {
    return slicing_extend(&castagnoli_slicing, crc, data, size);
}

uint32_t ol_crc32c_multiply(uint32_t a, uint32_t b) {
    uint32_t product = 0;
    for (uint32_t bit = 0x80000000u; bit != 0; bit >>= 1) {
        if (a & bit) product ^= b;
        b = (b >> 1) ^ (CASTAGNOLI & (~(b & 1) + 1));
    }
    return product;
}

uint32_t ol_crc32c_power(uint64_t bits) {
    uint32_t result = 0x80000000u, square = 0x40000000u; /* x^0 and x^1 */
    for (; bits != 0; bits >>= 1) {
        if (bits & 1) result = ol_crc32c_multiply(result, square);
        square = ol_crc32c_multiply(square, square);
    }
    return result;
}

/* Runs when the library is loaded, before any of its functions can be called, so that the hot path
 * needs no check. */
__attribute__((constructor)) static void choose(void) {
    slicing_fill(&castagnoli_slicing, CASTAGNOLI);
    slicing_fill(&ieee_slicing, IEEE);
    chosen = ol_crc32c_hardware(&chosen_name);
    if (chosen == NULL) {
        chosen = crc32c_tables;
        chosen_name = "tables";
    }
}

uint32_t ol_crc32c(const void *data, size_t size) { return chosen(0, data, size); }

uint32_t ol_crc32c_extend(uint32_t crc, const void *data, size_t size) {
    return chosen(crc, data, size);
}

const char *ol_crc32c_implementation(void) { return chosen_name; }

ol_crc32c_function ol_crc32c_by_name(const char *name) {
    if (strcmp(name, "tables") == 0) return crc32c_tables;
    return strcmp(name, chosen_name) == 0 ? chosen : NULL;
}

uint32_t ol_crc32(const void *data, size_t size) {
    return slicing_extend(&ieee_slicing, 0, data, size);
}
