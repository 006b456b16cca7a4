/* common/setup/config.c - see config.h.
 *
 * Each setting is one row of `options`.  A row's default is text and goes
 * through the same reader as the file, so what --help prints is what holds.
 */
#include "common/setup/config.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/base/diag.h"
#include "common/base/version.h"
#include "common/net/net.h"
#include "common/net/notify.h"
#include "common/setup/nearest.h"
#include "common/wire/message.h"
#include "common/wire/name.h"

#define FILE_SIZE_MAX ((size_t)1 << 20) /* of a settings file */
#define SHOWN_SIZE    48 /* bytes of a bad key or value shown in an error */
#define SHOWN_TEXT    (4 * SHOWN_SIZE + 4)   /* escaped, with "..." and NUL */
#define LIMIT_SIZE    32                     /* one limit as text */
#define KEY_SIZE      (NAME_TEXT_SIZE + 16)  /* longest key, history.NAME */
#define WHERE_SIZE    (CONFIG_TEXT_SIZE + 8) /* an address and a port */
#define ROW_TEXT      (2 * LIMIT_SIZE + 32)  /* describe_row() */

#define KILO ((uint64_t)1024)
#define MEGA (1024 * KILO)
#define GIGA (1024 * MEGA)

#define SECOND ((uint64_t)1000)
#define MINUTE (60 * SECOND)
#define HOUR   (60 * MINUTE)
#define DAY    (24 * HOUR)

enum kind {
    KIND_PATH,
    KIND_ADDRESS,
    KIND_HOST,
    KIND_USER,
    KIND_BOOL,
    KIND_COUNT,
    KIND_SIZE,
    KIND_TIME,
    KIND_SECONDS, /* whole ones; a number without a unit is seconds too */
    KIND_SYNC,
    KIND_TIERS
};

struct option_row {
    const char *key;
    enum kind kind;
    size_t at; /* of the value in struct config */
    uint64_t min, max;
    const char *def;
    const char *help;
};

#define AT(field) offsetof(struct config, field)

