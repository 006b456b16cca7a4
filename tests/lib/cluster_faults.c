/* tests/lib/cluster_faults.c - see cluster_faults.h. */
#include "tests/lib/cluster_faults.h"

#include <dirent.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "common/base/clock.h"
#include "tests/lib/test.h"

#define WAIT_MS 60000
#define FIX_MS  20000
#define NOBODY  CLUSTER_SERVERS_SERVERS

void
cluster_faults_init(struct cluster_faults *f, struct cluster_servers *servers)
{
    *f = (struct cluster_faults){.servers = servers};
}

/* ---- who is who ---------------------------------------------------------- */

static bool
is_running(const struct cluster_faults *f, unsigned server)
{
    return server < CLUSTER_SERVERS_SERVERS && !f->is_dead[server] &&
           !f->is_stopped[server];
}

static bool
is_master(struct cluster_faults *f, unsigned server)
{
    return is_running(f, server) &&
           strncmp(cluster_servers_run(f->servers, server, "ROLE"), "master",
                   6) == 0;
}

unsigned
cluster_fault_master(struct cluster_faults *f, struct random *random)
{
    const unsigned first =
        (unsigned)random_below(random, CLUSTER_SERVERS_SERVERS);

    for (unsigned i = 0; i < CLUSTER_SERVERS_SERVERS; i++)
        if (is_master(f, (first + i) % CLUSTER_SERVERS_SERVERS))
            return (first + i) % CLUSTER_SERVERS_SERVERS;
    return NOBODY;
}

unsigned
cluster_fault_replica_of(struct cluster_faults *f, unsigned master)
{
    char role[64];

    if (master == NOBODY)
        return NOBODY;
    (void)snprintf(role, sizeof role, "slave\n127.0.0.1\n%d\n",
                   f->servers->ports[master]);
    for (unsigned i = 0; i < CLUSTER_SERVERS_SERVERS; i++)
        if (is_running(f, i) &&
            strncmp(cluster_servers_run(f->servers, i, "ROLE"), role,
                    strlen(role)) == 0)
            return i;
    return NOBODY;
}

/* ---- faults -------------------------------------------------------------- */

bool
cluster_fault_kill(struct cluster_faults *f, unsigned server)
{
    if (server == NOBODY || f->is_dead[server])
        return false;
    daemon_kill(&f->servers->servers[server]);
    f->is_dead[server] = true;
    f->is_stopped[server] = false;
    return true;
}

bool
cluster_fault_restart(struct cluster_faults *f, unsigned server)
{
    if (!f->is_dead[server])
        return false;
    cluster_servers_restart(f->servers, server);
    f->is_dead[server] = false;
    return true;
}

bool
cluster_fault_stop(struct cluster_faults *f, unsigned server)
{
    if (!is_running(f, server))
        return false;
    daemon_signal(&f->servers->servers[server], SIGSTOP);
    f->is_stopped[server] = true;
    return true;
}

bool
cluster_fault_continue(struct cluster_faults *f, unsigned server)
{
    if (!f->is_stopped[server])
        return false;
    daemon_signal(&f->servers->servers[server], SIGCONT);
    f->is_stopped[server] = false;
    return true;
}

/* A replica that is only stopped still finds in its socket what was sent
 * meanwhile: its connection is closed, too. */
bool
cluster_fault_leave_behind(struct cluster_faults *f, unsigned master,
                           unsigned replica)
{
    if (!is_running(f, master) || !cluster_fault_stop(f, replica))
        return false;
    (void)cluster_servers_run(f->servers, master, "CLIENT KILL TYPE replica");
    return true;
}

bool
cluster_fault_promote(struct cluster_faults *f, unsigned master,
                      unsigned replica)
{
    if (!f->is_stopped[replica] || !cluster_fault_stop(f, master))
        return false;
    (void)cluster_fault_continue(f, replica);
    (void)cluster_servers_run(f->servers, replica, "CLUSTER FAILOVER TAKEOVER");
    return true;
}

