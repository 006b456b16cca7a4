/* common/client/cmd/cmd_connect.c - see cmd.h: connections to the
 * daemons.  cmd_find_place() decides socket or port, cmd_connect() connects,
 * cmd_peer_failed() reports an error with its remedy. */
#include "common/client/cmd/cmd.h"
#include "common/client/cmd/wait_merged.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/diag.h"
#include "common/net/conn.h"
#include "common/net/local.h"
#include "common/net/net.h"

/* "[::1]" for ::1, else as it is; false when it is too long. */
static bool
host_text(const char *host, char text[NET_HOST_SIZE])
{
    const bool bare = strchr(host, ':') != NULL && host[0] != '[';
    const int size = snprintf(text, NET_HOST_SIZE, bare ? "[%s]" : "%s", host);

    return size > 0 && size < NET_HOST_SIZE;
}

/* A port that is off stays so. */
static void
set_host(char address[CONFIG_TEXT_SIZE], const char *host)
{
    const char *colon = strrchr(address, ':');
    char port[16];

    if (colon == NULL)
        return;
    (void)snprintf(port, sizeof port, "%s", colon); /* settings checked it */
    (void)snprintf(address, CONFIG_TEXT_SIZE, "%s%s", host,
                   port); /* NET_HOST_SIZE is less */
}

int
cmd_set_host(struct config *c, const char *host)
{
    char text[NET_HOST_SIZE], why[512];

    if (!host_text(host, text) ||
        config_set(c, "live.address", text, why, sizeof why) < 0) {
        diag(DIAG_ERROR,
             "-H: give an address or host name without a port, such as db1 "
             "or 192.0.2.7");
        return CONFIG_EXIT_USAGE;
    }
    set_host(c->write_listen, text);
    set_host(c->write_ack_listen, text);
    set_host(c->read_listen, text);
    set_host(c->http_listen, text);
    return 0;
}

/* ---- where ------------------------------------------------------------- */

static const struct {
    const char *socket;
    const char *keys[2]; /* settings of its port */
} peers[] = {
    [CMD_READER] = {LOCAL_READ, {"read.listen"}},
    [CMD_WRITER] = {LOCAL_ACK, {"write.ack_listen"}},
    [CMD_WRITER_SILENT] = {LOCAL_COUNT, {"write.listen"}},
    [CMD_COUNTER] = {LOCAL_COUNTER, {"counter.port", "live.address"}},
    [CMD_SEMAPHORE] = {LOCAL_SEMAPHORE, {"semaphore.port", "live.address"}},
    [CMD_HTTP] = {LOCAL_HTTP, {"http.listen"}},
};

static void
format_address(const struct config *c, enum cmd_peer peer, char *text,
               size_t size)
{
    const char *address = NULL;
    uint64_t port = c->semaphore_port;

    switch (peer) {
    case CMD_READER:
        address = c->read_listen;
        break;
    case CMD_WRITER:
        address = c->write_ack_listen;
        break;
    case CMD_WRITER_SILENT:
        address = c->write_listen;
        break;
    case CMD_HTTP:
        address = c->http_listen;
        break;
    case CMD_COUNTER:
        port = c->counter_port;
        break;
    case CMD_SEMAPHORE:
        break;
    }
    if (address)
        (void)snprintf(text, size, "%s", address); /* fits, as below */
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
    const size_t size = key ? strlen(key) : 0;

    for (size_t i = 0; size > 0 && i < s->count; i++)
        if (s->letters[i] == 'o' && strncmp(s->texts[i], key, size) == 0 &&
            s->texts[i][size] == '=')
            return true;
    return false;
}

bool
cmd_names_directory(const struct cmd_line *line)
{
    struct config defaults;

    for (size_t i = 0; i < line->sources.count; i++)
        if (line->sources.letters[i] == 'd')
            return true;
    config_defaults(&defaults);
    return is_given(line, "data_dir") ||
           strcmp(line->config.data_dir, defaults.data_dir) != 0;
}

/* Whether the data directory has sockets that this user may reach.  Those of
 * another user are not taken for the store of this one only because they are
 * where the process happens to be. */
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
    if (line->host || is_given(line, peers[peer].keys[0]) ||
        is_given(line, peers[peer].keys[1]))
        return false;
    for (size_t i = 0; i < line->sources.count; i++)
        if (line->sources.letters[i] == 'd')
            return true;
    return is_given(line, "data_dir") || has_sockets(line);
}

void
cmd_find_place(const struct cmd_line *line, enum cmd_peer peer,
               struct cmd_place *out)
{
    out->setting = peers[peer].keys[0];
    out->directory = NULL;
    format_address(&line->config, peer, out->address, sizeof out->address);
    if (uses_socket(line, peer, out->address)) {
        out->directory = line->config.data_dir;
        (void)snprintf(out->text, sizeof out->text, "%s/" LOCAL_FOLDER "/%s",
                       out->directory, peers[peer].socket);
    } else {
        (void)snprintf(out->text, sizeof out->text, "%s", out->address);
    }
}