static const struct option_row options[] = {
    {"data_dir", KIND_PATH, AT(data_dir), 1, CONFIG_TEXT_SIZE - 1, "data",
     "directory of all that is kept"},
    {"user", KIND_USER, AT(user), 0, CONFIG_USER_SIZE - 1, "",
     "whom to become when started as root; empty: nobody else"},
    {"log.size", KIND_SIZE, AT(log_size), 16 * KILO, 1 * GIGA, "32M",
     "bytes of each commit log"},
    {"log.count", KIND_COUNT, AT(log_count), 1, 1024, "4",
     "logs made at start"},
    {"log.max", KIND_COUNT, AT(log_max), 2, 65536, "1024",
     "logs there may be; then the writer takes no more"},
    {"log.rotate_after", KIND_TIME, AT(log_rotate_after_ms), 1, DAY, "1s",
     "age of its first message at which a log is handed on"},
    {"log.sync", KIND_SYNC, AT(log_sync_ms), 1, HOUR, "200ms",
     "longest time an increment of the silent port waits for the disk"},
    {"message.keyspace_size", KIND_COUNT, AT(keyspace_size), 1,
     MESSAGE_NAME_MAX, "256", "bytes of the keyspace in a message"},
    {"message.key_size", KIND_COUNT, AT(key_size), 1, MESSAGE_NAME_MAX, "256",
     "bytes of the key in a message"},
    {"write.listen", KIND_ADDRESS, AT(write_listen), 0, CONFIG_TEXT_SIZE - 1,
     "127.0.0.1:48879", "address of the silent port; empty: off"},
    {"write.ack_listen", KIND_ADDRESS, AT(write_ack_listen), 0,
     CONFIG_TEXT_SIZE - 1, "127.0.0.1:48881",
     "address of the acknowledging port; empty: off"},
    {"write.max_connections", KIND_COUNT, AT(write_max_connections), 1, 1000000,
     "16384", "connections to both ports; more wait"},
    {"write.drain", KIND_TIME, AT(write_drain_ms), 0, HOUR, "2s",
     "longest time a clean stop waits for what is on its way"},
    {"read.listen", KIND_ADDRESS, AT(read_listen), 0, CONFIG_TEXT_SIZE - 1,
     "127.0.0.1:48880", "address of the range port; empty: off"},
    {"read.max_connections", KIND_COUNT, AT(read_max_connections), 1, 1000000,
     "16384", "connections to the range port; more wait"},
    {"worker.batch", KIND_COUNT, AT(worker_batch), 1, 1024, "64",
     "logs merged at once"},
    {"worker.memory", KIND_SIZE, AT(worker_memory), 1 * MEGA, 64 * GIGA, "256M",
     "memory for the sums of a merge"},
    {"keyspace.max", KIND_COUNT, AT(keyspace_max), 0, 10000000, "10000",
     "keyspaces there may be; 0: no limit"},
    {"keyspace.max_keys", KIND_COUNT, AT(keyspace_max_keys), 0, 1000000000000,
     "0", "keys of one keyspace; 0: no limit"},
    {"history", KIND_TIERS, AT(history), 0, 0, "1m:2d,1h:90d,1d:10y",
     "steps of history and how long each is kept; history.NAME: of one"},
    {"history.max", KIND_SIZE, AT(history_max), 0, KILO *KILO *GIGA, "0",
     "bytes of the history of one keyspace; 0: no limit"},
    {"held.max", KIND_SIZE, AT(held_max), 0, 1024 * GIGA, "1G",
     "records of keyspaces that cannot take them; 0: no limit"},
    {"archive.keep", KIND_COUNT, AT(archive_keep), 0, 1000000, "0",
     "merged logs kept, compressed"},
    {"live.address", KIND_HOST, AT(live_address), 1, NET_HOST_SIZE - 1,
     "127.0.0.1", "address of the two live ports"},
    {"live.history", KIND_BOOL, AT(live_history), 0, 1, "off",
     "what is acquired, released and refused is counted in live.*"},
    {"counter.enable", KIND_BOOL, AT(counter_enable), 0, 1, "true",
     "counters: acquire and release up to a maximum"},
    {"counter.port", KIND_COUNT, AT(counter_port), 0, 65535, "11215",
     "port of the counters"},
    {"counter.max_connections", KIND_COUNT, AT(counter_max_connections), 0,
     1000000, "0", "connections to it; more are closed; 0: no limit"},
    {"counter.max_memory", KIND_SIZE, AT(counter_max_memory), 16 * MEGA,
     64 * GIGA, "1G", "memory for counters and semaphores together"},
    {"counter.buckets", KIND_COUNT, AT(counter_buckets), 1, 1000000000,
     "1000000", "index of the counters at start, for half as many names"},
    {"counter.stats_interval", KIND_SECONDS, AT(counter_stats_interval_s), 10,
     36500 * DAY / SECOND, "86400",
     "window of the maximum; an idle counter goes when it ends"},
    {"semaphore.enable", KIND_BOOL, AT(semaphore_enable), 0, 1, "false",
     "semaphores: the same with an initial value"},
    {"semaphore.port", KIND_COUNT, AT(semaphore_port), 0, 65535, "11216",
     "port of the semaphores"},
    {"semaphore.max_connections", KIND_COUNT, AT(semaphore_max_connections), 0,
     1000000, "0", "connections to it; more are closed; 0: no limit"},
    {"semaphore.buckets", KIND_COUNT, AT(semaphore_buckets), 1, 1000000000,
     "1000000", "index of the semaphores at start, for half as many names"},
    {"semaphore.gc_interval", KIND_SECONDS, AT(semaphore_gc_interval_s), 1,
     36500 * DAY / SECOND, "10",
     "how often semaphores that nobody holds are removed"},
};

#define OPTION_COUNT (sizeof options / sizeof options[0])

/* Other names of settings, which a real server's file may have. */
static const struct {
    const char *alias, *key;
} aliases[] = {
    {"counter.stat_interval", "counter.stats_interval"},
};

static const char *
key_of(const char *key)
{
    for (size_t i = 0; i < sizeof aliases / sizeof aliases[0]; i++)
        if (strcmp(key, aliases[i].alias) == 0)
            return aliases[i].key;
    return key;
}

/* ---- values as text ---------------------------------------------------- */

struct unit {
    const char *name;
    uint64_t factor;
};

static const struct unit size_units[] = {
    {"G", GIGA}, {"M", MEGA}, {"K", KILO}, {"", 1}};
static const struct unit time_units[] = {
    {"d", DAY}, {"h", HOUR}, {"m", MINUTE}, {"s", SECOND}, {"ms", 1}};
static const struct unit second_units[] = {{"d", DAY / SECOND},
                                           {"h", HOUR / SECOND},
                                           {"m", MINUTE / SECOND},
                                           {"s", 1},
                                           {"", 1}};

