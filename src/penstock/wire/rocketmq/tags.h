/* The tag of a message in its properties, and its hash: what a queue's table keeps of it. */
#ifndef PENSTOCK_TAGS_H
#define PENSTOCK_TAGS_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define NAME_END 1
#define VALUE_END 2

static uint32_t hash_unit(uint32_t hash, uint32_t unit)
{
    return 31 * hash + unit;
}

/* Java's String.hashCode of a text in UTF-8 that was found sound. */
static int64_t java_hash(const unsigned char *at, const unsigned char *end)
{
    uint32_t hash = 0;
    while (at < end) {
        uint32_t code = *at++;
        int more = code < 0xC0 ? 0 : code < 0xE0 ? 1 : code < 0xF0 ? 2 : 3;
        if (more)
            code &= 0x3F >> more;
        for (; more && at < end; more--)
            code = code << 6 | (*at++ & 0x3F);
        if (code >= 0x10000) {
            hash = hash_unit(hash, 0xD800 + ((code - 0x10000) >> 10));
            code = 0xDC00 + ((code - 0x10000) & 0x3FF);
        }
        hash = hash_unit(hash, code);
    }
    return (int32_t)hash;
}

/* The hash of the first property TAGS, 0 where there is none. */
static int64_t tag_in(const unsigned char *at, const unsigned char *end)
{
    static const char marker[] = {'T', 'A', 'G', 'S', NAME_END};
    while (at < end) {
        const unsigned char *value_end = memchr(at, VALUE_END, (size_t)(end - at));
        if (value_end == NULL)
            value_end = end;
        if (value_end - at >= (ptrdiff_t)sizeof marker && memcmp(at, marker, sizeof marker) == 0)
            return java_hash(at + sizeof marker, value_end);
        at = value_end + 1;
    }
    return 0;
}

#endif
