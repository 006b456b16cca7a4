/* reader/graphite/regular_search.c - finds regular expressions; see regular.h.
 *
 * regular_search() has a list of threads, the one that is preferred first; each
 * is at a step and knows where its groups are.  No two are at the same step. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "reader/graphite/regular_internal.h"

#include <errno.h>
#include <string.h>

static bool
has_range(const struct regular_class *class, uint32_t c)
{
    for (unsigned i = 0; i < class->count; i++)
        if (c >= class->ranges[i].low && c <= class->ranges[i].high)
            return true;
    return false;
}

static bool
is_in_class(const struct regular *r, const struct regular_class *class,
            uint32_t c)
{
    bool is_in = has_range(class, c);

    if (!is_in && r->ignores_case && regular_lower(c) != c)
        is_in = has_range(class, regular_lower(c));
    if (!is_in && r->ignores_case && c >= 'a' && c <= 'z')
        is_in = has_range(class, c - ('a' - 'A'));
    return is_in != class->is_negated;
}

/* Where a search is: a character, and those around it; 0: none. */
struct place {
    size_t at;
    bool is_begin, is_end, is_edge;
};

/* Puts threads for a step and all that it leads to without a character.  The
 * stack has steps that are still to be followed, and places to be put back. */
static size_t
add_threads(struct regular *r, struct regular_threads *to, unsigned first,
            uint32_t places[PLACES], const struct place *p)
{
    struct {
        uint16_t step;
        int16_t slot; /* -1: follow the step */
        uint32_t before;
    } stack[2 * REGULAR_STEPS_MAX + 1]; /* a step is followed once */
    size_t depth = 0, work = 0;

    stack[depth].step = (uint16_t)first;
    stack[depth++].slot = -1;
    while (depth > 0) {
        const unsigned at = stack[--depth].step;
        const struct regular_step *s = &r->steps[at];
        bool goes_on = true;

        if (stack[depth].slot >= 0) {
            places[stack[depth].slot] = stack[depth].before;
            continue;
        }
        work++;
        if (to->seen[at] == r->mark)
            continue;
        to->seen[at] = r->mark;
        switch (s->kind) {
        case STEP_SPLIT:
            stack[depth].step = (uint16_t)((int)at + s->y);
            stack[depth++].slot = -1;
            stack[depth].step = (uint16_t)((int)at + s->x);
            stack[depth++].slot = -1;
            continue;
        case STEP_JUMP:
            stack[depth].step = (uint16_t)((int)at + s->x);
            stack[depth++].slot = -1;
            continue;
        case STEP_SAVE:
            stack[depth].slot = s->x;
            stack[depth++].before = places[s->x];
            places[s->x] = (uint32_t)p->at;
            break;
        case STEP_BEGIN:
            goes_on = p->is_begin;
            break;
        case STEP_END:
            goes_on = p->is_end;
            break;
        case STEP_EDGE:
            goes_on = p->is_edge;
            break;
        default:
            to->list[to->count].step = (uint16_t)at;
            memcpy(to->list[to->count++].places, places,
                   PLACES * sizeof *places);
            continue;
        }
        if (goes_on) {
            stack[depth].step = (uint16_t)(at + 1);
            stack[depth++].slot = -1;
        }
    }
    return work;
}

static bool
takes_character(const struct regular *r, const struct regular_step *s,
                uint32_t c)
{
    switch (s->kind) {
    case STEP_CHARACTER:
        return s->character == (r->ignores_case ? regular_lower(c) : c);
    case STEP_ANY:
        return c != '\n';
    case STEP_CLASS:
        return is_in_class(r, &r->classes[s->character], c);
    default:
        return false;
    }
}

static void
set_found(const struct regular_thread *t, struct regular_found *found)
{
    for (size_t i = 0; i < REGULAR_GROUPS; i++) {
        const bool is_there = t->places[2 * i] != UINT32_MAX &&
                              t->places[2 * i + 1] != UINT32_MAX;

        found->begin[i] = is_there ? t->places[2 * i] : SIZE_MAX;
        found->end[i] = is_there ? t->places[2 * i + 1] : SIZE_MAX;
    }
}

/* The place before the character at `at`, or at the end. */
static struct place
place_at(struct target_text text, size_t at, uint32_t before)
{
    uint32_t after = 0;

    if (at < text.size)
        (void)regular_read(text.at + at, text.at + text.size, &after);
    return (struct place){.at = at,
                          .is_begin = at == 0,
                          .is_end = at == text.size,
                          .is_edge =
                              (at > 0 && regular_is_word(before)) !=
                              (at < text.size && regular_is_word(after))};
}

int
regular_search(struct regular *r, struct target_text text, size_t from,
               size_t *work, struct regular_found *found)
{
    struct regular_threads *now = &r->lists[0], *next = &r->lists[1], *other;
    /* The character before is looked at for \b alone; its last byte does. */
    struct place p =
        place_at(text, from, from > 0 ? (uint8_t)text.at[from - 1] : 0);
    uint32_t none[PLACES], c = 0;
    bool is_found = false;
    size_t size;

    now->count = 0;
    r->mark++;
    for (size_t at = from;; at += size) {
        size_t used = 1;

        next->count = 0;
        if (!is_found) { /* one that begins here is preferred least */
            memset(none, 0xff, sizeof none);
            used += add_threads(r, now, 0, none, &p);
        }
        size = at < text.size
                   ? regular_read(text.at + at, text.at + text.size, &c)
                   : 0;
        p = place_at(text, at + size, c);
        r->mark++;
        for (unsigned i = 0; i < now->count; i++) {
            struct regular_thread *t = &now->list[i];
            const struct regular_step *s = &r->steps[t->step];

            used++;
            if (s->kind == STEP_MATCH) {
                set_found(t, found);
                is_found = true;
                break; /* the others are preferred less */
            }
            if (size > 0 && takes_character(r, s, c))
                used += add_threads(r, next, t->step + 1u, t->places, &p);
        }
        if (size == 0 || (is_found && next->count == 0))
            return is_found;
        if (used > *work)
            return -E2BIG;
        *work -= used;
        other = now;
        now = next;
        next = other;
    }
}