static const struct unit *
units_of(enum kind kind, size_t *count)
{
    if (kind == KIND_SIZE) {
        *count = sizeof size_units / sizeof size_units[0];
        return size_units;
    }
    if (kind == KIND_SECONDS) {
        *count = sizeof second_units / sizeof second_units[0];
        return second_units;
    }
    *count = sizeof time_units / sizeof time_units[0];
    return time_units;
}

/* A limit in the largest unit that says it exactly. */
static void
format_limit(enum kind kind, uint64_t value, char text[LIMIT_SIZE])
{
    const char *unit = "";

    if (kind == KIND_SIZE || kind == KIND_TIME || kind == KIND_SECONDS ||
        kind == KIND_SYNC) {
        size_t count;
        const struct unit *units = units_of(kind, &count);

        for (size_t i = 0; i < count; i++) {
            /* Zero is a multiple of all: only the smallest unit says it. */
            if (i + 1 < count && (value == 0 || value % units[i].factor != 0))
                continue;
            value /= units[i].factor;
            unit = units[i].name;
            break;
        }
    }
    (void)snprintf(text, LIMIT_SIZE, "%" PRIu64 "%s", value,
                   unit); /* twenty digits and two letters fit */
}

/* "a size, 16K to 1G": what config_each() and errors say of a row. */
static void
describe_row(const struct option_row *row, char *text, size_t size)
{
    static const char *const names[] = {
        [KIND_COUNT] = "a number",
        [KIND_SIZE] = "a size",
        [KIND_TIME] = "a duration",
        [KIND_SECONDS] = "seconds or a duration",
        [KIND_SYNC] = "always, never or a duration",
    };
    char min[LIMIT_SIZE], max[LIMIT_SIZE];

    format_limit(row->kind, row->min, min);
    format_limit(row->kind, row->max, max);

    /* Longer than any of these is a bug that the tests of --help show. */
    if (row->kind == KIND_PATH)
        (void)snprintf(text, size, "a path of 1 to %s bytes", max);
    else if (row->kind == KIND_ADDRESS)
        (void)snprintf(text, size, "an address and port, or empty");
    else if (row->kind == KIND_HOST)
        (void)snprintf(text, size, "an address without a port");
    else if (row->kind == KIND_USER)
        (void)snprintf(text, size, "a user's name or number, or empty");
    else if (row->kind == KIND_BOOL)
        (void)snprintf(text, size, "true or false");
    else if (row->kind == KIND_TIERS)
        (void)snprintf(text, size, "step:keep, at most four, or off");
    else
        (void)snprintf(text, size, "%s, %s to %s", names[row->kind], min, max);
}

/* ---- reading values ---------------------------------------------------- */

