/* Rows of a queue's table, read where they lie: see ROW in rowfiles.py. */
#ifndef PENSTOCK_ROWS_H
#define PENSTOCK_ROWS_H

#include <stdint.h>
#include <string.h>

#define IS_LITTLE (__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__)

enum { ROW_BYTES = 48, BASE = 8, LENGTH = 32, COUNT = 36 }; /* where in a row */

/* A number of 4 or 8 bytes. With one load: others may write to it meanwhile, and it is what was there before or after. */
static inline int64_t little(const unsigned char *at, int bytes)
{
    uint64_t eight;
    uint32_t four;
    if (bytes == 4) {
        memcpy(&four, at, 4);
        return (int32_t)(IS_LITTLE ? four : __builtin_bswap32(four));
    }
    memcpy(&eight, at, 8);
    return (int64_t)(IS_LITTLE ? eight : __builtin_bswap64(eight));
}

/* Whether a row is known to begin with an offset; any does for -1. */
static inline int begins_with(const unsigned char *row, int64_t offset)
{
    return offset < 0 || (little(row + BASE, 8) == offset && little(row + COUNT, 4) > 0);
}

#endif
