/* common/store/cluster/cluster_map.c - nodes, their connections, and which of
 * them is the master of each slot; see cluster.h.
 *
 * Entry points: cluster_open(), cluster_connect(), cluster_disconnect(),
 * cluster_call(), cluster_refresh_map(), cluster_need_map(). */
#include "common/store/cluster/cluster_internal.h"

#include <assert.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/clock.h"

#define MAP_EVERY_MS 50 /* the map is asked for at most this often */

void
cluster_note(struct cluster *c, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    (void)vsnprintf(c->text, sizeof c->text, format, args);
    va_end(args);
}

const char *
cluster_text(const struct cluster *c)
{
    return c->text;
}

/* ---- slots -------------------------------------------------------------- */

#define CRC16_POLYNOMIAL 0x1021u

/* A key is hashed once per command, beside a round trip: no table is worth its
 * cache lines. */
static uint16_t
compute_crc16(const uint8_t *bytes, size_t size)
{
    uint32_t crc = 0;

    for (size_t i = 0; i < size; i++) {
        crc ^= (uint32_t)bytes[i] << 8;
        for (int bit = 0; bit < 8; bit++)
            crc = crc & 0x8000u ? crc << 1 ^ CRC16_POLYNOMIAL : crc << 1;
    }
    return (uint16_t)crc;
}

uint16_t
cluster_slot(const void *key, size_t size)
{
    const uint8_t *bytes = key;
    const uint8_t *open = memchr(bytes, '{', size);
    const uint8_t *close =
        open ? memchr(open + 1, '}', size - (size_t)(open + 1 - bytes)) : NULL;

    if (close != NULL && close > open + 1)
        return compute_crc16(open + 1, (size_t)(close - open - 1)) %
               CLUSTER_SLOTS;
    return compute_crc16(bytes, size) % CLUSTER_SLOTS;
}

/* ---- nodes -------------------------------------------------------------- */

int
cluster_find_node(struct cluster *c, const char *host, size_t host_size,
                  int port)
{
    struct cluster_node *n;
    char number[8];

    if (host_size == 0 || host_size >= CLUSTER_HOST_SIZE || port < 1 ||
        port > 65535)
        return CLUSTER_NO_NODE;
    for (int i = 0; i < c->node_count; i++)
        if (c->nodes[i].port == port && strlen(c->nodes[i].host) == host_size &&
            memcmp(c->nodes[i].host, host, host_size) == 0)
            return i;
    if (c->node_count == CLUSTER_NODES_MAX)
        return CLUSTER_NO_NODE;
    n = &c->nodes[c->node_count];
    memcpy(n->host, host, host_size);
    n->port = port;
    memcpy(n->name, host, host_size);
    (void)snprintf(number, sizeof number, ":%d", port);
    memcpy(n->name + host_size, number, strlen(number));
    return c->node_count++;
}

int
cluster_parse_port(const char *text)
{
    char *end;
    const unsigned long port = strtoul(text, &end, 10);

    return end != text && (*end == '\0' || *end == ' ') && port <= 65535
               ? (int)port
               : 0;
}

int
cluster_find_named(struct cluster *c, const char *name)
{
    const size_t size = strcspn(name, " ");
    const char *colon = memrchr(name, ':', size);
    const char *host = name;
    size_t host_size = colon ? (size_t)(colon - name) : 0;

    if (host_size > 2 && host[0] == '[' && host[host_size - 1] == ']') {
        host++;
        host_size -= 2;
    }
    return host_size == 0 ? CLUSTER_NO_NODE
                          : cluster_find_node(c, host, host_size,
                                              cluster_parse_port(colon + 1));
}

/* Adds the nodes of the options: "host:port" with blanks between. */
static int
add_seeds(struct cluster *c)
{
    const char *at = c->options.nodes;

    while (*(at += strspn(at, " "))) {
        const int node = cluster_find_named(c, at);

        if (node == CLUSTER_NO_NODE)
            return -EINVAL;
        c->nodes[node].is_seed = true;
        at += strcspn(at, " ");
    }
    return c->node_count > 0 ? 0 : -EINVAL;
}

