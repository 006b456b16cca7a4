/* common/setup/config_value.c - what a value of each kind may be.
 *
 * `kinds` has a row for each: how it is set, which words or units it takes, and
 * what --help and errors say of it.  config_set_value() reads a value,
 * config_describe_row() describes what a row takes. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "common/setup/config_internal.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "common/net/conn.h"
#include "common/net/networks.h"
#include "common/wire/carbon_line.h"

#define LIMIT_SIZE 32 /* one limit as text */

/* A value that is to be set. */
struct change {
    struct config *config;
    const struct config_row *row;
    const char *key; /* as given: the row's, an alias, or history.NAME */
    const char *value;
    char *why;
};

struct unit {
    const char *name;
    uint64_t factor;
};

/* `words` ends with NULL, `units` with a unit whose name is NULL. */
struct kind {
    const char *type;    /* in the list of settings */
    const char *example; /* in errors; NULL: the type */
    int (*set)(const struct change *ch);
    int (*check)(const struct change *ch); /* of a text; NULL: any will do */
    const char *const *words;              /* of a bool: false, true, ... */
    const struct unit *units;              /* of a number, largest first */
};
static const struct kind kinds[KIND_END];

/* ---- errors ------------------------------------------------------------ */

int
config_fail(char why[CONFIG_WHY_SIZE], int rc, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    /* A cut text still helps. */
    (void)vsnprintf(why, CONFIG_WHY_SIZE, format, args);
    va_end(args);
    return rc;
}

static const char *
example_of(const struct change *ch)
{
    const struct kind *k = &kinds[ch->row->kind];

    return k->example != NULL ? k->example : k->type;
}

/* Reports which part of the value is wrong: -EINVAL. */
static int
refuse_part(const struct change *ch, const char *wrong, size_t size)
{
    char shown[NAME_SHOWN_SIZE];

    return config_fail(ch->why, -EINVAL, "%s: \"%s\" is wrong; give %s",
                       ch->row->key, name_show(wrong, size, shown),
                       example_of(ch));
}

static int
refuse_value(const struct change *ch)
{
    return refuse_part(ch, ch->value, strlen(ch->value));
}

/* ---- texts ------------------------------------------------------------- */

/* Only the form: whether the address can be had, net_bind() will see. */
static int
check_inet(const struct change *ch)
{
    return ch->value[0] == '\0' || net_check(ch->value) == 0 ? 0
                                                             : refuse_value(ch);
}

static int
check_address(const struct change *ch)
{
    return strcmp(ch->value, LISTENER_NO_PORT) == 0 ? 0 : check_inet(ch);
}

/* As it stands in front of a port: a name, an IPv4 address, or an IPv6 one in
 * brackets. */
static int
check_host(const struct change *ch)
{
    char where[NET_HOST_SIZE + 8];

    (void)snprintf(where, sizeof where, "%s:0", ch->value);
    return strlen(ch->value) < NET_HOST_SIZE && net_check(where) == 0
               ? 0
               : refuse_value(ch);
}

/* Settings are printed, shown and copied, so they have no password: libpq has
 * files for it. */
static int
check_conninfo(const struct change *ch)
{
    const char *word = strstr(ch->value, "password");
    const char *url = strstr(ch->value, "://");
    const char *host = url ? strchr(url + 3, '@') : NULL;

    if (host && memchr(url + 3, ':', (size_t)(host - url - 3)))
        word = url;
    return word ? refuse_part(ch, "password", strlen("password")) : 0;
}

/* As it is without quotes. */
static int
check_schema(const struct change *ch)
{
    const char *text = ch->value;
    const size_t size = strspn(text, "abcdefghijklmnopqrstuvwxyz0123456789_");

    return text[size] != '\0' || (*text >= '0' && *text <= '9')
               ? refuse_value(ch)
               : 0;
}

static int
check_networks(const struct change *ch)
{
    char shown[NAME_SHOWN_SIZE];
    struct networks parsed;
    const char *wrong;
    size_t size;
    const int rc = networks_parse(ch->value, &parsed, &wrong, &size);

    if (rc == -E2BIG)
        return config_fail(ch->why, rc, "%s: more than %d networks",
                           ch->row->key, NETWORKS_MAX);
    if (rc == -ERANGE)
        return config_fail(ch->why, rc,
                           "%s: %s has bits set behind its prefix; give the "
                           "network's own address, such as 10.0.0.0/8",
                           ch->row->key, name_show(wrong, size, shown));
    return rc < 0 ? refuse_part(ch, wrong, size) : 0;
}

static int
check_patterns(const struct change *ch)
{
    const char *wrong;
    size_t size;

    return carbon_check_patterns(ch->value, &wrong, &size) < 0
               ? refuse_part(ch, wrong, size)
               : 0;
}

