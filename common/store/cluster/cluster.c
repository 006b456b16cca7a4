/* common/store/cluster/cluster.c - cluster_run(): rounds of sending commands
 * and judging replies, until each has one or cannot; see cluster.h. */
#include "common/store/cluster/cluster_internal.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/array.h"
#include "common/base/bytes.h"
#include "common/store/cluster/functions.h"

#define TRIES_MAX 6 /* redirects and repetitions of a command */

/* ---- errors of replies -------------------------------------------------- */

/* What an error reply means, by its first word. */
static const struct {
    const char *word;
    int error;
} meanings[] = {
    {"TRYAGAIN ", -EAGAIN},   {"CLUSTERDOWN ", -EAGAIN}, {"LOADING ", -EAGAIN},
    {"MASTERDOWN ", -EAGAIN}, {"NOREPLICAS ", -EAGAIN},  {"READONLY ", -EAGAIN},
    {"BUSY ", -EAGAIN},       {"OOM ", -ENOSPC},         {"MISCONF ", -ENOSPC},
    {"NOAUTH ", -EACCES},     {"WRONGPASS ", -EACCES},   {"NOPERM ", -EACCES},
    {"GONE ", -ESTALE},
};

static bool
has_prefix(const char *text, const char *prefix)
{
    return strncmp(text, prefix, strlen(prefix)) == 0;
}

static int
find_meaning(const char *text)
{
    for (size_t i = 0; i < sizeof meanings / sizeof *meanings; i++)
        if (has_prefix(text, meanings[i].word))
            return meanings[i].error;
    return -EPROTO;
}

/* The node that "MOVED 42 10.0.0.1:7000" or "ASK ..." names; an empty host is
 * that of the node that says it. */
static int
parse_redirect(struct cluster *c, const struct cluster_command *m,
               const char *text, unsigned *slot)
{
    const char *where = strchr(text, ' '), *colon;
    const struct cluster_node *from = &c->nodes[m->sent_to];
    char *end = NULL;
    unsigned long number;

    if (where == NULL)
        return CLUSTER_NO_NODE;
    number = strtoul(where + 1, &end, 10);
    colon = strrchr(end, ':');
    if (*end != ' ' || number >= CLUSTER_SLOTS || colon == NULL)
        return CLUSTER_NO_NODE;
    *slot = (unsigned)number;
    if (colon == end + 1)
        return cluster_find_node(c, from->host, strlen(from->host),
                                 cluster_parse_port(colon + 1));
    return cluster_find_node(c, end + 1, (size_t)(colon - end - 1),
                             cluster_parse_port(colon + 1));
}

/* Whether a broken connection is one that gave no reply in time; call it before
 * errno changes. */
static bool
is_slow(const redisContext *link)
{
    return link->err == REDIS_ERR_IO &&
           (errno == EAGAIN || errno == EWOULDBLOCK);
}

/* Wants the library where a master has none, or one of a lower revision.  One
 * that cannot say so yet is asked again; what refuses to say is left as it is.
 */
static void
check_functions(struct cluster *c, int node)
{
    static const char name[] = "local REVISION = ";
    const char *at = strstr(functions_text, name);
    struct cluster_node *n = &c->nodes[node];
    redisReply *reply = cluster_call(c, node, "FCALL_RO countd1_revision 0");

    assert(at != NULL);
    if (reply == NULL) {
        cluster_disconnect(c, node, is_slow(n->link));
        return;
    }
    n->knows_functions = true;
    if (reply->type == REDIS_REPLY_INTEGER)
        n->wants_functions =
            reply->integer < strtoll(at + sizeof name - 1, NULL, 10);
    else if (reply->type == REDIS_REPLY_ERROR) {
        n->wants_functions = strstr(reply->str, "Function not found") != NULL;
        n->knows_functions = find_meaning(reply->str) != -EAGAIN;
    }
    freeReplyObject(reply);
}

/* Loads the library into a master.  What fails is found again by the next
 * command. */
static void
load_functions(struct cluster *c, int node)
{
    redisReply *reply =
        cluster_call(c, node, "FUNCTION LOAD REPLACE %s", functions_text);

    c->nodes[node].wants_functions = false;
    if (reply == NULL) {
        cluster_disconnect(c, node, true);
        return;
    }
    if (reply->type == REDIS_REPLY_ERROR)
        cluster_note(c, "%s: FUNCTION LOAD: %s", c->nodes[node].name,
                     reply->str);
    freeReplyObject(reply);
}

