/* common/client/cmd/cmd_connect.c - connections to the daemons; see cmd.h.
 * cmd_find_place() decides between socket and port by the rule at struct
 * cmd_place, cmd_connect() connects. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "common/client/cmd/cmd.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/net/conn.h"
#include "common/net/local.h"
#include "common/net/net.h"

/* Replaces the host of `address`, and keeps its port.  An address without a port
 * (off, or only a socket) stays as it is. */
static void
replace_host(char address[CONFIG_TEXT_SIZE], const char *host)
{
    const char *colon = strrchr(address, ':');
    char port[16];

    if (colon == NULL)
        return;
    (void)snprintf(port, sizeof port, "%s", colon);
    (void)snprintf(address, CONFIG_TEXT_SIZE, "%s%s", host, port);
}

int
cmd_set_host(struct config *c, const char *host)
{
    /* ::1 becomes [::1]. */
    const bool needs_brackets = strchr(host, ':') != NULL && host[0] != '[';
    char text[NET_HOST_SIZE], why[CONFIG_WHY_SIZE];
    const int size =
        snprintf(text, sizeof text, needs_brackets ? "[%s]" : "%s", host);

    if (size <= 0 || size >= NET_HOST_SIZE ||
        config_set(c, "live.address", text, why) < 0)
        return cmd_fail(
            CONFIG_EXIT_USAGE,
            "-H: give an address or host name without a port, such as db1 "
            "or 192.0.2.7");
    replace_host(c->write_listen, text);
    replace_host(c->write_ack_listen, text);
    replace_host(c->read_http, text);
    replace_host(c->http_listen, text);
    return 0;
}

/* ---- place ------------------------------------------------------------- */

static const struct {
    const char *socket;
    const char *word;
    /* The setting of host and port, or of a port of live.address. */
    const char *key;
    bool is_port;
} places[] = {
    [CMD_READER] = {LOCAL_READ_HTTP, "read", "read.http", false},
    [CMD_HISTORY] = {LOCAL_READ_HTTP, "read", "read.http", false},
    [CMD_WRITER] = {LOCAL_ACK, "write", "write.ack_listen", false},
    [CMD_WRITER_SILENT] = {LOCAL_COUNT, "write", "write.listen", false},
    [CMD_COUNTER] = {LOCAL_COUNTER, "counter", "counter.port", true},
    [CMD_SEMAPHORE] = {LOCAL_SEMAPHORE, "semaphore", "semaphore.port", true},
    [CMD_SEQUENCE] = {LOCAL_HTTP, "sequence", "http.listen", false},
    [CMD_QUOTA] = {LOCAL_HTTP, "quota", "http.listen", false},
};

static void
format_address(const struct config *c, enum cmd_peer peer, char *text,
               size_t size)
{
    const void *value = config_at(c, places[peer].key);
    uint64_t port = 0;

    if (places[peer].is_port)
        memcpy(&port, value, sizeof port);
    if (!places[peer].is_port)
        (void)snprintf(text, size, "%s", (const char *)value);
    else if (port == CONFIG_PORT_SOCKET)
        (void)snprintf(text, size, LISTENER_NO_PORT);
    else
        (void)snprintf(text, size, "%s:%" PRIu64, c->live_address, port);
}

/* Whether the command line has -o with this setting. */
static bool
is_given(const struct cmd_line *line, const char *key)
{
    const struct config_sources *s = &line->sources;
    const size_t size = strlen(key);

    for (size_t i = 0; i < s->count; i++)
        if (s->letters[i] == 'o' && strncmp(s->texts[i], key, size) == 0 &&
            s->texts[i][size] == '=')
            return true;
    return false;
}

static bool
is_directory_on_line(const struct cmd_line *line)
{
    return memchr(line->sources.letters, 'd', line->sources.count) ||
           is_given(line, "data_dir");
}

bool
cmd_names_directory(const struct cmd_line *line)
{
    struct config defaults;

    config_defaults(&defaults);
    return is_directory_on_line(line) ||
           strcmp(line->config.data_dir, defaults.data_dir) != 0;
}

/* Whether the data directory has sockets that this user may reach.  Sockets of
 * another user count only if the directory was named: the default is relative,
 * so the process may have been started in a stranger's directory. */
static bool
has_sockets(const struct cmd_line *line)
{
    char path[CONFIG_TEXT_SIZE + sizeof "/" LOCAL_FOLDER];
    struct stat st;

    (void)snprintf(path, sizeof path, "%s/" LOCAL_FOLDER,
                   line->config.data_dir);
    return stat(path, &st) == 0 && S_ISDIR(st.st_mode) &&
           access(path, X_OK) == 0 &&
           (cmd_names_directory(line) || st.st_uid == geteuid() ||
            st.st_uid == 0);
}

