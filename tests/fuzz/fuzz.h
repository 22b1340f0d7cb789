/* fuzz: what every fuzz target of this directory provides.
 *
 * Under clang libFuzzer drives LLVMFuzzerTestOneInput; elsewhere mutate.c does, from the target's own seeds and from the files of the
 * directories it is given.  A broken invariant ends the process (OL_ASSERT), as a sanitizer's finding does. */
#ifndef OL_FUZZ_H
#define OL_FUZZ_H

#include <stddef.h>
#include <stdint.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Sound inputs to start from, in hexadecimal; NULL ends the list. */
const char *const *ol_fuzz_seeds(void);

#endif