int
cluster_open(struct cluster **out, const struct cluster_options *options)
{
    struct cluster *c = calloc(1, sizeof *c);
    int rc;

    if (c == NULL)
        return -ENOMEM;
    c->options = *options;
    for (unsigned i = 0; i < CLUSTER_SLOTS; i++)
        c->masters[i] = CLUSTER_NO_NODE;
    c->wants_map = true;
    rc = add_seeds(c);
    if (rc < 0)
        cluster_close(c);
    else
        *out = c;
    return rc;
}

void
cluster_close(struct cluster *c)
{
    if (c == NULL)
        return;
    for (int i = 0; i < c->node_count; i++) {
        cluster_disconnect(c, i, false);
        cluster_end_probe(&c->nodes[i]);
    }
    free(c);
}

int
cluster_node_of(const struct cluster *c, uint16_t slot)
{
    return c->masters[slot % CLUSTER_SLOTS];
}

int
cluster_next_master(const struct cluster *c, int node)
{
    for (int i = node + 1; i < c->node_count; i++)
        if (c->nodes[i].is_master)
            return i;
    return CLUSTER_NO_NODE;
}

const char *
cluster_node_name(const struct cluster *c, int node)
{
    return node == CLUSTER_NO_NODE ? "no node" : c->nodes[node].name;
}

uint64_t
cluster_changes(const struct cluster *c)
{
    return c->changes;
}

/* ---- connections -------------------------------------------------------- */

void
cluster_disconnect(struct cluster *c, int node, bool is_silent)
{
    struct cluster_node *n = &c->nodes[node];

    if (n->link != NULL)
        redisFree(n->link);
    n->link = NULL;
    n->is_silent = is_silent;
    n->down_until_ms = is_silent ? clock_ms() + CLUSTER_DOWN_MS : 0;
}

redisReply *
cluster_call(struct cluster *c, int node, const char *format, ...)
{
    redisContext *link = c->nodes[node].link;
    redisReply *reply;
    va_list args;

    assert(link != NULL);
    va_start(args, format);
    reply = redisvCommand(link, format, args);
    va_end(args);
    if (reply == NULL)
        cluster_note(c, "%s: %s", c->nodes[node].name, link->errstr);
    return reply;
}

/* Says who is asking, where a password is set. */
static int
authenticate_node(struct cluster *c, int node)
{
    const char *user = c->options.user ? c->options.user : "";
    const char *password = c->options.password ? c->options.password : "";
    redisReply *reply;
    int rc = 0;

    if (password[0] == '\0')
        return 0;
    reply = user[0] == '\0'
                ? cluster_call(c, node, "AUTH %s", password)
                : cluster_call(c, node, "AUTH %s %s", user, password);
    if (reply == NULL)
        return -EHOSTDOWN;
    if (reply->type == REDIS_REPLY_ERROR) {
        cluster_note(c, "%s: %s", c->nodes[node].name, reply->str);
        rc = -EACCES;
    }
    freeReplyObject(reply);
    return rc;
}

int
cluster_connect(struct cluster *c, int node)
{
    struct cluster_node *n = &c->nodes[node];
    const struct timeval wait = {
        .tv_sec = (time_t)(c->options.timeout_ms / 1000),
        .tv_usec = (suseconds_t)(c->options.timeout_ms % 1000 * 1000)};
    int rc;

    if (n->link != NULL)
        return 0;
#ifdef COUNTD_MUTANT_NO_PROBE
    n->is_silent = false;
#endif
    if (n->is_silent && !cluster_probe(c, node)) {
        cluster_note(c, "%s: does not answer", n->name);
        return -EHOSTDOWN;
    }
    n->link = redisConnectWithTimeout(n->host, n->port, wait);
    if (n->link == NULL || n->link->err != 0 ||
        redisSetTimeout(n->link, wait) != REDIS_OK) {
        /* A refused connection costs nothing and may be tried at once. */
        const bool is_slow =
            n->link == NULL || strstr(n->link->errstr, "refused") == NULL;

        cluster_note(c, "%s: %s", n->name,
                     n->link ? n->link->errstr : "no memory");
        cluster_disconnect(c, node, is_slow);
        return -EHOSTDOWN;
    }
    c->changes++;
    n->down_until_ms = 0;
    n->knows_functions = false;
    rc = authenticate_node(c, node);
    if (rc < 0)
        cluster_disconnect(c, node, true);
    return rc;
}

