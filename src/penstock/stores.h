/* Integers as bytes, whatever the machine. Written out so that compilers make one store of them. */
#ifndef PENSTOCK_STORES_H
#define PENSTOCK_STORES_H

#include <stdint.h>

static inline void little2(unsigned char *at, uint32_t value)
{
    at[0] = (unsigned char)value, at[1] = (unsigned char)(value >> 8);
}

static inline void little4(unsigned char *at, uint32_t value)
{
    at[0] = (unsigned char)value, at[1] = (unsigned char)(value >> 8);
    at[2] = (unsigned char)(value >> 16), at[3] = (unsigned char)(value >> 24);
}

static inline void little8(unsigned char *at, uint64_t value)
{
    little4(at, (uint32_t)value), little4(at + 4, (uint32_t)(value >> 32));
}

static inline void big2(unsigned char *at, uint32_t value)
{
    at[0] = (unsigned char)(value >> 8), at[1] = (unsigned char)value;
}

static inline void big4(unsigned char *at, uint32_t value)
{
    at[0] = (unsigned char)(value >> 24), at[1] = (unsigned char)(value >> 16);
    at[2] = (unsigned char)(value >> 8), at[3] = (unsigned char)value;
}

static inline void big8(unsigned char *at, uint64_t value)
{
    big4(at, (uint32_t)(value >> 32)), big4(at + 4, (uint32_t)value);
}

static inline uint32_t from_big4(const unsigned char *at)
{
    return (uint32_t)at[0] << 24 | (uint32_t)at[1] << 16 | (uint32_t)at[2] << 8 | at[3];
}

#endif
