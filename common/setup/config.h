/* common/setup/config.h - settings: one table of options, one struct of values.
 *
 * One file for all daemons: `key = value` lines, # comments, optional double
 * quotes, sizes with K M G, durations with ms s m h d, true and false.  The
 * same table drives the file, -o KEY=VALUE, --help, and a test that holds
 * countd.5 to it.  An unknown key or bad value is an error that names file and
 * line and what would be right.
 *
 * Ownership: struct config is plain data; copy it freely.
 */
/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef COUNTD_COMMON_SETUP_CONFIG_H
#define COUNTD_COMMON_SETUP_CONFIG_H

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "common/setup/tiers.h"

#define CONFIG_TEXT_SIZE     4096 /* longest path or address, with NUL */
#define CONFIG_USER_SIZE     256  /* of a user or a group, with NUL */
#define CONFIG_NAMES_SIZE    1024 /* of names, networks, patterns, with NUL */
#define CONFIG_KEYSPACE_SIZE 241  /* of a keyspace in a setting, with NUL */
#define CONFIG_SCHEMA_SIZE   64   /* of store.schema, with NUL */

/* counter.port and semaphore.port: the socket in the data directory alone. */
#define CONFIG_PORT_SOCKET UINT64_MAX

#define CONFIG_SYNC_ALWAYS 0
#define CONFIG_SYNC_NEVER  UINT64_MAX

#define CONFIG_EXIT_NONE     (-1) /* no exit status: go on */
#define CONFIG_EXIT_OK       0
#define CONFIG_EXIT_NEGATIVE 1
#define CONFIG_EXIT_USAGE    100
#define CONFIG_EXIT_SYSTEM   111

/* The exit status for a negative errno: -EINVAL is a setting's. */
static inline int
config_exit_of(int rc)
{
    return rc == -EINVAL ? CONFIG_EXIT_USAGE : CONFIG_EXIT_SYSTEM;
}

/* The type of a setting's field, by its kind. */
#define CONFIG_PATH(field)     char field[CONFIG_TEXT_SIZE];
#define CONFIG_ADDRESS(field)  char field[CONFIG_TEXT_SIZE];
#define CONFIG_INET(field)     char field[CONFIG_TEXT_SIZE];
#define CONFIG_HOST(field)     char field[CONFIG_TEXT_SIZE];
#define CONFIG_CONNINFO(field) char field[CONFIG_TEXT_SIZE];
#define CONFIG_USER(field)     char field[CONFIG_USER_SIZE];
#define CONFIG_GROUP(field)    char field[CONFIG_USER_SIZE];
#define CONFIG_NAMES(field)    char field[CONFIG_NAMES_SIZE];
#define CONFIG_NETWORKS(field) char field[CONFIG_NAMES_SIZE];
#define CONFIG_PATTERNS(field) char field[CONFIG_NAMES_SIZE];
#define CONFIG_KEYSPACE(field) char field[CONFIG_KEYSPACE_SIZE];
#define CONFIG_SCHEMA(field)   char field[CONFIG_SCHEMA_SIZE];
#define CONFIG_TIERS(field)    struct tiers_rules field;
#define CONFIG_BOOL(field)     bool field;
#define CONFIG_STORE(field)    bool field; /* true: postgresql */
#define CONFIG_TAGS(field)     bool field; /* true: append */
#define CONFIG_PORT(field)     uint64_t field;
#define CONFIG_COUNT(field)    uint64_t field;
#define CONFIG_SIZE(field)     uint64_t field; /* bytes */
#define CONFIG_TIME(field)     uint64_t field; /* ms */
#define CONFIG_SECONDS(field)  uint64_t field;
#define CONFIG_SYNC(field)     uint64_t field; /* ms, or CONFIG_SYNC_... */

/* All settings: settings.def has their fields, by kind and name. */
struct config {
#define SETTING(kind, field, ...) CONFIG_##kind(field)
#include "common/setup/settings.def"
#undef SETTING
};

/* What a daemon's command line says beside the settings. */
struct config_command {
    const char *program, *summary; /* of the help; the caller's */
    bool test;                     /* -t: settings were good, exit 0 */
    bool once;                     /* --once, of countd-worker alone */
    bool placed;                   /* --once=placed */
    int ready_fd;                  /* --ready-fd N; -1 */
};

