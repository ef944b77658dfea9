/* Rows of a queue's table, read where they lie: see ROW in rowfiles.py. */
#ifndef PENSTOCK_ROWS_H
#define PENSTOCK_ROWS_H

#include <stdint.h>

#define IS_LITTLE (__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__)

enum { ROW_BYTES = 48, BASE = 8, LENGTH = 32, COUNT = 36 }; /* where in a row */

/* A number of 4 or 8 bytes, which lies where such numbers do. With one load: others may write to it meanwhile, and it is
 * what was there before or after. */
static inline int64_t little(const unsigned char *at, int bytes)
{
    if (bytes == 4) {
        uint32_t four = __atomic_load_n((const uint32_t *)(const void *)at, __ATOMIC_RELAXED);
        return (int32_t)(IS_LITTLE ? four : __builtin_bswap32(four));
    }
    uint64_t eight = __atomic_load_n((const uint64_t *)(const void *)at, __ATOMIC_RELAXED);
    return (int64_t)(IS_LITTLE ? eight : __builtin_bswap64(eight));
}

/* Whether a row is known to begin with an offset; any does for -1. */
static inline int begins_with(const unsigned char *row, int64_t offset)
{
    return offset < 0 || (little(row + BASE, 8) == offset && little(row + COUNT, 4) > 0);
}

#endif