static int fail(char *why, size_t why_size, int rc, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

static int
fail(char *why, size_t why_size, int rc, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    (void)vsnprintf(why, why_size, format, args); /* a cut text still helps */
    va_end(args);
    return rc;
}

/* Bytes from outside as they may be shown: escaped, and cut. */
static const char *
show(const char *bytes, size_t size, char text[SHOWN_TEXT])
{
    const size_t shown = size < SHOWN_SIZE ? size : SHOWN_SIZE;
    const size_t length = name_escape((const uint8_t *)bytes, shown, text);

    if (shown < size)
        memcpy(text + length, "...", 4);
    return text;
}

/* Digits, then one of the units of `kind`.
 *   -EINVAL  not that, -ERANGE  more than 64 bits hold */
static int
read_number(enum kind kind, const char *text, uint64_t *out)
{
    static const struct unit no_unit[] = {{"", 1}};
    const struct unit *units = no_unit;
    size_t count = 1;
    uint64_t value = 0;
    const char *at = text;

    if (kind != KIND_COUNT)
        units = units_of(kind, &count);
    for (; *at >= '0' && *at <= '9'; at++) {
        const uint64_t digit = (uint64_t)(*at - '0');

        if (value > (UINT64_MAX - digit) / 10)
            return -ERANGE;
        value = value * 10 + digit;
    }
    if (at == text)
        return -EINVAL;
    for (size_t i = 0; i < count; i++) {
        if (strcmp(at, units[i].name) != 0)
            continue;
        if (value > UINT64_MAX / units[i].factor)
            return -ERANGE;
        *out = value * units[i].factor;
        return 0;
    }
    return -EINVAL;
}

int
config_duration(const char *text, uint64_t *ms)
{
    return read_number(KIND_TIME, text, ms);
}

/* Only the form: whether the address can be had, net_listen() will see. */
static bool
is_address(const char *text)
{
    return text[0] == '\0' || net_check(text) == 0;
}

/* As it stands in front of a port: a name, an IPv4 address, or an IPv6 one in
 * brackets. */
static bool
is_host(const char *text)
{
    char where[NET_HOST_SIZE + 8];

    if (strlen(text) >= NET_HOST_SIZE)
        return false;
    (void)snprintf(where, sizeof where, "%s:0", text); /* fits */
    return net_check(where) == 0;
}

static const char *
example_of(enum kind kind)
{
    switch (kind) {
    case KIND_PATH:
        return "a path";
    case KIND_ADDRESS:
        return "an address or host name and a port, such as 127.0.0.1:48879 "
               "or [::1]:0";
    case KIND_HOST:
        return "an address or host name without a port, such as 127.0.0.1 or "
               "[::1]";
    case KIND_USER:
        return "a user's name or number";
    case KIND_BOOL:
        return "true or false, or on or off";
    case KIND_COUNT:
        return "a number";
    case KIND_SIZE:
        return "a size: a number, or one with K, M or G, such as 32M";
    case KIND_TIME:
        return "a duration: a number with ms, s, m, h or d, such as 200ms";
    case KIND_SECONDS:
        return "seconds: a number, or one with s, m, h or d, such as 1d";
    case KIND_SYNC:
        return "always, never, or a duration such as 200ms";
    case KIND_TIERS:
        return "steps and how long each is kept, such as 1m:2d,1h:90d, or off";
    }
    return "";
}

static int
set_text(struct config *c, const struct option_row *row, const char *value,
         char *why, size_t why_size)
{
    char *to = (char *)c + row->at;
    const size_t size = strlen(value);
    char shown[SHOWN_TEXT];

    if (size < row->min)
        return fail(why, why_size, -ERANGE, "%s: empty; give %s", row->key,
                    example_of(row->kind));
    if (size > row->max)
        return fail(why, why_size, -ERANGE,
                    "%s: %zu bytes are too many; give at most %" PRIu64,
                    row->key, size, row->max);
    if ((row->kind == KIND_ADDRESS && !is_address(value)) ||
        (row->kind == KIND_HOST && !is_host(value)))
        return fail(why, why_size, -EINVAL, "%s: \"%s\" is wrong; give %s",
                    row->key, show(value, size, shown), example_of(row->kind));
    memcpy(to, value, size + 1);
    return 0;
}

/* As read_number(), with the words that log.sync takes; *word when it was
 * one, which no limit applies to. */
static int
read_value(enum kind kind, const char *text, uint64_t *out, bool *word)
{
    *word = kind == KIND_SYNC &&
            (strcmp(text, "always") == 0 || strcmp(text, "never") == 0);
    if (!*word)
        return read_number(kind, text, out);
    *out = text[0] == 'a' ? CONFIG_SYNC_ALWAYS : CONFIG_SYNC_NEVER;
    return 0;
}

static int
set_number(struct config *c, const struct option_row *row, const char *value,
           char *why, size_t why_size)
{
    char shown[SHOWN_TEXT], limits[ROW_TEXT];
    uint64_t number = 0;
    bool word;
    const int rc = read_value(row->kind, value, &number, &word);

    if (rc == -EINVAL)
        return fail(why, why_size, rc, "%s: \"%s\" is wrong; give %s", row->key,
                    show(value, strlen(value), shown), example_of(row->kind));
    if (rc < 0 || (!word && (number < row->min || number > row->max))) {
        describe_row(row, limits, sizeof limits);
        return fail(why, why_size, -ERANGE, "%s: %s is out of range; give %s",
                    row->key, show(value, strlen(value), shown), limits);
    }
    memcpy((char *)c + row->at, &number, sizeof number);
    return 0;
}

static int
unknown_key(const char *key, char *why, size_t why_size)
{
    struct nearest nearest = {0};
    char shown[SHOWN_TEXT];

    for (size_t i = 0; i < OPTION_COUNT; i++)
        nearest_offer(&nearest, key, options[i].key);
    (void)show(key, strlen(key), shown); /* `shown` is what it returns */
    if (nearest.best != NULL)
        return fail(why, why_size, -ENOENT,
                    "%s: no such setting; did you mean %s?", shown,
                    nearest.best);
    return fail(why, why_size, -ENOENT,
                "%s: no such setting; countd-write -h lists them all", shown);
}

static int
set_bool(struct config *c, const struct option_row *row, const char *value,
         char *why, size_t why_size)
{
    static const char *const words[] = {"false", "true", "off", "on"};
    char shown[SHOWN_TEXT];

    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        if (strcmp(value, words[i]) != 0)
            continue;
        *((bool *)((char *)c + row->at)) = i % 2 == 1;
        return 0;
    }
    return fail(why, why_size, -EINVAL, "%s: \"%s\" is wrong; give %s",
                row->key, show(value, strlen(value), shown),
                example_of(row->kind));
}

