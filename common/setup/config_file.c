/* common/setup/config_file.c - settings as text: key = value lines.
 * config_file() reads a file, config_text() a text.
 */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "common/setup/config_internal.h"
#include "common/wire/increment_line.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FILE_SIZE_MAX ((size_t)1 << 20)

static bool
is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\r';
}

/* A piece of the text, not NUL-terminated. */
struct piece {
    const char *at;
    size_t size;
};

static struct piece
trim_piece(struct piece p)
{
    while (p.size > 0 && is_blank(p.at[0])) {
        p.at++;
        p.size--;
    }
    while (p.size > 0 && is_blank(p.at[p.size - 1]))
        p.size--;
    return p;
}

/* Takes the comment and the quotes off a value.  Between quotes every byte
 * but a quote stands for itself. */
static int
value_of(struct piece *p, char why[CONFIG_WHY_SIZE])
{
    const char *end;
    struct piece rest;

    *p = trim_piece(*p);
    if (p->size > 0 && p->at[0] == '"') {
        end = memchr(p->at + 1, '"', p->size - 1);
        if (end == NULL)
            return config_fail(why, -EINVAL,
                               "a quote is not closed; give \" at both ends");
        rest.at = end + 1;
        rest.size = p->size - (size_t)(rest.at - p->at);
        rest = trim_piece(rest);
        if (rest.size > 0 && rest.at[0] != '#')
            return config_fail(
                why, -EINVAL,
                "something follows the closing quote; give key = "
                "\"value\" only");
        p->at++;
        p->size = (size_t)(end - p->at);
        return 0;
    }
    end = memchr(p->at, '#', p->size);
    if (end != NULL) {
        p->size = (size_t)(end - p->at);
        *p = trim_piece(*p);
    }
    return 0;
}

/* One line: nothing, a comment, or key = value. */
static int
set_line(struct config *c, struct piece line, char why[CONFIG_WHY_SIZE])
{
    char value[CONFIG_TEXT_SIZE], shown[NAME_SHOWN_SIZE];
    struct piece k, v;
    const char *equals;
    int rc;

    line = trim_piece(line);
    if (line.size == 0 || line.at[0] == '#')
        return 0;
    if (memchr(line.at, '\0', line.size) != NULL)
        return config_fail(why, -EINVAL,
                           "a zero byte; settings are lines of text");
    equals = memchr(line.at, '=', line.size);
    if (equals == NULL)
        return config_fail(why, -EINVAL,
                           "\"%s\" is no setting; give key = value",
                           name_show(line.at, line.size, shown));

    k = trim_piece((struct piece){line.at, (size_t)(equals - line.at)});
    v.at = equals + 1;
    v.size = line.size - (size_t)(v.at - line.at);
    rc = value_of(&v, why);
    if (rc < 0)
        return rc;
    if (v.size >= sizeof value)
        return config_fail(why, -ERANGE,
                           "a value of %zu bytes; give at most %zu", v.size,
                           sizeof value - 1);
    memcpy(value, v.at, v.size);
    value[v.size] = '\0';
    return config_set_named(c, k.at, k.size, value, why);
}

int
config_text(struct config *c, const char *text, size_t size, const char *path,
            char why[CONFIG_WHY_SIZE])
{
    char line_why[CONFIG_WHY_SIZE], shown[NAME_SHOWN_SIZE];
    size_t at = increment_text_begin(text, size); /* a byte order mark */

    for (size_t number = 1; at < size; number++) {
        const char *start = text + at;
        const char *end = memchr(start, '\n', size - at);
        const size_t length = end ? (size_t)(end - start) : size - at;
        const int rc = set_line(c, (struct piece){start, length}, line_why);

        if (rc < 0)
            return config_fail(why, rc, "%s:%zu: %s",
                               name_show(path, strlen(path), shown), number,
                               line_why);
        at += length + 1;
    }
    return 0;
}

int
config_file(struct config *c, const char *path, char why[CONFIG_WHY_SIZE])
{
    char shown[NAME_SHOWN_SIZE], *text = malloc(FILE_SIZE_MAX + 1);
    FILE *f = text ? fopen(path, "re") : NULL;
    size_t size;
    int rc = f ? 0 : -errno;

    (void)name_show(path, strlen(path), shown);
    if (rc < 0) {
        free(text);
        return config_fail(why, rc,
                           "%s: %s; give a settings file that can be "
                           "read",
                           shown, strerror(-rc));
    }
    size = fread(text, 1, FILE_SIZE_MAX + 1, f);
    if (ferror(f))
        rc = -errno;
    else if (size > FILE_SIZE_MAX)
        rc = -EFBIG;
    (void)fclose(f); /* only read: nothing can be lost */
    if (rc < 0)
        (void)config_fail(why, rc, "%s: %s; give a text file of at most 1 MiB",
                          shown, strerror(-rc));
    else
        rc = config_text(c, text, size, path, why);
    free(text);
    return rc;
}
