/* A pull as push consumers send it by the thousands, read where it lies: see headers.h. Which of them count as ordinary,
 * and what each field means, pulls.py says.
 */
#ifndef PENSTOCK_PULLS_H
#define PENSTOCK_PULLS_H

#include "headers.h"

#define PULL 11
#define ORDINARY_BITS 3 /* an offset is to be committed; it may wait */
#define GROUP_BYTES_MAX 255
#define MESSAGES_DEFAULT 32

/* The numbers among the ext fields: their names, and between which bounds they are. */
enum { QUEUE, OFFSET, MESSAGES, BYTES, FLAGS, COMMIT, WAIT_MS, SUB_VERSION, NUMBERS };

static const struct {
    const char *name;
    int64_t low, high;
} KNOWN[NUMBERS] = {
    [QUEUE] = {"queueId", INT64_MIN, INT64_MAX},
    [OFFSET] = {"queueOffset", INT64_MIN, INT64_MAX},
    [MESSAGES] = {"maxMsgNums", INT64_MIN, INT64_MAX},
    [BYTES] = {"maxMsgBytes", INT64_MIN, INT64_MAX},
    [FLAGS] = {"sysFlag", 0, ORDINARY_BITS},
    [COMMIT] = {"commitOffset", INT64_MIN, INT64_MAX},
    [WAIT_MS] = {"suspendTimeoutMillis", INT64_MIN, INT64_MAX},
    [SUB_VERSION] = {"subVersion", INT64_MIN, INT64_MAX},
};

enum { GROUP = NUMBERS, TOPIC, FIELDS }; /* the texts, behind the numbers */

struct pull {
    struct head head;
    struct text group, topic;
    int64_t numbers[NUMBERS];
};

/* Which field a name stands for; FIELDS when it has no meaning here, -1 when whoever sends it wants something else. */
static int field_named(const struct text *name)
{
    if (is(name, "consumerGroup"))
        return GROUP;
    if (is(name, "topic"))
        return TOPIC;
    for (int field = 0; field < NUMBERS; field++)
        if (is(name, KNOWN[field].name))
            return field;
    return is(name, "asStored") ? -1 : FIELDS;
}

static int ext_field(struct pull *pull, int field, const struct text *value)
{
    switch (field) {
    case GROUP:
        pull->group = *value;
        return value->length > 0 && value->length <= GROUP_BYTES_MAX;
    case TOPIC:
        pull->topic = *value;
        return value->length > 0 && value->length <= TOPIC_BYTES_MAX;
    default:
        return number_in_text(value, KNOWN[field].low, KNOWN[field].high, &pull->numbers[field]);
    }
}

static int ext_at(struct cursor *cursor, void *into)
{
    const unsigned needed = 1u << GROUP | 1u << TOPIC | 1u << QUEUE | 1u << OFFSET;
    unsigned seen = 0;
    if (!passes(cursor, '{'))
        return 0;
    do {
        struct text name, value;
        if (!text_at(cursor, &name) || name.escaped || !passes(cursor, ':') || !text_at(cursor, &value) || value.escaped)
            return 0;
        int field = field_named(&name);
        if (field == FIELDS)
            continue;
        if (field < 0 || seen & 1u << field || !ext_field(into, field, &value))
            return 0;
        seen |= 1u << field;
    } while (passes(cursor, ','));
    return (seen & needed) == needed && passes(cursor, '}');
}

/* Whether there is an ordinary pull at `at`; where its frame ends, or 0. */
static int64_t pull_at(const unsigned char *frames, int64_t at, int64_t end, struct pull *pull)
{
    static const char begin[] = "{\"code\":11,";
    struct cursor header;
    int64_t behind = frame_at(frames, at, end, &header);
    if (!behind || header.end != frames + behind || header.end - header.at < (Py_ssize_t)sizeof begin ||
        memcmp(header.at, begin, sizeof begin - 1))
        return 0;
    memset(pull, 0, sizeof *pull);
    pull->numbers[MESSAGES] = MESSAGES_DEFAULT;
    return head_at(header, &pull->head, ext_at, pull) && pull->head.code == PULL && pull->head.flag == 0 ? behind : 0;
}

#endif