void config_defaults(struct config *c);

#define CONFIG_WHY_SIZE 512 /* of what is wrong with a setting */

/* Sets one key.  -ENOENT unknown key, -EINVAL bad value, -ERANGE out of
 * range; `why` then says what was wrong and what is right. */
int config_set(struct config *c, const char *key, const char *value,
               char why[CONFIG_WHY_SIZE]);

/* Reads a file; the error names file and line. */
int config_file(struct config *c, const char *path, char why[CONFIG_WHY_SIZE]);

/* Reads settings from memory (the fuzz target and config_file use it). */
int config_text(struct config *c, const char *text, size_t size,
                const char *path, char why[CONFIG_WHY_SIZE]);

/* Checks what spans keys: one slot at least must fit log.size, both ports
 * not the same ... */
int config_check(const struct config *c, char why[CONFIG_WHY_SIZE]);

/* A daemon's whole command line: -f FILE, -o KEY=VALUE, -d DIR, -u USER, -t,
 * -h, -V, --ready-fd N, and for countd-worker --once.  Prints help, version or
 * the error itself.  Returns an exit status, or CONFIG_EXIT_NONE. */
int config_daemon(struct config *c, struct config_command *command, int argc,
                  char **argv);

/* The file of settings that is read when no -f names one: $COUNTD_CONF, where
 * an empty value means none; else `fallback` if it is there and this process
 * may read it; else NULL. */
#define CONFIG_FILE "/etc/countd.conf"
const char *config_find(const char *fallback);

/* -f, -o, -d and -u of a command line, for config_load(): the file first, then
 * the others in their order.  Zero-initialised; texts are borrowed. */
#define CONFIG_SOURCES_MAX 64

struct config_sources {
    const char *file;      /* the last -f */
    const char *state_dir; /* data_dir where nothing else names one; or NULL */
    size_t count;
    char letters[CONFIG_SOURCES_MAX]; /* 'o', 'd' or 'u' */
    const char *texts[CONFIG_SOURCES_MAX];
};

/* `letter` is 'f', 'o', 'd' or 'u'.  Returns 0, or an exit status after it has
 * reported that there are too many. */
int config_source_add(struct config_sources *s, int letter, const char *text);

/* The descriptor of --ready-fd, which programs started from here do not
 * inherit.  Returns 0, or an exit status after it has reported that none is
 * open. */
int config_ready_fd(const char *text, int *fd);

/* -t, after config_check(): looks host names up, and checks, as a start does,
 * that each address is of loopback or has networks that may connect, that there
 * are `user` and `socket.group`, and the file of http.tokens as far as it may.
 * As root with `user` the process becomes that user.  Prints that the settings
 * are good, or reports an error.  Returns an exit status. */
int config_test(const struct config *c);

/* Defaults, then sources, of which the file is that of config_find() when none
 * was given.  For root without `user` it is the owner of a data directory that
 * is there.  What spans keys is for those who serve: they call
 * config_check(), and a client does not, as it uses few of them. */
int config_load(struct config *c, const struct config_sources *s,
                char why[CONFIG_WHY_SIZE]);

/* Reads a duration as the file does: "200ms", "1m", "10" (seconds).  -EINVAL,
 * -ERANGE. */
int config_duration(const char *text, uint64_t *ms);

/* Where the value of a setting is: a text, a number, a bool. */
const void *config_at(const struct config *c, const char *key);

/* Whether anything is served at http.listen. */
static inline bool
config_has_http(const struct config *c)
{
    return c->count_http || c->sequence_enable || c->quota_enable;
}

/* The table, for --help and tests: calls `option` for each key in order. */
void config_each(void (*option)(void *ctx, const char *key, const char *type,
                                const char *def, const char *help),
                 void *ctx);

/* Writes `name=address:port` lines and an empty one to the ready fd and
 * closes it; nothing when it is -1.  Tells the service manager, too, if one
 * wants to know (keeper.h). */
void config_ready(int ready_fd, const char *const *lines, size_t count);

/* Reports the same on stderr, in one line. */
void config_report_serving(const char *const *lines, size_t count);

#endif
