/* writer/statsd/senders.c - see senders.h. */
#include "writer/statsd/senders.h"

#include <string.h>

#define PLACES (sizeof((struct senders *)0)->places / sizeof(struct sender))

/* The sender of that name, made where there is none; NULL: there are too many.
 * *made: its first number sets where it begins. */
static struct sender *
find_sender(struct senders *s, const uint8_t *name, size_t size, bool *made)
{
    size_t i = hash_name(&s->hash_key, size, name, size) % PLACES;

    *made = false;
    for (; s->places[i].name_size > 0; i = (i + 1) % PLACES)
        if (s->places[i].name_size == size &&
            memcmp(s->places[i].name, name, size) == 0)
            return &s->places[i];
    if (s->count == SENDERS_MAX)
        return NULL;
    s->count++;
    s->places[i].name_size = (uint8_t)size;
    memcpy(s->places[i].name, name, size);
    *made = true;
    return &s->places[i];
}

static void
count_change(struct senders *s, struct sender *one, enum sender_count what,
             int64_t change)
{
    one->changes[what] += change;
    if (!one->changed)
        s->changed++;
    one->changed = true;
}

/* The number follows the last one, maybe with a gap. */
static void
note_ahead(struct senders *s, struct sender *one, uint64_t number)
{
    const uint64_t step = number - one->last;

    if (step > 1)
        count_change(s, one, SENDER_MISSING,
                     step - 1 < INT32_MAX ? (int64_t)(step - 1) : INT32_MAX);
    one->window = step < SENDER_WINDOW ? one->window << step : 0;
    one->window |= 1;
    one->last = number;
}

static void
note_behind(struct senders *s, struct sender *one, uint64_t number)
{
    const uint64_t bit = (uint64_t)1 << (one->last - number);

    if ((one->window & bit) != 0) {
        count_change(s, one, SENDER_REPEATED, 1);
        return;
    }
    one->window |= bit;
    count_change(s, one, SENDER_MISSING, -1);
}

void
senders_note(struct senders *s, const uint8_t *name, size_t name_size,
             uint64_t number)
{
    struct sender *one;
    bool made;

    if (name_size == 0 || name_size > SENDER_NAME_MAX)
        return;
    one = find_sender(s, name, name_size, &made);
    if (!one)
        return;
    count_change(s, one, SENDER_NUMBERED, 1);
    /* Numbers before the first one, or before a restart, are unknown: the
     * window takes them as arrived. */
    if (made || number + SENDER_WINDOW <= one->last) {
        one->last = number;
        one->window = UINT64_MAX;
    } else if (number > one->last) {
        note_ahead(s, one, number);
    } else {
        note_behind(s, one, number);
    }
}

struct sender *
senders_take(struct senders *s)
{
    if (s->changed == 0)
        return NULL;
    while (!s->places[s->next].changed)
        s->next = (s->next + 1) % PLACES;
    return &s->places[s->next];
}