static int
set_text(const struct change *ch)
{
    const struct config_row *row = ch->row;
    const size_t size = strlen(ch->value);
    int rc = 0;

    if (size < row->min)
        return config_fail(ch->why, -ERANGE, "%s: empty; give %s", row->key,
                           example_of(ch));
    if (size >= row->size)
        return config_fail(ch->why, -ERANGE,
                           "%s: %zu bytes are too many; give at most %zu",
                           row->key, size, row->size - 1);
    if (kinds[row->kind].check != NULL)
        rc = kinds[row->kind].check(ch);
    if (rc == 0)
        memcpy((char *)ch->config + row->at, ch->value, size + 1);
    return rc;
}

/* ---- numbers ----------------------------------------------------------- */

static const struct unit no_units[] = {{"", 1}, {0}};
static const struct unit size_units[] = {
    {"G", 1 << 30}, {"M", 1 << 20}, {"K", 1 << 10}, {"", 1}, {0}};
static const struct unit time_units[] = {
    {"d", 86400000}, {"h", 3600000}, {"m", 60000}, {"s", 1000},
    {"ms", 1},       {"", 1000},     {0}};
static const struct unit second_units[] = {{"d", 86400}, {"h", 3600}, {"m", 60},
                                           {"s", 1},     {"", 1},     {0}};

/* Digits, then one of the units.
 *   -EINVAL  not that, -ERANGE  more than 64 bits hold */
static int
read_number(const struct unit *units, const char *text, uint64_t *out)
{
    uint64_t value = 0;
    const char *at = text;

    for (; *at >= '0' && *at <= '9'; at++) {
        const uint64_t digit = (uint64_t)(*at - '0');

        if (value > (UINT64_MAX - digit) / 10)
            return -ERANGE;
        value = value * 10 + digit;
    }
    if (at == text)
        return -EINVAL;
    while (units->name != NULL && strcmp(at, units->name) != 0)
        units++;
    if (units->name == NULL)
        return -EINVAL;
    if (value > UINT64_MAX / units->factor)
        return -ERANGE;
    *out = value * units->factor;
    return 0;
}

int
config_duration(const char *text, uint64_t *ms)
{
    return read_number(time_units, text, ms);
}

/* Some words are numbers that no limit applies to: always and never, and the
 * port that is a socket. */
static bool
is_word(const struct change *ch, uint64_t *number)
{
    static const struct {
        enum config_kind kind;
        const char *word;
        uint64_t number;
    } words[] = {
        {KIND_PORT, LISTENER_NO_PORT, CONFIG_PORT_SOCKET},
        {KIND_SYNC, "always", CONFIG_SYNC_ALWAYS},
        {KIND_SYNC, "never", CONFIG_SYNC_NEVER},
    };

    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        if (words[i].kind == ch->row->kind &&
            strcmp(words[i].word, ch->value) == 0) {
            *number = words[i].number;
            return true;
        }
    return false;
}

static int
set_number(const struct change *ch)
{
    char shown[NAME_SHOWN_SIZE], limits[CONFIG_TYPE_TEXT];
    const struct config_row *row = ch->row;
    uint64_t number = 0;
    int rc = 0;

    if (!is_word(ch, &number)) {
        rc = read_number(kinds[row->kind].units, ch->value, &number);
        if (rc == 0 && (number < row->min || number > row->max))
            rc = -ERANGE;
    }
    if (rc == -EINVAL)
        return refuse_value(ch);
    if (rc < 0) {
        config_describe_row(row, limits);
        return config_fail(
            ch->why, rc, "%s: %s is out of range; give %s", row->key,
            name_show(ch->value, strlen(ch->value), shown), limits);
    }
    memcpy((char *)ch->config + row->at, &number, sizeof number);
    return 0;
}

/* ---- words and tiers --------------------------------------------------- */

static int
set_bool(const struct change *ch)
{
    const char *const *words = kinds[ch->row->kind].words;

    for (size_t i = 0; words[i] != NULL; i++)
        if (strcmp(ch->value, words[i]) == 0) {
            *(bool *)((char *)ch->config + ch->row->at) = i % 2 == 1;
            return 0;
        }
    return refuse_value(ch);
}

/* `history`, or `history.` and the name of a keyspace. */
static int
set_tiers(const struct change *ch)
{
    const char *name = strchr(ch->key, '.');
    char shown[NAME_SHOWN_SIZE];
    const char *what;

    if (tiers_rules_set(&ch->config->history, name == NULL ? NULL : name + 1,
                        ch->value, &what) == 0)
        return 0;
    return config_fail(ch->why, -EINVAL, "%s: %s",
                       name_show(ch->key, strlen(ch->key), shown), what);
}

/* ---- the kinds --------------------------------------------------------- */

#define TEXT(type, example, check)                                             \
    {                                                                          \
        type, example, set_text, check, NULL, NULL                             \
    }
#define NUMBER(type, example, units)                                           \
    {                                                                          \
        type, example, set_number, NULL, NULL, units                           \
    }