/* `history`, or `history.` and the name of a keyspace. */
static int
set_tiers(struct config *c, const char *key, const char *value, char *why,
          size_t why_size)
{
    const char *name = strchr(key, '.');
    char shown[SHOWN_TEXT];
    const char *what;
    int rc;

    rc = tiers_rules_set(&c->history, name == NULL ? NULL : name + 1, value,
                         &what);
    if (rc < 0)
        return fail(why, why_size, -EINVAL, "%s: %s",
                    show(key, strlen(key), shown), what);
    return 0;
}

int
config_set(struct config *c, const char *key, const char *value, char *why,
           size_t why_size)
{
    const char *known = key_of(key);

    for (size_t i = 0; i < OPTION_COUNT; i++) {
        const struct option_row *row = &options[i];

        if (strcmp(known, row->key) != 0)
            continue;
        if (row->kind == KIND_PATH || row->kind == KIND_ADDRESS ||
            row->kind == KIND_HOST || row->kind == KIND_USER)
            return set_text(c, row, value, why, why_size);
        if (row->kind == KIND_BOOL)
            return set_bool(c, row, value, why, why_size);
        if (row->kind == KIND_TIERS)
            return set_tiers(c, key, value, why, why_size);
        return set_number(c, row, value, why, why_size);
    }
    if (strncmp(key, "history.", 8) == 0)
        return set_tiers(c, key, value, why, why_size);
    return unknown_key(key, why, why_size);
}

void
config_defaults(struct config *c)
{
    char why[256];

    memset(c, 0, sizeof *c);
    for (size_t i = 0; i < OPTION_COUNT; i++) {
        const int rc =
            config_set(c, options[i].key, options[i].def, why, sizeof why);

        assert(rc == 0);
    }
}

/* ---- reading a file ---------------------------------------------------- */

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
trim(struct piece p)
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
value_of(struct piece *p, char *why, size_t why_size)
{
    const char *end;
    struct piece rest;

    *p = trim(*p);
    if (p->size > 0 && p->at[0] == '"') {
        end = memchr(p->at + 1, '"', p->size - 1);
        if (end == NULL)
            return fail(why, why_size, -EINVAL,
                        "a quote is not closed; give \" at both ends");
        rest.at = end + 1;
        rest.size = p->size - (size_t)(rest.at - p->at);
        rest = trim(rest);
        if (rest.size > 0 && rest.at[0] != '#')
            return fail(why, why_size, -EINVAL,
                        "something follows the closing quote; give key = "
                        "\"value\" only");
        p->at++;
        p->size = (size_t)(end - p->at);
        return 0;
    }
    end = memchr(p->at, '#', p->size);
    if (end != NULL) {
        p->size = (size_t)(end - p->at);
        *p = trim(*p);
    }
    return 0;
}

/* One line: nothing, a comment, or key = value. */
static int
set_line(struct config *c, struct piece line, char *why, size_t why_size)
{
    char key[KEY_SIZE], value[CONFIG_TEXT_SIZE];
    char shown[SHOWN_TEXT];
    struct piece k, v;
    const char *equals;
    int rc;

    line = trim(line);
    if (line.size == 0 || line.at[0] == '#')
        return 0;
    if (memchr(line.at, '\0', line.size) != NULL)
        return fail(why, why_size, -EINVAL,
                    "a zero byte; settings are lines of text");
    equals = memchr(line.at, '=', line.size);
    if (equals == NULL)
        return fail(why, why_size, -EINVAL,
                    "\"%s\" is no setting; give key = value",
                    show(line.at, line.size, shown));

    k = trim((struct piece){line.at, (size_t)(equals - line.at)});
    if (k.size == 0 || k.size >= sizeof key)
        return fail(why, why_size, -ENOENT,
                    "\"%s\": no such setting; countd-write -h lists them all",
                    show(k.at, k.size, shown));
    v.at = equals + 1;
    v.size = line.size - (size_t)(v.at - line.at);
    rc = value_of(&v, why, why_size);
    if (rc < 0)
        return rc;
    if (v.size >= sizeof value)
        return fail(why, why_size, -ERANGE,
                    "a value of %zu bytes; give at most %zu", v.size,
                    sizeof value - 1);

    memcpy(key, k.at, k.size);
    key[k.size] = '\0';
    memcpy(value, v.at, v.size);
    value[v.size] = '\0';
    return config_set(c, key, value, why, why_size);
}