/* The file that commands are appended to now; false: there is none. */
static bool
find_appended(const struct cluster_faults *f, unsigned server, char *path,
              size_t size)
{
    char folder[600];
    struct dirent *e;
    bool is_found = false;
    DIR *dir;

    (void)snprintf(folder, sizeof folder, "%s/%u/appendonlydir",
                   f->servers->tmp.path, server);
    dir = opendir(folder);
    while (dir != NULL && !is_found && (e = readdir(dir)) != NULL)
        if (strstr(e->d_name, ".incr.aof") != NULL)
            is_found =
                (size_t)snprintf(path, size, "%s/%s", folder, e->d_name) < size;
    if (dir != NULL)
        (void)closedir(dir);
    return is_found;
}

/* Cuts off what is not whole at the end, as an operator does. */
static void
repair_appended(const char *path)
{
    char command[1000];

    (void)snprintf(command, sizeof command,
                   "echo y | redis-check-aof --fix '%s' >/dev/null 2>&1", path);
    assert_int_equal(system(command), 0);
}

bool
cluster_fault_cut(struct cluster_faults *f, unsigned server, unsigned percent)
{
    char path[900];
    struct stat at;

    if (!cluster_fault_kill(f, server))
        return false;
    if (!find_appended(f, server, path, sizeof path) || stat(path, &at) < 0)
        return true;
    assert_int_equal(truncate(path, at.st_size * (100 - percent) / 100), 0);
    repair_appended(path);
    return true;
}

bool
cluster_fault_run(struct cluster_faults *f, unsigned server,
                  const char *command)
{
    if (!is_running(f, server))
        return false;
    (void)cluster_servers_run(f->servers, server, command);
    return true;
}

bool
cluster_fault_flush(struct cluster_faults *f, unsigned server)
{
    return cluster_fault_run(f, server, "FLUSHALL") &&
           cluster_fault_run(f, server, CLUSTER_FAULT_BREAK);
}

/* ---- moving a slot ------------------------------------------------------- */

/* Tries until the reply is OK, or NOKEY for a key that is gone. */
static void
insist(struct cluster_faults *f, unsigned server, const char *command)
{
    const uint64_t end_ms = clock_ms() + (uint64_t)WAIT_MS * test_slow();
    const char *reply = cluster_servers_run(f->servers, server, command);

    while (strcmp(reply, "OK") != 0 && strcmp(reply, "NOKEY") != 0) {
        if (clock_ms() > end_ms)
            fail_msg("%s: %s", command, reply);
        (void)poll(NULL, 0, 10);
        reply = cluster_servers_run(f->servers, server, command);
    }
}

static void
move_keys(struct cluster_faults *f, unsigned slot, unsigned from, unsigned to,
          void (*each)(void *ctx), void *ctx)
{
    char key[256], command[400];

    for (;;) {
        (void)snprintf(key, sizeof key, "%s",
                       cluster_servers_run(f->servers, from,
                                           "CLUSTER GETKEYSINSLOT %u 1", slot));
        key[strcspn(key, "\n")] = '\0';
        if (key[0] == '\0')
            return;
        (void)snprintf(command, sizeof command,
                       "MIGRATE 127.0.0.1 %d %s 0 5000 REPLACE",
                       f->servers->ports[to], key);
        insist(f, from, command);
        each(ctx);
    }
}

/* Waits until all servers know: a failover before that can leave the slot with
 * nobody, which only an operator mends. */
static void
await_owner(struct cluster_faults *f, unsigned slot, unsigned owner,
            void (*each)(void *ctx), void *ctx)
{
    const uint64_t end_ms = clock_ms() + (uint64_t)WAIT_MS * test_slow();

    for (unsigned i = 0; i < CLUSTER_SERVERS_SERVERS; i++)
        while (cluster_servers_master(f->servers, i, slot) != owner) {
            if (clock_ms() > end_ms)
                fail_msg("server %u does not know who has slot %u", i, slot);
            each(ctx);
        }
}