#define WORD(type, example, ...)                                               \
    {                                                                          \
        type, example, set_bool, NULL,                                         \
            (const char *const[]){__VA_ARGS__, NULL}, NULL                     \
    }

static const struct kind kinds[KIND_END] = {
    [KIND_PATH] = TEXT("a path", NULL, NULL),
    [KIND_ADDRESS] = TEXT("an address and port, socket, or empty",
                          "an address or host name and a port, such as "
                          "127.0.0.1:48879 or [::1]:0, or socket",
                          check_address),
    [KIND_INET] = TEXT("an address and port, or empty",
                       "an address or host name and a port, such as "
                       "127.0.0.1:48881 or [::1]:0",
                       check_inet),
    [KIND_HOST] =
        TEXT("an address without a port",
             "an address or host name without a port, such as 127.0.0.1 "
             "or [::1]",
             check_host),
    [KIND_USER] = TEXT("a user's name or number, or empty", NULL, NULL),
    [KIND_GROUP] = TEXT("a group's name or number, or empty", NULL, NULL),
    [KIND_KEYSPACE] = TEXT("a keyspace", NULL, NULL),
    [KIND_PATTERNS] =
        TEXT("paths with one * each, or empty",
             "paths with exactly one * each, such as stats_counts.*",
             check_patterns),
    [KIND_NAMES] = TEXT("names with blanks between, or empty", NULL, NULL),
    [KIND_NETWORKS] =
        TEXT("networks with blanks between, or empty",
             "networks with blanks between, such as 10.0.0.0/8 or "
             "fd00::/8",
             check_networks),
    [KIND_CONNINFO] =
        TEXT("words of libpq without a password, or empty",
             "what libpq takes without a password, such as host=db "
             "dbname=counts passfile=/etc/countd.pgpass",
             check_conninfo),
    [KIND_SCHEMA] = TEXT("a name of a-z, 0-9 and _", NULL, check_schema),
    [KIND_STORE] = WORD("files or postgresql", NULL, "files", "postgresql"),
    [KIND_BOOL] = WORD("true or false", "true or false, or on or off", "false",
                       "true", "off", "on"),
    [KIND_TAGS] = WORD("drop or append", NULL, "drop", "append"),
    [KIND_TIERS] = {.type = "step:keep, at most four, or off",
                    .set = set_tiers},
    [KIND_PORT] = NUMBER("socket or a number", "socket, or a number", no_units),
    [KIND_COUNT] = NUMBER("a number", NULL, no_units),
    [KIND_SIZE] =
        NUMBER("a size", "a size: a number, or one with K, M or G, such as 32M",
               size_units),
    [KIND_TIME] =
        NUMBER("a duration",
               "a duration: a number of seconds, or one with ms, s, m, h "
               "or d, such as 200ms",
               time_units),
    [KIND_SECONDS] =
        NUMBER("seconds or a duration",
               "seconds: a number, or one with s, m, h or d, such as "
               "1d",
               second_units),
    [KIND_SYNC] =
        NUMBER("always, never or a duration",
               "always, never, or a duration such as 200ms", time_units),
};

int
config_set_value(struct config *c, const struct config_row *row,
                 const char *key, const char *value, char why[CONFIG_WHY_SIZE])
{
    const struct change ch = {c, row, key, value, why};

    return kinds[row->kind].set(&ch);
}

/* Formats a limit in the largest unit that says it exactly.  Zero is a multiple
 * of all units: only the smallest says it. */
static void
format_limit(const struct unit *units, uint64_t value, char text[LIMIT_SIZE])
{
    while (units[1].name != NULL && (value == 0 || value % units->factor != 0))
        units++;
    (void)snprintf(text, LIMIT_SIZE, "%" PRIu64 "%s", value / units->factor,
                   units->name);
}

void
config_describe_row(const struct config_row *row, char text[CONFIG_TYPE_TEXT])
{
    const struct kind *k = &kinds[row->kind];
    char min[LIMIT_SIZE], max[LIMIT_SIZE];

    if (row->kind == KIND_PATH) {
        (void)snprintf(text, CONFIG_TYPE_TEXT,
                       row->min > 0 ? "a path of 1 to %zu bytes"
                                    : "a path of at most %zu bytes, or empty",
                       row->size - 1);
    } else if (row->kind == KIND_KEYSPACE) {
        (void)snprintf(text, CONFIG_TYPE_TEXT, "%s of at most %zu bytes",
                       k->type, row->size - 1);
    } else if (k->units == NULL) {
        (void)snprintf(text, CONFIG_TYPE_TEXT, "%s", k->type);
    } else {
        format_limit(k->units, row->min, min);
        format_limit(k->units, row->max, max);
        (void)snprintf(text, CONFIG_TYPE_TEXT, "%s, %s to %s", k->type, min,
                       max);
    }
}
