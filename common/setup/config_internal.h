/* common/setup/config_internal.h - what the files of config.h share.  Internal:
 * config.c (the table, of settings.def), config_value.c, config_file.c,
 * config_check.c, config_daemon.c. */
/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef COUNTD_COMMON_SETUP_CONFIG_INTERNAL_H
#define COUNTD_COMMON_SETUP_CONFIG_INTERNAL_H

#include "common/setup/config.h"
#include "common/wire/name.h"

/* No setting has a longer name than history.NAME. */
#define CONFIG_KEY_SIZE (NAME_TEXT_SIZE + 16)

/* What a value may be: a row of `kinds` in config_value.c, and the type of the
 * field in config.h. */
enum config_kind {
    KIND_PATH,
    KIND_ADDRESS,
    KIND_INET, /* an address, and not a socket of the data directory */
    KIND_HOST,
    KIND_USER,
    KIND_GROUP,
    KIND_NAMES,
    KIND_NETWORKS,
    KIND_KEYSPACE,
    KIND_PATTERNS, /* of Graphite paths, with one * each */
    KIND_BOOL,
    KIND_CONNINFO,
    KIND_SCHEMA,
    KIND_STORE, /* files or postgresql; true is postgresql */
    KIND_TAGS,  /* drop or append; true is append */
    KIND_TIERS,
    KIND_PORT,
    KIND_COUNT,
    KIND_SIZE,
    KIND_TIME,
    KIND_SECONDS, /* whole ones; a number without a unit is seconds too */
    KIND_SYNC,
    KIND_END
};

struct config_row {
    enum config_kind kind;
    size_t at, size; /* of the value in struct config */
    const char *key, *def, *help;
    uint64_t min, max; /* of a number; a text has at least `min` bytes */
};

/* Sets the value of a row; `key` is the one that was given.  As config_set().
 */
int config_set_value(struct config *c, const struct config_row *row,
                     const char *key, const char *value,
                     char why[CONFIG_WHY_SIZE]);

/* As config_set(), of a key that has no NUL. */
int config_set_named(struct config *c, const char *key, size_t size,
                     const char *value, char why[CONFIG_WHY_SIZE]);

/* "a size, 16K to 1G": what a row takes, for config_each() and errors. */
#define CONFIG_TYPE_TEXT 96
void config_describe_row(const struct config_row *row,
                         char text[CONFIG_TYPE_TEXT]);

/* Says why not; returns rc. */
int config_fail(char why[CONFIG_WHY_SIZE], int rc, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

#endif
