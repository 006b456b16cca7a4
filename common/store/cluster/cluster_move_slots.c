/* common/store/cluster/cluster_move_slots.c - move_choose(): a generation whose
 * parts are all at one master; see cluster_move.h.
 *
 * The number of a generation is in the names of its parts, so another number
 * has other slots.  The first is taken whose slots the master has; if there is
 * none, the first whose other slots have no key, and these are given to it.
 *
 * A slot that is given has no key and gets none meanwhile, so nothing is lost.
 * A mover that dies can leave one that takes no new key: the next move to the
 * same master gives it, and one to another master does not take it.  A new
 * master that dies before its replica knows of the slot leaves it with nobody,
 * which only an operator mends. */
#include "common/store/cluster/cluster_move_internal.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define ID_SIZE     41 /* of a node, with NUL */
#define OWN_TRIES   64
#define EMPTY_TRIES 256

/* The master that gets the parts. */
struct move_target {
    int node;
    char id[ID_SIZE];
};

/* ---- nodes -------------------------------------------------------------- */

static int
read_id(struct cluster *c, int node, char id[ID_SIZE])
{
    struct cluster_command m;
    int rc;

    cluster_begin(&m, 0, "CLUSTER MYID");
    rc = move_ask(c, node, &m, REDIS_REPLY_STRING);
    if (rc == 0 && m.reply->len != ID_SIZE - 1)
        rc = -EBADMSG;
    if (rc == 0)
        memcpy(id, m.reply->str, ID_SIZE);
    cluster_end(&m, 1);
    return rc;
}

/* The target is the node by whose name the map knows it, if it is in the map:
 * the user may have named it otherwise. */
static void
find_in_map(struct cluster *c, struct move_target *t)
{
    char id[ID_SIZE];
    int node = cluster_next_master(c, CLUSTER_NO_NODE);

    while (node != CLUSTER_NO_NODE && node != t->node &&
           (read_id(c, node, id) < 0 || strcmp(id, t->id) != 0))
        node = cluster_next_master(c, node);
    if (node != CLUSTER_NO_NODE)
        t->node = node;
}

static int
count_keys(struct cluster *c, int node, uint16_t slot, uint64_t *out)
{
    struct cluster_command m;
    int rc;

    cluster_begin(&m, 0, "CLUSTER COUNTKEYSINSLOT");
    cluster_add_number(&m, slot);
    rc = move_ask(c, node, &m, REDIS_REPLY_INTEGER);
    if (rc == 0)
        *out = cluster_reply_number(m.reply);
    cluster_end(&m, 1);
    return rc;
}

/* "ID host:port@bus FLAGS ..." is a line of CLUSTER NODES. */
static bool
is_master(const char *nodes, const struct move_target *t)
{
    const char *line = nodes;
    char flags[64];

    while (line != NULL && strncmp(line, t->id, ID_SIZE - 1) != 0) {
        line = strchr(line, '\n');
        line += line != NULL;
    }
    return line != NULL && sscanf(line, "%*s %*s %63s", flags) == 1 &&
           strstr(flags, "master") != NULL;
}

/* Whether a slot is on its way from its master to another one than the target:
 * keys may be there.  -ENXIO: the target is none that this master knows. */
static int
find_open(struct cluster *c, const struct move_target *t, int node,
          uint16_t slot, bool *is_open)
{
    struct cluster_command m;
    char mark[16];
    const char *at;
    int rc;

    (void)snprintf(mark, sizeof mark, "[%u->-", slot);
    cluster_begin(&m, 0, "CLUSTER NODES");
    rc = move_ask(c, node, &m, REDIS_REPLY_STRING);
    if (rc == 0) {
        at = strstr(m.reply->str, mark);
        *is_open =
            at != NULL && strncmp(at + strlen(mark), t->id, ID_SIZE - 1) != 0;
        rc = is_master(m.reply->str, t) ? 0 : -ENXIO;
    }
    cluster_end(&m, 1);
    return rc;
}

static void
begin_set(struct cluster_command *m, int node, uint16_t slot, const char *how,
          const char *id)
{
    cluster_begin(m, 0, "CLUSTER SETSLOT");
    cluster_add_number(m, slot);
    cluster_add_text(m, how);
    if (id != NULL)
        cluster_add_text(m, id);
    m->node = node;
}

/* Runs and ends commands that set a slot.  -ESTALE: it is not as the map said.
 */
static int
set_slots(struct cluster *c, struct cluster_command *m, size_t count)
{
    int rc = 0;

    cluster_run(c, m, count);
    for (size_t i = 0; rc == 0 && i < count; i++)
        rc = m[i].error;
    cluster_end(m, count);
    return rc == -EPROTO ? -ESTALE : rc;
}

static int
set_slot(struct cluster *c, int node, uint16_t slot, const char *how,
         const char *id)
{
    struct cluster_command m;

    begin_set(&m, node, slot, how, id);
    return set_slots(c, &m, 1);
}

/* ---- a slot ------------------------------------------------------------- */

/* Whether a slot may be given to the target. */
static int
judge_slot(struct cluster *c, const struct move_target *t, uint16_t slot,
           bool *may_give)
{
    const int owner = cluster_node_of(c, slot);
    uint64_t keys = 0;
    bool is_open = false;
    int rc;

    if (owner == CLUSTER_NO_NODE)
        return -EHOSTDOWN;
    rc = count_keys(c, owner, slot, &keys);
    if (rc == 0 && keys == 0)
        rc = find_open(c, t, owner, slot, &is_open);
    *may_give = keys == 0 && !is_open;
    return rc;
}