int
config_text(struct config *c, const char *text, size_t size, const char *path,
            char *why, size_t why_size)
{
    char line_why[512], shown[SHOWN_TEXT];
    size_t at = 0;

    for (size_t number = 1; at < size; number++) {
        const char *start = text + at;
        const char *end = memchr(start, '\n', size - at);
        const size_t length = end ? (size_t)(end - start) : size - at;
        const int rc = set_line(c, (struct piece){start, length}, line_why,
                                sizeof line_why);

        if (rc < 0)
            return fail(why, why_size, rc, "%s:%zu: %s",
                        show(path, strlen(path), shown), number, line_why);
        at += length + 1;
    }
    return 0;
}

/* Reads a whole small file; *size bytes are the caller's to free. */
static int
read_whole(int fd, char **out, size_t *size)
{
    char *bytes = malloc(FILE_SIZE_MAX + 1);
    size_t got = 0;
    int rc;

    if (bytes == NULL)
        return -ENOMEM;
    while (got <= FILE_SIZE_MAX) {
        const ssize_t n = read(fd, bytes + got, FILE_SIZE_MAX + 1 - got);

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0) {
            rc = -errno;
            goto free_bytes;
        }
        if (n == 0) {
            *out = bytes;
            *size = got;
            return 0;
        }
        got += (size_t)n;
    }
    rc = -EFBIG;

free_bytes:
    free(bytes);
    return rc;
}

int
config_file(struct config *c, const char *path, char *why, size_t why_size)
{
    char shown[SHOWN_TEXT];
    char *text = NULL;
    size_t size = 0;
    int fd, rc;

    fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        rc = -errno;
        return fail(why, why_size, rc,
                    "%s: %s; give a settings file that "
                    "can be read",
                    show(path, strlen(path), shown), strerror(-rc));
    }
    rc = read_whole(fd, &text, &size);
    (void)close(fd); /* only read: nothing can be lost */
    if (rc < 0)
        return fail(why, why_size, rc,
                    "%s: %s; give a text file of at most "
                    "1 MiB",
                    show(path, strlen(path), shown), strerror(-rc));
    rc = config_text(c, text, size, path, why, why_size);
    free(text);
    return rc;
}

/* ---- what spans keys --------------------------------------------------- */

struct place {
    const char *key;
    const char *address;
};

static bool
may_be_shared(const char *address)
{
    const char *colon = strrchr(address, ':');

    /* Empty is off, and any number of ports may take a free one. */
    return colon == NULL || strspn(colon + 1, "0") == strlen(colon + 1);
}

static int
check_addresses(const struct config *c, char *why, size_t why_size)
{
    char counter[WHERE_SIZE] = "", semaphore[WHERE_SIZE] = "";
    const struct place places[] = {
        {"write.listen", c->write_listen},
        {"write.ack_listen", c->write_ack_listen},
        {"read.listen", c->read_listen},
        {"counter.port", counter},
        {"semaphore.port", semaphore},
    };
    const size_t count = sizeof places / sizeof places[0];

    /* Both have room for any address and port. */
    if (c->counter_enable)
        (void)snprintf(counter, sizeof counter, "%s:%" PRIu64, c->live_address,
                       c->counter_port);
    if (c->semaphore_enable)
        (void)snprintf(semaphore, sizeof semaphore, "%s:%" PRIu64,
                       c->live_address, c->semaphore_port);
    for (size_t i = 0; i < count; i++) {
        const char *a = places[i].address;

        if (may_be_shared(a))
            continue;
        for (size_t j = i + 1; j < count; j++)
            if (strcmp(a, places[j].address) == 0)
                return fail(why, why_size, -EINVAL,
                            "%s and %s are both %s; give each its own port",
                            places[i].key, places[j].key, a);
    }
    return 0;
}

static int
check_history(const struct config *c, char *why, size_t why_size)
{
    if (!c->live_history || (!c->counter_enable && !c->semaphore_enable))
        return 0;
    if (c->keyspace_size < CONFIG_HISTORY_KEYSPACE_MIN)
        return fail(why, why_size, -EINVAL,
                    "live.history: message.keyspace_size of %" PRIu64
                    " does not hold live.semaphore.acquired; give at least "
                    "%d, or live.history = off",
                    c->keyspace_size, CONFIG_HISTORY_KEYSPACE_MIN);
    if (c->key_size < CONFIG_HISTORY_KEY_MIN)
        return fail(why, why_size, -EINVAL,
                    "live.history: message.key_size of %" PRIu64
                    " does not hold the hash of a long name; give at least "
                    "%d, or live.history = off",
                    c->key_size, CONFIG_HISTORY_KEY_MIN);
    return 0;
}