/* Before functions are called at a node. */
static void
ready_functions(struct cluster *c, int node)
{
    struct cluster_node *n = &c->nodes[node];

    if (n->needs_functions && !n->knows_functions)
        check_functions(c, node);
    if (n->needs_functions && n->wants_functions && n->link != NULL)
        load_functions(c, node);
    n->needs_functions = false;
}

/* Follows a redirect, or loads the functions; false: the error is final. */
static bool
follow_error(struct cluster *c, struct cluster_command *m, const char *text)
{
    unsigned slot = 0;
    int node;

    if (strstr(text, "Function not found") != NULL) {
        c->nodes[m->sent_to].wants_functions = true;
        return true;
    }
    if (has_prefix(text, "MOVED ")) {
        c->wants_map = true;
        node = parse_redirect(c, m, text, &slot);
        if (node == CLUSTER_NO_NODE || m->node != CLUSTER_NO_NODE)
            return false;
        c->masters[slot] = (int16_t)node;
        c->nodes[node].is_master = true;
        c->changes++;
        return true;
    }
    if (has_prefix(text, "ASK ")) {
        m->ask = parse_redirect(c, m, text, &slot);
        return m->ask != CLUSTER_NO_NODE;
    }
    return false;
}

/* ---- a round ------------------------------------------------------------ */

static void
end_command(struct cluster_command *m, int error)
{
    m->is_waiting = false;
    m->error = error;
}

/* The connection of a command broke: the outcome is unknown, and it is sent
 * once more where the map says then. */
static void
handle_broken(struct cluster *c, struct cluster_command *m)
{
    redisContext *link = c->nodes[m->sent_to].link;

    if (link != NULL) {
        const bool was_slow = is_slow(link);

        cluster_note(c, "%s: %s", c->nodes[m->sent_to].name,
                     was_slow ? "no reply in time" : link->errstr);
        cluster_disconnect(c, m->sent_to, was_slow);
        if (was_slow)
            m->tries = TRIES_MAX;
    }
    c->wants_map = true;
    if (m->tries >= 2)
        end_command(m, m->tries == TRIES_MAX ? -ETIMEDOUT : -EIO);
}

static void
judge_reply(struct cluster *c, struct cluster_command *m, redisReply *reply)
{
    if (reply->type != REDIS_REPLY_ERROR) {
        m->reply = reply;
        end_command(m, 0);
        return;
    }
    cluster_note(c, "%s: %.120s", c->nodes[m->sent_to].name, reply->str);
    if (m->tries >= TRIES_MAX || !follow_error(c, m, reply->str))
        end_command(m, find_meaning(reply->str));
    if (has_prefix(reply->str, "READONLY "))
        c->wants_map = true;
    freeReplyObject(reply);
}

/* Chooses a command's node and connects it. */
static void
connect_command(struct cluster *c, struct cluster_command *m)
{
    const int node = m->ask != CLUSTER_NO_NODE    ? m->ask
                     : m->node != CLUSTER_NO_NODE ? m->node
                                                  : cluster_node_of(c, m->slot);
    int rc;

    m->tries++;
    m->sent_to = node;
    rc = node == CLUSTER_NO_NODE ? -EHOSTDOWN : cluster_connect(c, node);
    if (node == CLUSTER_NO_NODE && c->map_is_known)
        cluster_note(c, "slot %u has no master", (unsigned)m->slot);
    if (rc < 0) {
        c->wants_map = true;
        end_command(m, rc);
    } else if (m->is_call)
        c->nodes[node].needs_functions = true;
}

/* Gives a command to its node's connection, which may have broken again. */
static void
append_command(struct cluster *c, struct cluster_command *m)
{
    redisContext *link = c->nodes[m->sent_to].link;
    char head[32];

    if (link == NULL)
        return;
    if (m->ask != CLUSTER_NO_NODE)
        (void)redisAppendCommand(link, "ASKING");
    (void)snprintf(head, sizeof head, "*%zu\r\n", m->words);
    (void)redisAppendFormattedCommand(link, head, strlen(head));
    (void)redisAppendFormattedCommand(link, (const char *)m->bytes, m->size);
}