/* Both commands are in one write: a master at which a slot is said to be
 * imported learns of no other owner, and is down when the old one is gone. */
static int
take_slot(struct cluster *c, const struct move_target *t, uint16_t slot,
          const char *from)
{
    struct cluster_command m[2];

    begin_set(&m[0], t->node, slot, "IMPORTING", from);
    begin_set(&m[1], t->node, slot, "NODE", t->id);
    return set_slots(c, m, 2);
}

/* From the first step on no master takes a new key for the slot, and at the end
 * the new one does. */
static int
run_steps(struct move *m, const struct move_target *t, uint16_t slot)
{
    const int owner = cluster_node_of(m->c, slot);
    char id[ID_SIZE];
    bool may_give = false;
    int rc;

    rc = read_id(m->c, owner, id);
    if (rc == 0 && !move_report(m, CLUSTER_MOVE_GIVING))
        return -ECANCELED;
    if (rc == 0)
        rc = set_slot(m->c, owner, slot, "MIGRATING", t->id);
    if (rc == 0 && !move_report(m, CLUSTER_MOVE_GIVING))
        return -ECANCELED;
    if (rc == 0)
        rc = judge_slot(m->c, t, slot, &may_give);
    if (rc == 0)
        rc = may_give ? take_slot(m->c, t, slot, id) : -ESTALE;
    if (rc == 0 && !move_report(m, CLUSTER_MOVE_GIVING))
        return -ECANCELED;
    return rc == 0 ? set_slot(m->c, owner, slot, "NODE", t->id) : rc;
}

static int
give_slot(struct move *m, const struct move_target *t, uint16_t slot)
{
    const int owner = cluster_node_of(m->c, slot);
    int rc;

    rc = run_steps(m, t, slot);
    if (rc < 0 && rc != -ECANCELED) {
        (void)set_slot(m->c, owner, slot, "STABLE", NULL);
        (void)set_slot(m->c, t->node, slot, "STABLE", NULL);
    }
    return rc;
}

/* ---- a generation ------------------------------------------------------- */

static struct cluster_part_keys
find_keys(const struct move *m, uint32_t generation, uint32_t part)
{
    struct cluster_part_keys keys =
        cluster_part_keys(m->k->name, m->k->name_size, generation, part);

    return keys;
}

/* Whether the target has all parts of a generation. */
static bool
has_all(const struct move *m, const struct move_target *t, uint32_t generation,
        uint32_t parts)
{
    for (uint32_t i = 0; i < parts; i++)
        if (cluster_node_of(m->c, find_keys(m, generation, i).slot) != t->node)
            return false;
    return true;
}

/* Whether it has them, or may be given what is missing. */
static int
may_have_all(const struct move *m, const struct move_target *t,
             uint32_t generation, bool *may)
{
    int rc = 0;

    *may = true;
    for (uint32_t i = 0; rc == 0 && *may && i < m->parts; i++) {
        const uint16_t slot = find_keys(m, generation, i).slot;

        if (cluster_node_of(m->c, slot) != t->node)
            rc = judge_slot(m->c, t, slot, may);
    }
    return rc;
}

/* A part is asked for after its slot was given: the map is right then, and the
 * target serves it. */
static int
give_slots(struct move *m, struct move_target *t, uint32_t generation)
{
    int rc = 0;

    for (uint32_t i = 0; rc == 0 && i < m->parts; i++) {
        const struct cluster_part_keys keys = find_keys(m, generation, i);
        struct cluster_command exists;

        if (cluster_node_of(m->c, keys.slot) == t->node)
            continue;
        rc = give_slot(m, t, keys.slot);
        if (rc < 0)
            break;
        cluster_begin(&exists, keys.slot, "EXISTS");
        cluster_add_word(&exists, keys.counts, keys.size);
        rc = move_do(m->c, &exists);
        if (rc == 0 && cluster_node_of(m->c, keys.slot) != t->node)
            find_in_map(m->c, t);
        if (rc == 0 && cluster_node_of(m->c, keys.slot) != t->node)
            rc = -ESTALE;
    }
    return rc;
}

int
move_choose(struct move *m, const struct cluster_place *from, uint32_t used,
            uint32_t *number)
{
    struct move_target t = {.node = cluster_find_named(m->c, m->options->to)};
    bool may = false;
    int rc;

    if (t.node == CLUSTER_NO_NODE)
        return -ENXIO;
    rc = read_id(m->c, t.node, t.id);
    if (rc == -EHOSTDOWN || rc == -ETIMEDOUT || rc == -EIO)
        return -EHOSTUNREACH;
    if (rc < 0)
        return rc == -EPROTO ? -ENXIO : rc;
    find_in_map(m->c, &t);
    if (m->parts == from->parts &&
        has_all(m, &t, from->generation, from->parts))
        return -EALREADY;
    for (*number = used + 1; *number <= used + OWN_TRIES; ++*number)
        if (has_all(m, &t, *number, m->parts))
            return 0;
    for (*number = used; rc == 0 && !may && *number < used + EMPTY_TRIES;)
        rc = may_have_all(m, &t, ++*number, &may);
    if (rc < 0)
        return rc;
    return may ? give_slots(m, &t, *number) : -EADDRNOTAVAIL;
}