int
config_check(const struct config *c, char *why, size_t why_size)
{
    /* As layout_init() computes it: message, epoch, time, synced, crc32. */
    const uint64_t slot_size = 8 + c->keyspace_size + c->key_size + 24;

    if (c->log_size < LAYOUT_SLOTS_AT + slot_size)
        return fail(why, why_size, -EINVAL,
                    "log.size: %" PRIu64 " bytes hold no message; give at "
                    "least %" PRIu64,
                    c->log_size, LAYOUT_SLOTS_AT + slot_size);
    if (c->log_count > c->log_max)
        return fail(why, why_size, -EINVAL,
                    "log.count is %" PRIu64 " and log.max %" PRIu64
                    "; give log.max at least log.count",
                    c->log_count, c->log_max);
    if (check_history(c, why, why_size) < 0)
        return -EINVAL;
    return check_addresses(c, why, why_size);
}

void
config_each(void (*option)(void *ctx, const char *key, const char *type,
                           const char *def, const char *help),
            void *ctx)
{
    for (size_t i = 0; i < OPTION_COUNT; i++) {
        char type[ROW_TEXT];

        describe_row(&options[i], type, sizeof type);
        option(ctx, options[i].key, type, options[i].def, options[i].help);
    }
}

/* ---- the command line -------------------------------------------------- */

int
config_source_add(struct config_sources *s, int letter, const char *text)
{
    if (letter == 'f') {
        s->file = text;
        return 0;
    }
    assert(letter == 'o' || letter == 'd' || letter == 'u');
    if (s->count == CONFIG_SOURCES_MAX)
        return -E2BIG;
    s->letters[s->count] = (char)letter;
    s->texts[s->count++] = text;
    return 0;
}

static int
set_override(struct config *c, const char *text, char *why, size_t why_size)
{
    const char *equals = strchr(text, '=');
    char key[KEY_SIZE], shown[SHOWN_TEXT];
    size_t size;

    if (equals == NULL)
        return fail(why, why_size, -EINVAL, "-o %s: give -o KEY=VALUE",
                    show(text, strlen(text), shown));
    size = (size_t)(equals - text);
    if (size == 0 || size >= sizeof key)
        return fail(why, why_size, -ENOENT,
                    "-o %s: no such setting; countd-write -h lists them all",
                    show(text, strlen(text), shown));
    memcpy(key, text, size);
    key[size] = '\0';
    return config_set(c, key, equals + 1, why, why_size);
}

int
config_load(struct config *c, const struct config_sources *s, char *why,
            size_t why_size)
{
    int rc = 0;

    config_defaults(c);
    if (s->file != NULL)
        rc = config_file(c, s->file, why, why_size);
    for (size_t i = 0; rc == 0 && i < s->count; i++) {
        if (s->letters[i] == 'd')
            rc = config_set(c, "data_dir", s->texts[i], why, why_size);
        else if (s->letters[i] == 'u')
            rc = config_set(c, "user", s->texts[i], why, why_size);
        else
            rc = set_override(c, s->texts[i], why, why_size);
    }
    return rc;
}

static void
print_setting(void *ctx, const char *key, const char *type, const char *def,
              const char *help)
{
    FILE *out = ctx;

    /* Help that cannot be written helps nobody. */
    (void)fprintf(out, "  %-25s %s\n%28s%s; default %s\n", key, help, "", type,
                  def[0] != '\0' ? def : "empty");
}

static int
print_help(const char *program, const char *summary)
{
    (void)printf("%s - %s\n\n"
                 "usage: %s [-f FILE] [-o KEY=VALUE]... [-d DIR] [-u USER]"
                 " [-t] [--ready-fd N]\n\n"
                 "  -f FILE          read settings from FILE\n"
                 "  -o KEY=VALUE     override one setting\n"
                 "  -d DIR           the same as -o data_dir=DIR\n"
                 "  -u, --user USER  the same as -o user=USER\n"
                 "  -t               check the settings and exit\n"
                 "  -h, --help       this text\n"
                 "  -V, --version    the version\n"
                 "  --ready-fd N     write name=address:port lines and an "
                 "empty one to\n"
                 "                   descriptor N when serving\n\n"
                 "Settings (key = value lines, # comments):\n",
                 program, summary, program); /* as in print_setting */
    config_each(print_setting, stdout);
    return fflush(stdout) == 0 ? CONFIG_EXIT_OK : CONFIG_EXIT_SYSTEM;
}