/* Writes what the connections were given, so that all masters work at once. */
static void
flush_nodes(struct cluster *c)
{
    for (int i = 0; i < c->node_count; i++) {
        redisContext *link = c->nodes[i].link;
        int is_done = 0;

        while (link != NULL && !is_done &&
               redisBufferWrite(link, &is_done) == REDIS_OK)
            continue;
    }
}

static void
take_reply(struct cluster *c, struct cluster_command *m)
{
    redisContext *link = c->nodes[m->sent_to].link;
    void *reply = NULL;

    if (m->ask != CLUSTER_NO_NODE && link != NULL) {
        if (redisGetReply(link, &reply) != REDIS_OK) {
            handle_broken(c, m);
            return;
        }
        freeReplyObject(reply);
        reply = NULL;
    }
    m->ask = CLUSTER_NO_NODE;
    if (link == NULL || redisGetReply(link, &reply) != REDIS_OK)
        handle_broken(c, m);
    else
        judge_reply(c, m, reply);
}

/* The replies of a node are taken in the order of its commands.  Functions are
 * loaded between two rounds: a connection must not be asked for anything else
 * while replies to its commands are on their way. */
static bool
run_round(struct cluster *c, struct cluster_command *commands, size_t count)
{
    bool is_any = false;

    for (size_t i = 0; i < count; i++)
        if (commands[i].is_waiting)
            connect_command(c, &commands[i]);
    for (int i = 0; i < c->node_count; i++)
        if (c->nodes[i].link != NULL)
            ready_functions(c, i);
    for (size_t i = 0; i < count; i++)
        if (commands[i].is_waiting)
            append_command(c, &commands[i]);
    flush_nodes(c);
    for (size_t i = 0; i < count; i++) {
        if (commands[i].is_waiting)
            take_reply(c, &commands[i]);
        is_any = is_any || commands[i].is_waiting;
    }
    return is_any;
}

void
cluster_add_word(struct cluster_command *m, const void *bytes, size_t size)
{
    char head[32];
    const size_t head_size =
        (size_t)snprintf(head, sizeof head, "$%zu\r\n", size);

    if (m->error == 0)
        m->error = array_grow(&m->bytes, &m->capacity,
                              m->size + head_size + size + 2, 1);
    if (m->error != 0)
        return;
    memcpy(m->bytes + m->size, head, head_size);
    m->size += head_size;
    if (size > 0)
        memcpy(m->bytes + m->size, bytes, size);
    m->size += size;
    memcpy(m->bytes + m->size, "\r\n", 2);
    m->size += 2;
    m->words++;
}

void
cluster_add_text(struct cluster_command *m, const char *text)
{
    cluster_add_word(m, text, strlen(text));
}

void
cluster_add_number(struct cluster_command *m, int64_t number)
{
    char text[32];

    (void)snprintf(text, sizeof text, "%" PRId64, number);
    cluster_add_text(m, text);
}

void
cluster_begin(struct cluster_command *m, uint16_t slot, const char *words)
{
    *m = (struct cluster_command){.slot = slot,
                                  .node = CLUSTER_NO_NODE,
                                  .is_call = has_prefix(words, "FCALL")};
    while (*words != '\0') {
        const size_t size = strcspn(words, " ");

        cluster_add_word(m, words, size);
        words += size;
        words += strspn(words, " ");
    }
}

void
cluster_run(struct cluster *c, struct cluster_command *commands, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        struct cluster_command *m = &commands[i];

        m->ask = CLUSTER_NO_NODE;
        m->is_waiting = m->error == 0;
    }
    do
        cluster_refresh_map(c);
    while (run_round(c, commands, count));
}

void
cluster_end(struct cluster_command *commands, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (commands[i].reply != NULL)
            freeReplyObject(commands[i].reply);
        free(commands[i].bytes);
        commands[i] = (struct cluster_command){.words = 0};
    }
}

uint64_t
cluster_reply_number(const redisReply *reply)
{
    if (reply->type == REDIS_REPLY_INTEGER)
        return (uint64_t)reply->integer;
    return reply->type == REDIS_REPLY_STRING ? strtoull(reply->str, NULL, 10)
                                             : 0;
}

int128
cluster_get_sum(const void *bytes)
{
    const uint8_t *at = bytes;

    return (int128)(int64_t)get_be64(at) * ((int128)1 << 32) + get_be32(at + 8);
}
