/* common/setup/config.c - see config.h: config_set(), config_defaults() and
 * config_each(), which go through the rows of settings.def. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "common/setup/config_internal.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

#include "common/net/net.h"
#include "common/wire/likeness.h"
#include "common/wire/message.h"

#define KILO ((uint64_t)1024)
#define MEGA (1024 * KILO)
#define GIGA (1024 * MEGA)

#define SECOND ((uint64_t)1000)
#define MINUTE (60 * SECOND)
#define HOUR   (60 * MINUTE)
#define DAY    (24 * HOUR)

static const struct config_row rows[] = {
#define SETTING(row_kind, field, row_key, row_def, ...)                        \
    {.kind = KIND_##row_kind,                                                  \
     .at = offsetof(struct config, field),                                     \
     .size = sizeof((struct config *)NULL)->field,                             \
     .key = row_key,                                                           \
     .def = row_def,                                                           \
     .help = __VA_ARGS__},
#include "common/setup/settings.def"
#undef SETTING
};

#define ROW_COUNT (sizeof rows / sizeof rows[0])

static const struct config_row *
find_row(const char *key)
{
    for (size_t i = 0; i < ROW_COUNT; i++)
        if (strcmp(key, rows[i].key) == 0)
            return &rows[i];
    if (strcmp(key, "counter.stat_interval") == 0) /* its other name */
        return find_row("counter.stats_interval");
    return strncmp(key, "history.", 8) == 0 ? find_row("history") : NULL;
}

static int
fail_key(const char *key, char why[CONFIG_WHY_SIZE])
{
    struct likeness meant = likeness_of(key);
    char shown[NAME_SHOWN_SIZE], hint[LIKENESS_HINT_SIZE];

    for (size_t i = 0; i < ROW_COUNT; i++)
        likeness_try(&meant, rows[i].key);
    return config_fail(
        why, -ENOENT, "%s: no such setting%s; countd-write -h lists them all",
        name_show(key, strlen(key), shown), likeness_hint(&meant, hint));
}

int
config_set(struct config *c, const char *key, const char *value,
           char why[CONFIG_WHY_SIZE])
{
    const struct config_row *row = find_row(key);

    return row ? config_set_value(c, row, key, value, why) : fail_key(key, why);
}

int
config_set_named(struct config *c, const char *key, size_t size,
                 const char *value, char why[CONFIG_WHY_SIZE])
{
    char name[CONFIG_KEY_SIZE + 1], shown[NAME_SHOWN_SIZE];

    if (size == 0 || size >= sizeof name)
        return config_fail(
            why, -ENOENT,
            "\"%s\": no such setting; countd-write -h lists them all",
            name_show(key, size, shown));
    memcpy(name, key, size);
    name[size] = '\0';
    return config_set(c, name, value, why);
}

const void *
config_at(const struct config *c, const char *key)
{
    return (const char *)c + find_row(key)->at;
}

void
config_defaults(struct config *c)
{
    char why[CONFIG_WHY_SIZE];

    memset(c, 0, sizeof *c);
    for (size_t i = 0; i < ROW_COUNT; i++) {
        const int rc = config_set(c, rows[i].key, rows[i].def, why);

        assert(rc == 0);
    }
}

void
config_each(void (*option)(void *ctx, const char *key, const char *type,
                           const char *def, const char *help),
            void *ctx)
{
    for (size_t i = 0; i < ROW_COUNT; i++) {
        char type[CONFIG_TYPE_TEXT];

        config_describe_row(&rows[i], type);
        option(ctx, rows[i].key, type, rows[i].def, rows[i].help);
    }
}