/* Reads a descriptor number that is open. */
static int
read_ready_fd(const char *text, int *fd)
{
    uint64_t value;

    if (read_number(KIND_COUNT, text, &value) < 0 || value > 1 << 20)
        return -EINVAL;
    if (fcntl((int)value, F_GETFD) < 0)
        return -EBADF;
    *fd = (int)value;
    return 0;
}

/* Says what is wrong with the option getopt_long() stopped at. */
static int
bad_option(int option, char **argv)
{
    const char *what = option == ':' ? "needs a value" : "no such option";

    /* A letter is in optopt; of a long option only the word is known. */
    if (optopt > 0 && strncmp(argv[optind - 1], "--", 2) != 0)
        diag(DIAG_ERROR, "-%c: %s; see -h", optopt, what);
    else
        diag(DIAG_ERROR, "%s: %s; see -h", argv[optind - 1], what);
    return CONFIG_EXIT_USAGE;
}

/* Takes one option; returns as config_daemon(). */
static int
take_option(int option, struct config_sources *sources,
            struct config_command *command, char **argv, const char *program,
            const char *summary)
{
    switch (option) {
    case 'f':
    case 'o':
    case 'd':
    case 'u':
        if (config_source_add(sources, option, optarg) == 0)
            return -1;
        diag(DIAG_ERROR, "more than %d -o, -d and -u; put them into a file",
             CONFIG_SOURCES_MAX);
        return CONFIG_EXIT_USAGE;
    case 't':
        command->test = true;
        return -1;
    case 'h':
        return print_help(program, summary);
    case 'V':
        (void)printf("%s %s\n", program, VERSION); /* fflush tells */
        return fflush(stdout) == 0 ? CONFIG_EXIT_OK : CONFIG_EXIT_SYSTEM;
    case 'r':
        if (read_ready_fd(optarg, &command->ready_fd) == 0)
            return -1;
        diag(DIAG_ERROR,
             "--ready-fd %s: give the number of an open "
             "descriptor",
             optarg);
        return CONFIG_EXIT_USAGE;
    default:
        return bad_option(option, argv);
    }
}

int
config_daemon(struct config *c, struct config_command *command, int argc,
              char **argv, const char *program, const char *summary)
{
    static const struct option longs[] = {
        {"help", no_argument, NULL, 'h'},
        {"version", no_argument, NULL, 'V'},
        {"user", required_argument, NULL, 'u'},
        {"ready-fd", required_argument, NULL, 'r'},
        {NULL, 0, NULL, 0},
    };
    struct config_sources sources = {0};
    char why[512];
    int option;

    diag_init(program, DIAG_INFO);
    *command = (struct config_command){.ready_fd = -1};
    optind = 0; /* start over: tests parse more than one line */
    opterr = 0;
    while ((option = getopt_long(argc, argv, "+:f:o:d:u:thV", longs, NULL)) !=
           -1) {
        const int status =
            take_option(option, &sources, command, argv, program, summary);

        if (status >= 0)
            return status;
    }
    command->arg_first = optind;
    if (optind < argc) {
        diag(DIAG_ERROR, "%s: no argument was expected; see -h", argv[optind]);
        return CONFIG_EXIT_USAGE;
    }
    if (config_load(c, &sources, why, sizeof why) < 0 ||
        config_check(c, why, sizeof why) < 0) {
        diag(DIAG_ERROR, "%s", why);
        return CONFIG_EXIT_USAGE;
    }
    if (!command->test)
        return -1;
    (void)puts("settings are good"); /* fflush tells */
    return fflush(stdout) == 0 ? CONFIG_EXIT_OK : CONFIG_EXIT_SYSTEM;
}

void
config_ready(int ready_fd, const char *const *lines, size_t count)
{
    char text[4096];
    size_t size = 0;
    size_t sent = 0;

    notify_ready();
    if (ready_fd < 0)
        return;
    for (size_t i = 0; i < count; i++) {
        const size_t line = strlen(lines[i]);

        assert(size + line + 2 <= sizeof text);
        memcpy(text + size, lines[i], line);
        size += line;
        text[size++] = '\n';
    }
    text[size++] = '\n';
    while (sent < size) {
        const ssize_t n = write(ready_fd, text + sent, size - sent);

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            break; /* whoever wanted to know has gone; serve all the same */
        sent += (size_t)n;
    }
    (void)close(ready_fd); /* a pipe: nothing is lost */
}
