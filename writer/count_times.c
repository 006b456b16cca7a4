/* writer/count_times.c - see count_times.h. */
#include "writer/count_times.h"

#include <assert.h>
#include <string.h>

bool
count_times_have_place(const struct count_times *t)
{
    return t->count < COUNT_TIMES_MAX;
}

void
count_times_add(struct count_times *t, const struct conn *c, uint32_t at)
{
    assert(t->count < COUNT_TIMES_MAX);
    t->places[t->count].conn = c;
    t->places[t->count].at = at;
    t->count++;
}

void
count_times_fill(struct count_times *t, uint64_t now_ms)
{
    struct gate_cursor cursor = {0};
    char digits[COUNT_TIME_SIZE];

    /* A clock that was set to before 2001 just now gives leading blanks. */
    memset(digits, ' ', sizeof digits);
    for (size_t i = sizeof digits; i-- > 0 && now_ms > 0; now_ms /= 10)
        digits[i] = (char)('0' + now_ms % 10);
    for (size_t i = 0; i < t->count; i++)
        gate_overwrite(&cursor, t->places[i].conn, t->places[i].at, digits,
                       sizeof digits);
    t->count = 0;
}
