/* Rows of a queue's table, read where they lie: see ROW in rowfiles.py. */
#ifndef PENSTOCK_ROWS_H
#define PENSTOCK_ROWS_H

#include <stdint.h>

enum { ROW_BYTES = 48, BASE = 8, LENGTH = 32, COUNT = 36 }; /* where in a row */

static inline int64_t little(const unsigned char *at, int bytes)
{
    uint64_t value = 0;
    for (int index = bytes - 1; index >= 0; index--)
        value = value << 8 | at[index];
    return bytes == 4 ? (int64_t)(int32_t)value : (int64_t)value;
}

/* Whether a row is known to begin with an offset; any does for -1. */
static inline int begins_with(const unsigned char *row, int64_t offset)
{
    return offset < 0 || (little(row + BASE, 8) == offset && little(row + COUNT, 4) > 0);
}

#endif
