/* common/client/cmd/cmd_connect.c - see cmd.h: the daemons that a command asks.
 */
#include "common/client/cmd/cmd.h"
#include "common/client/cmd/wait_merged.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "common/base/diag.h"
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

static const char *
peer_address(const struct cmd_line *line, enum cmd_peer peer,
             const char **setting)
{
    switch (peer) {
    case CMD_READER:
        *setting = "read.listen";
        return line->config.read_listen;
    case CMD_WRITER:
        *setting = "write.ack_listen";
        return line->config.write_ack_listen;
    case CMD_WRITER_SILENT:
        break;
    }
    *setting = "write.listen";
    return line->config.write_listen;
}

int
cmd_connect(const struct cmd_line *line, enum cmd_peer peer, size_t buffer_size,
            struct countd **out)
{
    const char *setting;
    const char *address = peer_address(line, peer, &setting);
    const struct countd_options options = {
        .size = sizeof options,
        .write = peer == CMD_READER ? NULL : address,
        .read = peer == CMD_READER ? address : NULL,
        .silent = peer == CMD_WRITER_SILENT,
        .buffer_size = buffer_size,
        .keyspace_size = (unsigned)line->config.keyspace_size,
        .key_size = (unsigned)line->config.key_size,
        .nonblocking = 1, /* load sends again, and shows its progress */
    };
    const char *colon = strrchr(address, ':');
    int rc;

    if (colon == NULL || strspn(colon + 1, "0") == strlen(colon + 1)) {
        diag(DIAG_ERROR,
             "%s is \"%s\": no port to connect to; give -o "
             "%s=ADDRESS:PORT",
             setting, address, setting);
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
    const char *setting;
    const char *address = peer_address(line, peer, &setting);

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