void
cluster_fault_move_slot(struct cluster_faults *f, unsigned slot,
                        void (*each)(void *ctx), void *ctx)
{
    const unsigned from = cluster_servers_master(f->servers, 0, slot);
    unsigned to = from;
    char from_id[64], to_id[64], command[200];

    do
        to = (to + 1) % CLUSTER_SERVERS_SERVERS;
    while (!is_master(f, to));
    (void)snprintf(from_id, sizeof from_id, "%s",
                   cluster_servers_run(f->servers, from, "CLUSTER MYID"));
    (void)snprintf(to_id, sizeof to_id, "%s",
                   cluster_servers_run(f->servers, to, "CLUSTER MYID"));
    (void)snprintf(command, sizeof command, "CLUSTER SETSLOT %u IMPORTING %s",
                   slot, from_id);
    insist(f, to, command);
    (void)snprintf(command, sizeof command, "CLUSTER SETSLOT %u MIGRATING %s",
                   slot, to_id);
    insist(f, from, command);
    each(ctx);
    move_keys(f, slot, from, to, each, ctx);
    (void)snprintf(command, sizeof command, "CLUSTER SETSLOT %u NODE %s", slot,
                   to_id);
    insist(f, to, command);
    insist(f, from, command);
    await_owner(f, slot, to, each, ctx);
}

/* ---- repair -------------------------------------------------------------- */

/* Every server sees a whole cluster, and has its replica or its master.  If
 * not, *server does not, and what it says is returned. */
static const char *
find_unwell(struct cluster_faults *f, unsigned *server)
{
    for (unsigned i = 0; i < CLUSTER_SERVERS_SERVERS; i++) {
        const char *text = cluster_servers_run(f->servers, i, "CLUSTER INFO");

        *server = i;
        if (strstr(text, "cluster_state:ok") == NULL)
            return text;
        text = cluster_servers_run(f->servers, i, "INFO replication");
        if (strstr(text, "state=online") == NULL &&
            strstr(text, "master_link_status:up") == NULL)
            return text;
    }
    return NULL;
}

/* A failover soon after a slot was moved can leave it with no master: servers
 * do not mend that, and an operator runs this.  The slot may come to a server
 * that has it from long ago: as cluster_fault_flush(), that is found at once.
 */
static void
fix_slots(struct cluster_faults *f, unsigned server)
{
    char command[200];

    printf("redis-cli --cluster fix\n");
    (void)snprintf(command, sizeof command,
                   "echo yes | timeout 20 redis-cli --cluster fix "
                   "127.0.0.1:%d >/dev/null 2>&1",
                   f->servers->ports[server]);
    /* Whether it helped is what the next look at the servers shows. */
    (void)!system(command);
    for (unsigned i = 0; i < CLUSTER_SERVERS_SERVERS; i++)
        (void)cluster_fault_run(f, i, CLUSTER_FAULT_BREAK);
}

void
cluster_faults_heal(struct cluster_faults *f, void (*each)(void *ctx),
                    void *ctx)
{
    const uint64_t end_ms = clock_ms() + (uint64_t)WAIT_MS * test_slow();
    const uint64_t fix_ms = clock_ms() + FIX_MS;
    const char *text;
    bool is_fixed = false;
    unsigned server;

    for (unsigned i = 0; i < CLUSTER_SERVERS_SERVERS; i++) {
        (void)cluster_fault_continue(f, i);
        (void)cluster_fault_restart(f, i);
        (void)cluster_servers_run(f->servers, i, "CONFIG SET maxmemory 0");
        (void)cluster_servers_run(f->servers, i,
                                  "CONFIG SET min-replicas-to-write 0");
    }
    while ((text = find_unwell(f, &server)) != NULL) {
        if (clock_ms() > end_ms) {
            printf("server %u: %s\n", server, text);
            fail_msg("the cluster is not whole again; server %u: %s", server,
                     cluster_servers_run(f->servers, server, "CLUSTER NODES"));
        }
        if (!is_fixed && clock_ms() > fix_ms &&
            strstr(text, "cluster_slots_assigned:") != NULL &&
            strstr(text, "cluster_slots_assigned:16384") == NULL) {
            fix_slots(f, server);
            is_fixed = true;
        }
        each(ctx);
    }
}