static bool
uses_socket(const struct cmd_line *line, enum cmd_peer peer,
            const char *address)
{
    if (strcmp(address, LISTENER_NO_PORT) == 0)
        return line->host == NULL;
    if (line->host || is_given(line, places[peer].key) ||
        (places[peer].is_port && is_given(line, "live.address")))
        return false;
    return is_directory_on_line(line) || has_sockets(line);
}

void
cmd_find_place(const struct cmd_line *line, enum cmd_peer peer,
               struct cmd_place *out)
{
    out->setting = places[peer].key;
    out->word = places[peer].word;
    out->daemon =
        strcmp(out->word, "read") == 0 ? "countd-read" : "countd-write";
    format_address(&line->config, peer, out->text, sizeof out->text);
    out->directory =
        uses_socket(line, peer, out->text) ? line->config.data_dir : NULL;
    out->address = out->directory ? NULL : out->text;
    if (out->directory)
        (void)snprintf(out->text, sizeof out->text, "%s/" LOCAL_FOLDER "/%s",
                       out->directory, places[peer].socket);
}

/* ---- handles ------------------------------------------------------------ */

/* Of increments: countd load fills it while the writer syncs. */
#define BUFFER_SIZE ((size_t)4 << 20)

/* Finds the place, and returns an exit status: there is a port, or a socket. */
static int
find_port(const struct cmd_line *line, enum cmd_peer peer,
          struct cmd_place *place)
{
    const char *colon;

    if (*line->status != 0)
        return *line->status;
    cmd_find_place(line, peer, place);
    colon = strrchr(place->text, ':');
    if (place->directory ||
        (colon && strspn(colon + 1, "0") != strlen(colon + 1)))
        return 0;
    return cmd_fail(CONFIG_EXIT_USAGE,
                    "%s is \"%s\": no port to connect to; -o %s=... gives one",
                    place->setting, place->text, place->setting);
}

int
cmd_connect(const struct cmd_line *line, enum cmd_peer peer,
            struct countd **out)
{
    struct cmd_place place;
    struct countd_options options = {
        .size = sizeof options,
        .silent = peer == CMD_WRITER_SILENT,
        .buffer_size = peer == CMD_READER ? 0 : BUFFER_SIZE,
        .keyspace_size = (unsigned)line->config.keyspace_size,
        .key_size = (unsigned)line->config.key_size,
        .token = peer == CMD_READER ? getenv("COUNTD_TOKEN") : NULL,
        .nonblocking = 1, /* for all; load retries and shows its progress */
    };
    int rc = find_port(line, peer, &place);

    if (rc != 0)
        return rc;
    options.directory = place.directory;
    if (peer == CMD_READER)
        options.read = place.address;
    else
        options.write = place.address;
    rc = countd_open(out, &options);
    return rc < 0 ? cmd_peer_failed(line, peer, rc) : 0;
}

int
cmd_http_open(const struct cmd_line *line, enum cmd_peer peer,
              struct countd_http **out)
{
    struct countd_http_options options = {.size = sizeof options};
    struct cmd_place place;
    int rc = find_port(line, peer, &place);

    if (rc != 0)
        return rc;
    options.directory = place.directory;
    options.address = place.address;
    options.token = getenv("COUNTD_TOKEN");
    rc = countd_http_open(out, &options);
    return rc < 0 ? cmd_peer_failed(line, peer, rc) : 0;
}

/* ---- live peer --------------------------------------------------------- */

bool
cmd_is_semaphore(const struct cmd_line *line)
{
    return cmd_value(line, "semaphore") != NULL;
}

enum cmd_peer
cmd_live_peer(const struct cmd_line *line)
{
    return cmd_is_semaphore(line) ? CMD_SEMAPHORE : CMD_COUNTER;
}

int
cmd_live_open(const struct cmd_line *line, struct countd_live **out)
{
    struct countd_live_options options = {.size = sizeof options,
                                          .semaphore = cmd_is_semaphore(line)};
    struct cmd_place place;
    int rc = find_port(line, cmd_live_peer(line), &place);

    if (rc != 0)
        return rc;
    options.directory = place.directory;
    options.address = place.address;
    rc = countd_live_open(out, &options);
    return rc < 0 ? cmd_peer_failed(line, cmd_live_peer(line), rc) : 0;
}