bool
cmd_socket_failed(const struct cmd_place *place, const char *daemon, int rc)
{
    if (!place->directory || (rc != -ECONNREFUSED && rc != -EPERM))
        return false;
    if (rc == -EPERM)
        diag(DIAG_ERROR,
             "user id %ld may not use %s: run countd as the owner of the "
             "directory, or set socket.group to a group of this user",
             (long)geteuid(), place->text);
    else
        diag(DIAG_ERROR,
             "%s does not serve %s; does it run on this directory, and is its "
             "port on? countd serve starts it, and -H or -o %s=... names "
             "another place",
             daemon, place->text, place->setting);
    return true;
}

/* ---- increments and ranges ---------------------------------------------- */

int
cmd_connect(const struct cmd_line *line, enum cmd_peer peer, size_t buffer_size,
            struct countd **out)
{
    struct cmd_place place;
    struct countd_options options = {
        .size = sizeof options,
        .silent = peer == CMD_WRITER_SILENT,
        .buffer_size = buffer_size,
        .keyspace_size = (unsigned)line->config.keyspace_size,
        .key_size = (unsigned)line->config.key_size,
        .nonblocking = 1, /* load sends again, and shows its progress */
    };
    const char *colon;
    int rc;

    cmd_find_place(line, peer, &place);
    options.directory = place.directory;
    if (!place.directory && peer == CMD_READER)
        options.read = place.address;
    else if (!place.directory)
        options.write = place.address;
    colon = strrchr(place.address, ':');
    if (!place.directory &&
        (colon == NULL || strspn(colon + 1, "0") == strlen(colon + 1))) {
        diag(DIAG_ERROR,
             "%s is \"%s\": no port to connect to; give -o "
             "%s=ADDRESS:PORT",
             place.setting, place.address, place.setting);
        return CONFIG_EXIT_USAGE;
    }
    rc = countd_open(out, &options);
    return rc < 0 ? cmd_peer_failed(line, peer, rc) : 0;
}

/* Errors of the settings or the line: restarting cannot help.  False for
 * others. */
static bool
is_misuse(const struct cmd_line *line, const char *setting, const char *address,
          int rc)
{
    if (rc == -EADDRNOTAVAIL) {
        diag(DIAG_ERROR, "%s: %s %s", setting, address, net_resolve_error(rc));
        return true;
    }
    if (rc != -ENAMETOOLONG)
        return false;
    diag(DIAG_ERROR,
         "a name is longer than message.keyspace_size=%" PRIu64
         " or message.key_size=%" PRIu64,
         line->config.keyspace_size, line->config.key_size);
    return true;
}

int
cmd_peer_failed(const struct cmd_line *line, enum cmd_peer peer, int rc)
{
    const char *daemon = peer == CMD_READER ? "countd-read" : "countd-write";
    struct cmd_place place;
    const char *setting, *address = place.text;

    cmd_find_place(line, peer, &place);
    setting = place.setting;
    if (cmd_socket_failed(&place, daemon, rc))
        return CONFIG_EXIT_SYSTEM;
    if (is_misuse(line, setting, address, rc))
        return CONFIG_EXIT_USAGE;
    if (rc == -ETIMEDOUT && peer != CMD_READER && wait_has_datadir(line) &&
        wait_report_full_disk(line))
        return CONFIG_EXIT_SYSTEM;
    if (rc == -ECONNREFUSED)
        diag(DIAG_ERROR,
             "%s at %s does not answer; is it running? countd serve starts "
             "it, and %s says where it is",
             daemon, address, setting);
    else if (rc == -ENOTCONN)
        diag(DIAG_ERROR,
             "%s at %s ended the connection; has it stopped? or is %s not "
             "its port?",
             daemon, address, setting);
    else if (rc == -EPROTO)
        diag(DIAG_ERROR, "what answers at %s is not %s; is %s its port?",
             address, daemon, setting);
    else if (rc == -ETIMEDOUT)
        diag(DIAG_ERROR, "%s at %s did not answer in time; is %s its port%s?",
             daemon, address, setting,
             peer == CMD_READER ? "" : ", are the message sizes its own");
    else if (rc == -EAGAIN) /* of cmd_connect(); others do not pass it on */
        diag(DIAG_ERROR, "%s: %s %s", setting, address, net_resolve_error(rc));
    else if (rc == -EBADMSG)
        diag(DIAG_ERROR,
             "%s at %s refused a message; are message.keyspace_size and "
             "message.key_size the server's?",
             daemon, address);
    else if (rc == -EIO)
        diag(DIAG_ERROR,
             "%s cannot read the keyspace; its messages say why, and countd "
             "check says where the file is damaged",
             daemon);
    else
        diag_errno(DIAG_ERROR, rc, "%s at %s", daemon, address);
    return CONFIG_EXIT_SYSTEM;
}
