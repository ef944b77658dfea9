/* What a pull of a backlog gets, out of what was lent to answer it: see _backlog.c. Nothing here takes the interpreter's
 * lock, and nothing is written but the answer.
 */
#ifndef PENSTOCK_SEATS_H
#define PENSTOCK_SEATS_H

#include "../../store/rows.h"
#include "../../wire/rocketmq/pulls.h"
#include <Python.h>

enum {
    PIECES_MAX = 64,
    ANSWER_BYTES_MAX = 512 * 1024, /* what is larger goes the other way */
    HEAD_BYTES_MAX = 512,
    MESSAGES_MAX = 100000,
    BYTES_MIN = 256 * 1024,
    BYTES_MAX = 8 * 1024 * 1024,
};

struct notes { /* what was handed out, and what the consumer said with it */
    int64_t pulls, messages, size_bytes, asked, next_offset, committed;
};

struct seat {
    PyObject *names[2]; /* group and topic: held, and ASCII */
    struct text group, topic;
    int64_t queue, version;
    int64_t min_row, min_offset, max_offset;
    int64_t first_row, end_row, piece_rows;
    Py_buffer pieces[PIECES_MAX];
    const unsigned char *rows[PIECES_MAX];
    int pieces_count;
    Py_buffer log;
    int64_t low, high, base; /* positions between which all is easy, and where the log's buffer begins */
    struct notes notes;
};

static const unsigned char *row_at(const struct seat *seat, int64_t row)
{
    int64_t number = row - seat->first_row;
    return seat->rows[number / seat->piece_rows] + number % seat->piece_rows * ROW_BYTES;
}

struct found {
    int64_t row, rows, messages, size_bytes, next_offset;
};

static int64_t within(int64_t value, int64_t low, int64_t high)
{
    return value < low ? low : value > high ? high : value;
}

/* What a pull gets: as many messages as its limits allow. 0 where what was lent does not tell. */
static int find(const struct seat *seat, const struct pull *pull, struct found *found)
{
    int64_t offset = pull->numbers[OFFSET];
    int64_t messages_max = within(pull->numbers[MESSAGES], 1, MESSAGES_MAX);
    int64_t bytes_max = within(pull->numbers[BYTES], BYTES_MIN, BYTES_MAX);
    if (offset < seat->min_offset || offset >= seat->max_offset)
        return 0;
    *found = (struct found){.row = seat->min_row + (offset - seat->min_offset)};
    if (found->row < seat->first_row || found->row >= seat->end_row || !begins_with(row_at(seat, found->row), offset))
        return 0;
    for (int64_t number = found->row; found->messages < messages_max; number++) {
        if (number == seat->end_row)
            return 0;
        const unsigned char *row = row_at(seat, number);
        int64_t position = little(row, 8), length = little(row + LENGTH, 4), count = little(row + COUNT, 4);
        if (position < seat->low || length < 0 || count < 0 || length > seat->high || position > seat->high - length)
            return 0;
        if (found->rows && (found->size_bytes + length > bytes_max || found->messages + count > messages_max))
            break;
        found->rows++;
        found->messages += count, found->size_bytes += length;
        found->next_offset = little(row + BASE, 8) + count;
        if (found->size_bytes > ANSWER_BYTES_MAX)
            return 0;
    }
    return 1;
}

static char *text(char *to, const char *text)
{
    size_t length = strlen(text);
    memcpy(to, text, length);
    return to + length;
}

static char *number(char *to, int64_t value)
{
    char digits[20];
    int count = 0;
    uint64_t left = value < 0 ? -(uint64_t)value : (uint64_t)value;
    if (value < 0)
        *to++ = '-';
    do
        digits[count++] = (char)('0' + left % 10);
    while (left /= 10);
    while (count)
        *to++ = digits[--count];
    return to;
}

/* See found_head in consume.py. */
static size_t head(char *to, const struct seat *seat, const struct found *found, int64_t opaque)
{
    char *at = text(to + 8, "{\"code\":0,\"extFields\":{\"maxOffset\":\"");
    at = text(number(at, seat->max_offset), "\",\"minOffset\":\"");
    at = text(number(at, seat->min_offset), "\",\"nextBeginOffset\":\"");
    at = text(number(at, found->next_offset),
              "\",\"suggestWhichBrokerId\":\"0\"},\"flag\":1,\"language\":\"JAVA\",\"opaque\":");
    at = text(number(at, opaque), ",\"remark\":\"FOUND\",\"serializeTypeCurrentRPC\":\"JSON\",\"version\":409}");
    int64_t length = at - (to + 8);
    big4((unsigned char *)to, (uint32_t)(4 + length + found->size_bytes));
    big4((unsigned char *)to + 4, (uint32_t)length);
    return 8 + (size_t)length;
}

/* The messages, those that touch in the log with one copy. `find` saw their rows, but others write to that memory: where
 * a message lies is looked at once more, with what is left of the room that was counted for them. */
static int copy(const struct seat *seat, const struct found *found, char *to)
{
    const char *log = (const char *)seat->log.buf;
    int64_t start = seat->base, end = seat->base, left = found->size_bytes;
    for (int64_t number = found->row; number < found->row + found->rows; number++) {
        const unsigned char *row = row_at(seat, number);
        int64_t position = little(row, 8), length = little(row + LENGTH, 4);
        if (position < seat->low || length < 0 || length > left || position > seat->high - length)
            return 0;
        if (position != end) {
            memcpy(to, log + (start - seat->base), (size_t)(end - start));
            to += end - start;
            start = position;
        }
        end = position + length;
        left -= length;
    }
    memcpy(to, log + (start - seat->base), (size_t)(end - start));
    return left == 0;
}

#endif
