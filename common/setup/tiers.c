/* common/setup/tiers.c - see tiers.h. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "common/setup/tiers.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define HOUR          60u
#define DAY           1440u
#define YEAR          525600u
#define RETENTION_MAX (100ul * YEAR)

/* The setting `history` as it is read: "1m", then "2d". */
static bool
read_minutes(const char **at, uint32_t *out)
{
    static const struct {
        char letter;
        uint32_t minutes;
    } units[] = {{'m', 1}, {'h', HOUR}, {'d', DAY}, {'w', 10080}, {'y', YEAR}};
    uint64_t n = 0;
    const char *start = *at;

    for (; **at >= '0' && **at <= '9' && n < RETENTION_MAX; ++*at)
        n = n * 10 + (uint64_t)(**at - '0');
    for (size_t i = 0; *at > start && i < sizeof units / sizeof *units; i++) {
        if (**at != units[i].letter)
            continue;
        ++*at;
        n *= units[i].minutes;
        *out = (uint32_t)n;
        return n > 0 && n <= RETENTION_MAX;
    }
    return false;
}

static bool
is_step(uint32_t step)
{
    if (step < HOUR)
        return HOUR % step == 0;
    return step < DAY ? step % HOUR == 0 && DAY % step == 0 : step % DAY == 0;
}

/* The longest period that lies in one step of the next tier; without a next
 * one an hour, a day or 32 steps. */
static uint32_t
period_of(uint32_t step, uint32_t next)
{
    if (next == 0)
        return step < HOUR ? HOUR : step < DAY ? DAY : 32 * step;
    for (uint32_t n = TIERS_CELLS_MAX; n > 1; n--)
        if (next / step % n == 0)
            return n * step;
    return step;
}

static const char *
bad_tier(const struct tiers *t, const struct tier *new)
{
    const struct tier *last = t->count > 0 ? &t->tier[t->count - 1] : NULL;

    if (!is_step(new->step))
        return "a step is minutes that divide an hour, hours that divide a "
               "day, or whole days";
    if (new->keep < new->step)
        return "a step is kept at least as long as it is";
    if (last != NULL && (new->step <= last->step || new->step % last->step > 0))
        return "each step must be a multiple of the one before";
    if (last != NULL && new->keep < last->keep)
        return "a longer step must be kept as long as the one before";
    return NULL;
}

int
tiers_parse(const char *text, struct tiers *out, const char **why)
{
    struct tiers t = {.count = 0};

    *why = "give step:keep, ... with m, h, d, w or y, as 1m:2d,1h:90d,1d:10y, "
           "or off";
    if (strcmp(text, "off") == 0) {
        *out = t;
        return 0;
    }
    for (;; text++) {
        struct tier new = {.step = 0};

        if (t.count == TIERS_MAX) {
            *why = "these are more than four steps";
            return -EINVAL;
        }
        if (!read_minutes(&text, &new.step) || *text++ != ':' ||
            !read_minutes(&text, &new.keep) || (*text != ',' && *text != '\0'))
            return -EINVAL;
        if (bad_tier(&t, &new) != NULL) {
            *why = bad_tier(&t, &new);
            return -EINVAL;
        }
        t.tier[t.count++] = new;
        if (*text == '\0')
            break;
    }
    for (unsigned i = 0; i < t.count; i++)
        t.tier[i].period =
            period_of(t.tier[i].step, i + 1 < t.count ? t.tier[i + 1].step : 0);
    *out = t;
    return 0;
}

int
tiers_rules_set(struct tiers_rules *r, const char *name, const char *text,
                const char **why)
{
    struct tiers new;
    int rc;

    rc = tiers_parse(text, &new, why);
    if (rc < 0)
        return rc;
    if (name == NULL) {
        r->all = new;
        return 0;
    }
    rc = name_patterns_add(&r->names, name, why);
    if (rc < 0)
        return rc;
    r->tiers[rc] = new;
    return 0;
}

const struct tiers *
tiers_of(const struct tiers_rules *r, const uint8_t *name, size_t size)
{
    const int place = name_patterns_find(&r->names, name, size);

    return place < 0 ? &r->all : &r->tiers[place];
}
