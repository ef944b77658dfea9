/* The JSON header of a request as RocketMQ's clients write it, read where it lies: for the requests that come by the
 * thousands. Whatever is not plain (blanks, other escapes, characters beyond ASCII, numbers in an odd form, a field twice)
 * is left to the decoder that takes everything: being strict here costs such a request time, and never its meaning.
 *
 * What comes here is from the network: every length is checked against what is there before a byte is read.
 */
#ifndef PENSTOCK_HEADERS_H
#define PENSTOCK_HEADERS_H

#include "../../stores.h"
#include <Python.h>
#include <string.h>

#define FRAME_BYTES_MAX (16 * 1024 * 1024)
#define DIGITS_MAX 18
#define TOPIC_BYTES_MAX 127

struct text { /* as it stands in a header, between its quotes */
    const unsigned char *at;
    Py_ssize_t length;
    int escaped;
};

struct cursor {
    const unsigned char *at, *end;
};

static int passes(struct cursor *cursor, unsigned char wanted)
{
    if (cursor->at == cursor->end || *cursor->at != wanted)
        return 0;
    cursor->at++;
    return 1;
}

/* A string, its quotes passed. */
static int text_at(struct cursor *cursor, struct text *found)
{
    if (!passes(cursor, '"'))
        return 0;
    found->at = cursor->at;
    found->escaped = 0;
    for (; cursor->at < cursor->end; cursor->at++) {
        unsigned char byte = *cursor->at;
        if (byte == '"') {
            found->length = cursor->at++ - found->at;
            return 1;
        }
        if (byte < 0x20 || byte >= 0x80)
            return 0;
        if (byte == '\\') {
            found->escaped = 1;
            if (++cursor->at == cursor->end)
                return 0;
        }
    }
    return 0;
}

static int number_at(struct cursor *cursor, int64_t *value)
{
    int negative = passes(cursor, '-');
    const unsigned char *first = cursor->at;
    uint64_t sum = 0;
    for (; cursor->at < cursor->end && *cursor->at >= '0' && *cursor->at <= '9'; cursor->at++) {
        if (cursor->at - first == DIGITS_MAX)
            return 0;
        sum = 10 * sum + (*cursor->at - '0');
    }
    Py_ssize_t digits = cursor->at - first;
    if (digits == 0 || (*first == '0' && (digits > 1 || negative)))
        return 0;
    *value = negative ? -(int64_t)sum : (int64_t)sum;
    return 1;
}

/* A number in quotes, between two bounds. */
static int number_in_text(const struct text *text, int64_t low, int64_t high, int64_t *value)
{
    struct cursor inside = {text->at, text->at + text->length};
    return number_at(&inside, value) && inside.at == inside.end && *value >= low && *value <= high;
}

static int is(const struct text *text, const char *wanted)
{
    size_t length = strlen(wanted);
    return text->length == (Py_ssize_t)length && !text->escaped && memcmp(text->at, wanted, length) == 0;
}

static inline int same(const struct text *one, const struct text *other)
{
    return one->length == other->length && memcmp(one->at, other->at, (size_t)one->length) == 0;
}

struct head {
    int64_t code, opaque, flag, version;
};

/* Reads the ext fields, up to the brace that ends them; 0 when they are not ordinary. */
typedef int (*ext_reader)(struct cursor *cursor, void *into);

enum { CODE = 1, EXT = 2, FLAG = 4, LANGUAGE = 8, OPAQUE = 16, SERIALIZE = 32, VERSION = 64 };

static int field_at(struct cursor *cursor, struct head *head, ext_reader ext, void *into, int *seen)
{
    struct text name, ignored;
    int field = 0, there = 0;
    if (!text_at(cursor, &name) || !passes(cursor, ':'))
        return 0;
    if (is(&name, "code"))
        field = CODE, there = number_at(cursor, &head->code);
    else if (is(&name, "extFields"))
        field = EXT, there = ext(cursor, into);
    else if (is(&name, "flag"))
        field = FLAG, there = number_at(cursor, &head->flag);
    else if (is(&name, "language"))
        field = LANGUAGE, there = text_at(cursor, &ignored) && !ignored.escaped;
    else if (is(&name, "opaque"))
        field = OPAQUE, there = number_at(cursor, &head->opaque);
    else if (is(&name, "serializeTypeCurrentRPC"))
        field = SERIALIZE, there = text_at(cursor, &ignored) && !ignored.escaped;
    else if (is(&name, "version"))
        field = VERSION, there = number_at(cursor, &head->version);
    if (!there || *seen & field)
        return 0;
    *seen |= field;
    return 1;
}

/* A whole header, its ext fields by `ext`. */
static int head_at(struct cursor cursor, struct head *head, ext_reader ext, void *into)
{
    int seen = 0;
    if (!passes(&cursor, '{'))
        return 0;
    do {
        if (!field_at(&cursor, head, ext, into, &seen))
            return 0;
    } while (passes(&cursor, ','));
    return passes(&cursor, '}') && cursor.at == cursor.end && seen & CODE && seen & EXT;
}

/* The frame at `at`, if all of it is there and its header is JSON: where that is, and where the frame ends, or 0. */
static int64_t frame_at(const unsigned char *frames, int64_t at, int64_t end, struct cursor *header)
{
    if (end - at < 8)
        return 0;
    int64_t length = from_big4(frames + at), head = from_big4(frames + at + 4), header_bytes = head & 0xFFFFFF;
    int64_t behind = at + 4 + length;
    if (head >> 24 != 0 || length > FRAME_BYTES_MAX || length < 4 + header_bytes || behind > end)
        return 0;
    *header = (struct cursor){frames + at + 8, frames + at + 8 + header_bytes};
    return behind;
}

#endif