/* ---- the map ------------------------------------------------------------ */

/* Notes that slots `from` to `to` have this master. */
static void
set_masters(struct cluster *c, long long from, long long to, int node)
{
    for (long long i = from; i <= to; i++) {
        c->changes += c->masters[i] != node;
        c->masters[i] = (int16_t)node;
    }
    c->nodes[node].is_master = true;
}

/* Whether a row of CLUSTER SLOTS is what it should be: from, to, then the
 * master's host, port and id. */
static bool
is_slots_row(const redisReply *row)
{
    return row->type == REDIS_REPLY_ARRAY && row->elements >= 3 &&
           row->element[0]->type == REDIS_REPLY_INTEGER &&
           row->element[1]->type == REDIS_REPLY_INTEGER &&
           row->element[0]->integer >= 0 &&
           row->element[1]->integer < CLUSTER_SLOTS &&
           row->element[2]->type == REDIS_REPLY_ARRAY &&
           row->element[2]->elements >= 2 &&
           row->element[2]->element[1]->type == REDIS_REPLY_INTEGER;
}

static bool
take_map(struct cluster *c, int asked, const redisReply *map)
{
    if (map->type != REDIS_REPLY_ARRAY || map->elements == 0)
        return false;
    for (int i = 0; i < c->node_count; i++)
        c->nodes[i].is_master = false;
    for (size_t i = 0; i < map->elements; i++) {
        const redisReply *row = map->element[i], *host;
        int node = asked;

        if (!is_slots_row(row))
            continue;
        /* A node that does not know its own address leaves it out. */
        host = row->element[2]->element[0];
        if (host->type == REDIS_REPLY_STRING && host->len > 0)
            node = cluster_find_node(c, host->str, (size_t)host->len,
                                     (int)row->element[2]->element[1]->integer);
        if (node != CLUSTER_NO_NODE)
            set_masters(c, row->element[0]->integer, row->element[1]->integer,
                        node);
    }
    return true;
}

/* Asks one node for the map. */
static bool
request_map(struct cluster *c, int node)
{
    redisReply *reply;
    bool is_known;

    if (cluster_connect(c, node) < 0)
        return false;
    reply = cluster_call(c, node, "CLUSTER SLOTS");
    if (reply == NULL) {
        cluster_disconnect(c, node, true);
        return false;
    }
    if (reply->type == REDIS_REPLY_ERROR)
        cluster_note(c, "%s: %s", c->nodes[node].name, reply->str);
    is_known = take_map(c, node, reply);
    freeReplyObject(reply);
    return is_known;
}

void
cluster_refresh_map(struct cluster *c)
{
    const uint64_t now = clock_ms();
    const int count = c->node_count;

    if (!c->wants_map || (c->map_ms != 0 && now - c->map_ms < MAP_EVERY_MS))
        return;
    c->map_ms = now;
    /* Connected nodes first: the others may cost a timeout. */
    for (int pass = 0; pass < 2; pass++)
        for (int i = 0; i < count; i++)
            if ((c->nodes[i].link != NULL) == (pass == 0) &&
                request_map(c, i)) {
                c->map_is_known = true;
                c->wants_map = false;
                return;
            }
}

int
cluster_need_map(struct cluster *c)
{
    if (!c->map_is_known)
        cluster_refresh_map(c);
    return c->map_is_known ? 0 : -EHOSTDOWN;
}

/* ---- replicas ----------------------------------------------------------- */

uint64_t
cluster_replicas_offset(const char *text)
{
    static const char name[] = "master_repl_offset:";
    const char *at = strstr(text, name);

    return at ? strtoull(at + sizeof name - 1, NULL, 10) : 0;
}

uint64_t
cluster_replicas_count(const char *text, uint64_t offset)
{
    static const char name[] = "state=online,offset=";
    uint64_t count = 0;

    /* slave0:ip=10.0.0.2,port=6379,state=online,offset=1234,lag=0 */
    while ((text = strstr(text, name)) != NULL) {
        text += sizeof name - 1;
        count += strtoull(text, NULL, 10) >= offset;
    }
    return count;
}
