/* common/wire/carbon_line.c - see carbon_line.h. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "common/wire/carbon_line.h"

#include <errno.h>
#include <string.h>

struct word {
    const uint8_t *at;
    size_t size;
};

static bool
is_blank(uint8_t byte)
{
    return byte == ' ' || (byte >= '\t' && byte <= '\r');
}

/* Takes the next word.  False: there is none. */
static bool
take_word(const uint8_t **at, size_t *size, struct word *word)
{
    while (*size > 0 && is_blank(**at)) {
        ++*at;
        --*size;
    }
    word->at = *at;
    while (*size > 0 && !is_blank(**at)) {
        ++*at;
        --*size;
    }
    word->size = (size_t)(*at - word->at);
    return word->size > 0;
}

/* Matches one pattern; *name is the part that its * stands for. */
static bool
is_match(const char *pattern, size_t size, struct word path, struct word *name)
{
    const char *star = memchr(pattern, '*', size);
    const size_t before = (size_t)(star - pattern), after = size - before - 1;

    if (path.size < before + after + 1 ||
        memcmp(path.at, pattern, before) != 0 ||
        memcmp(path.at + path.size - after, star + 1, after) != 0)
        return false;
    *name = (struct word){path.at + before, path.size - before - after};
    return true;
}

/* Passes the blanks before the next pattern; returns its size, 0: there is
 * none.
 */
static size_t
next_pattern(const char **patterns)
{
    *patterns += strspn(*patterns, " \t");
    return strcspn(*patterns, " \t");
}

/* The patterns were checked when the settings were read. */
static bool
find_match(const char *patterns, struct word path, struct word *name)
{
    size_t size;

    for (; (size = next_pattern(&patterns)) > 0; patterns += size)
        if (is_match(patterns, size, path, name))
            return true;
    return false;
}

bool
carbon_is_match(const char *patterns, const uint8_t *path, size_t size)
{
    struct word name;

    return find_match(patterns, (struct word){path, size}, &name);
}

int
carbon_line(const char *patterns, const uint8_t *line, size_t size,
            struct carbon_sample *out, const char **why)
{
    static const struct decimal one = {.digits = 1};
    struct word path, value, time, rest, found;
    struct decimal v, t;
    int128 time_millionths;

    *why = "not the three words PATH VALUE TIME";
    if (!take_word(&line, &size, &path) || !take_word(&line, &size, &value) ||
        !take_word(&line, &size, &time) || take_word(&line, &size, &rest))
        return -EBADMSG;
    *why = "a path with a NUL byte";
    if (memchr(path.at, '\0', path.size))
        return -EBADMSG;
    if (!find_match(patterns, path, &found))
        return CARBON_IGNORED;
    *why = "a value or a time is not a number";
    if (decimal_parse(value.at, value.size, &v) < 0 ||
        decimal_parse(time.at, time.size, &t) < 0)
        return -EBADMSG;
    *why = "a value does not fit into 64 bits";
    if (decimal_millionths(&v, &one, &out->millionths) < 0)
        return -EBADMSG;
    out->name = found.at;
    out->name_size = found.size;
    out->path = path.at;
    out->path_size = path.size;
    out->at = t.negative || decimal_millionths(&t, &one, &time_millionths) < 0
                  ? -1
                  : (int64_t)(time_millionths / DECIMAL_MILLIONTHS);
    return CARBON_COUNTED;
}

int
carbon_check_patterns(const char *patterns, const char **wrong, size_t *size)
{
    for (; (*size = next_pattern(&patterns)) > 0; patterns += *size) {
        const char *star = memchr(patterns, '*', *size);

        *wrong = patterns;
        if (!star ||
            memchr(star + 1, '*', *size - (size_t)(star + 1 - patterns)))
            return -EINVAL;
    }
    return 0;
}
