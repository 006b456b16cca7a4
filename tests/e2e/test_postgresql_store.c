/* tests/e2e/test_postgresql_store.c - the daemons and commands of two data
 * directories that count into one database. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/lib/test.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/lib/pg_machines.h"

#define LINES 3000

PG_MACHINES(two_machines_count_into_one_keyspace, x)
{
    struct fleet *a = &x->fleets[0], *b = &x->fleets[1];

    service_start(a);
    service_start(b);
    for (int i = 0; i < 10; i++) {
        service_add(a, "words", "the", 3);
        service_add(b, "words", "the", 4);
        service_add(b, "words", "of", 1);
    }
    expect_text(FLEET_RUN(a, "flush"), 0, "");
    expect_text(FLEET_RUN(b, "flush"), 0, "");
    for (int i = 0; i < 2; i++) {
        assert_int_equal(service_count(&x->fleets[i], "words", "the"), 70);
        assert_int_equal(service_total(&x->fleets[i], "words"), 80);
    }
    expect(FLEET_RUN(a, "top", "words", "--tsv"), 0, "70\tthe\n");
    expect(FLEET_RUN(a, "rank", "words", "of"), 0, "2\n");
    expect(FLEET_RUN(a, "keyspaces", "--tsv"), 0, "words");
    expect(FLEET_RUN(a, "distinct", "words"), 0, "2");
    expect(FLEET_RUN(a, "check"), 0, "");
    expect(FLEET_RUN(a, "store", "--tsv"), 0, "keys\t2\n");
    expect(FLEET_RUN(a, "del", "words", "of"), 0, "keys=1 of 1");
    assert_string_equal(
        pg_server_run("SELECT n FROM @.counters WHERE keyspace = 'words' "
                      "AND key = 'the'"),
        "70");
    expect(FLEET_RUN(b, "drop", "words"), 0, "words");
    assert_int_equal(service_count(a, "words", "the"), INT64_MIN);
}

static void
write_lines(struct pg_machines *x, int from, char path[600])
{
    FILE *file;

    (void)snprintf(path, 600, "%.500s/%d.tsv", x->fleets[0].path, from);
    file = fopen(path, "w");
    assert_non_null(file);
    for (int i = from; i < from + LINES; i++)
        (void)fprintf(file, "words\tkey%d\t1\t1709251200\n", i);
    assert_int_equal(fclose(file), 0);
}

static void
load_once(struct fleet *f, const char *path, const char *words)
{
    expect(FLEET_RUN(f, "load", "--once", path), 0, words);
}

PG_MACHINES(a_file_counts_once_also_from_two_machines, x)
{
    struct fleet *a = &x->fleets[0], *b = &x->fleets[1];
    char first[600], second[600];
    struct daemon load;

    write_lines(x, 0, first);
    write_lines(x, LINES, second);
    service_start(a);
    service_start(b);
    load_once(a, first, "3000 increments: 3000 merged, 0 merged before");
    load_once(a, first, "3000 increments: 0 merged, 3000 merged before");
    load_once(b, first, "3000 increments: 0 merged, 3000 merged before");

    /* One that is killed while the database is away goes on. */
    pg_server_stop();
    fleet_begin(a, &load,
                (const char *const[]){"load", "--once", second, NULL});
    while (FLEET_RUN(a, "held") == 0)
        assert_true(daemon_alive(&load));
    daemon_kill(&load);
    pg_server_start();
    load_once(a, second, "3000 increments: ");
    load_once(a, second, "3000 increments: 0 merged, 3000 merged before");
    expect_text(FLEET_RUN(a, "flush"), 0, "");
    assert_int_equal(service_total(a, "words"), 2 * LINES);
    expect(FLEET_RUN(a, "drop", "words"), 0, "words");
    load_once(a, first, "3000 increments: 3000 merged, 0 merged before");
    expect(FLEET_RUN(a, "check"), 0, "");
}

/* What a machine exported makes the same counts and history in the database, once
 * if it is loaded twice. */
static void
load_exported(struct fleet *f, const char *exported)
{
    char path[600];
    FILE *file;

    (void)snprintf(path, sizeof path, "%.500s/exported", f->path);
    file = fopen(path, "w");
    assert_non_null(file);
    assert_int_not_equal(fputs(exported, file), EOF);
    assert_int_equal(fclose(file), 0);
    for (int i = 0; i < 2; i++)
        load_once(f, path, "3001 increments: ");
    expect(FLEET_RUN(f, "export", "--history", "words"), 0, "");
    assert_string_equal(text, exported);
    expect(FLEET_RUN(f, "drop", "words"), 0, "words");
}

PG_MACHINES(keyspaces_of_files_are_loaded_and_imported_once, x)
{
    struct fleet *f = &x->fleets[0], *other = &x->fleets[1];
    static char exported[TEXT_SIZE], top[TEXT_SIZE];
    char path[600];

    service_start(other);
    pg_machines_add(other, "other", "a", 1);
    fleet_option(f, "store=files");
    service_start(f);
    write_lines(x, 0, path);
    load_once(f, path, "3000 merged");
    service_add(f, "words", "key7", 41);
    pg_machines_add(f, "other", "a", 5);
    expect(FLEET_RUN(f, "export", "--history", "words"), 0, "key7\t41\t");
    (void)strcpy(exported, text); /* of the same size */
    load_exported(other, exported);
    expect(FLEET_RUN(f, "top", "words", "--tsv"), 0, "42\tkey7\n");
    (void)strcpy(top, text);

    fleet_option(f, "store=postgresql");
    expect(FLEET_RUN(f, "store", "import", "words"), CONFIG_EXIT_NEGATIVE,
           "countd-worker runs");
    fleet_stop_all(f);
    expect(FLEET_RUN(f, "store", "import"), CONFIG_EXIT_NEGATIVE,
           "imported keyspace=words keys=3000\n");
    assert_has(text, "keyspace other is not imported: it has counts");
    assert_string_equal(
        pg_server_run("SELECT reltuples FROM pg_class WHERE oid = "
                      "'@.counter'::regclass"),
        "3001"); /* the server knows how many there are */
    expect(FLEET_RUN(f, "store", "import", "words"), CONFIG_EXIT_NEGATIVE,
           "there is no file of it");

    service_start(f);
    expect(FLEET_RUN(f, "export", "--history", "words"), 0, "");
    assert_string_equal(text, exported);
    expect(FLEET_RUN(f, "top", "words", "--tsv"), 0, "");
    assert_string_equal(text, top);
    expect(FLEET_RUN(f, "rank", "words", "key7"), 0, "1\n");
    load_once(f, path, "3000 increments: 0 merged, 3000 merged before");
    assert_int_equal(service_total(f, "words"), LINES + 41);
    expect(FLEET_RUN(f, "check"), 0, "");
}

PG_MACHINES(logs_wait_for_a_database_that_is_away, x)
{
    struct fleet *f = &x->fleets[0];

    service_start(f);
    pg_machines_add(f, "words", "the", 1);
    pg_server_stop();
    service_add(f, "words", "the", 2);
    expect(FLEET_RUN(f, "get", "words", "the"), CONFIG_EXIT_SYSTEM,
           "does not answer");
    expect(FLEET_RUN(f, "flush", "--timeout", "1s"), CONFIG_EXIT_NEGATIVE,
           "not merged in time");
    expect(FLEET_RUN(f, "store"), CONFIG_EXIT_SYSTEM, "PostgreSQL: ");
    assert_false(fleet_logs_are_drained(f));
    expect(FLEET_RUN(f, "held"), 0, "");
    pg_server_start();
    expect(FLEET_RUN(f, "flush"), 0, "");
    assert_int_equal(service_count(f, "words", "the"), 3);
    fleet_stop(f, FLEET_WORKER);
    fleet_start(f, FLEET_WORKER);
    pg_machines_add(f, "words", "the", 4);
    assert_int_equal(service_count(f, "words", "the"), 7);
    expect(FLEET_RUN(f, "check"), 0, "");
}

static void
refuse_start(struct pg_machines *x, const char *program, const char *conninfo,
             const char *schema, const char *words)
{
    char dir[600], to[700], in[64];
    const char *const argv[] = {
        dir, to, in, "-oread.listen=127.0.0.1:0", "-ostore=postgresql", NULL};
    const struct daemon_how how = {.argv = argv, .may_fail = true};
    struct daemon d;

    (void)snprintf(dir, sizeof dir, "-d%s", x->fleets[0].path);
    (void)snprintf(to, sizeof to, "-ostore.conninfo=%s", conninfo);
    (void)snprintf(in, sizeof in, "-ostore.schema=%s", schema);
    assert_int_equal(daemon_start_how(&d, program, &how), CONFIG_EXIT_USAGE);
    assert_has(daemon_text(&d), words);
    daemon_fini(&d);
}

PG_MACHINES(what_cannot_work_is_refused_by_name, x)
{
    struct fleet *f = &x->fleets[0];

    refuse_start(x, "countd-worker", pg_server_conninfo(), "nobody",
                 "run countd store init");
    expect(FLEET_RUN(f, "store", "init"), CONFIG_EXIT_NEGATIVE,
           "already exists");
    expect(FLEET_RUN(f, "store", "init", "--print"), 0, "CREATE TABLE ");
    expect(FLEET_RUN(f, "backup", "/nowhere"), CONFIG_EXIT_USAGE, "pg_dump");
    expect(FLEET_RUN(f, "del", "a", "b", "--purge"), CONFIG_EXIT_USAGE,
           "PostgreSQL keeps bytes");
    expect(FLEET_RUN(f, "store", "-o", "store.conninfo=host=a password=x"),
           CONFIG_EXIT_USAGE, "without a password");
    expect(FLEET_RUN(f, "store", "-o", "store.conninfo=postgresql://u:x@h/d"),
           CONFIG_EXIT_USAGE, "without a password");
    expect(FLEET_RUN(f, "store", "-o", "store.schema=a;b"), CONFIG_EXIT_USAGE,
           "store.schema");
}

/* ---- PgBouncer ------------------------------------------------------------ */

#define PGBOUNCER "/usr/sbin/pgbouncer"

/* In front of the server, as the server's user: it refuses root. */
static void
pool_start(struct daemon *d, struct tmpdir *dir, const char *more)
{
    char conf[1600], path[600];
    const char *const argv[] = {path, NULL};
    struct daemon_how how = {.argv = argv, .not_ready = true};
    struct stat st;

    assert_int_equal(stat(pg_server_path(), &st), 0);
    tmpdir_make(dir);
    (void)snprintf(path, sizeof path, "%s/conf", dir->path);
    (void)snprintf(conf, sizeof conf,
                   "[databases]\npostgres = host=%s user=postgres\n"
                   "[pgbouncer]\nauth_type = any\nlisten_port = 5432\n"
                   "unix_socket_dir = %s\n%s",
                   pg_server_path(), dir->path, more);
    tmpdir_put(dir, "conf", conf, strlen(conf), 0644);
    tmpdir_chown(dir, st.st_uid);
    how.uid = geteuid() == 0 ? st.st_uid : 0;
    (void)daemon_start_how(d, PGBOUNCER, &how); /* fails itself */
    daemon_await_words(d, "process up");
}

/* Sessions are other programs', too: none is left with what countd sets. */
static void
expect_untouched(const char *pool)
{
    PGconn *session = PQconnectdb(pool);
    PGresult *r = PQexec(session, "SELECT current_setting('search_path')");

    assert_int_equal(PQntuples(r), 1);
    assert_string_equal(PQgetvalue(r, 0, 0), "\"$user\", public");
    PQclear(r);
    PQfinish(session);
}

PG_MACHINES(peer_pgbouncer_is_refused_by_name, x)
{
    static const struct {
        const char *conf, *more;
    } rows[] = {
        {"pool_mode = session\n", ""},
        {"pool_mode = transaction\n", ""},
        {"pool_mode = transaction\n", "options='-c geqo=off'"},
    };
    char pool[500], conninfo[600], option[700];
    struct tmpdir dir;
    struct daemon d;

    if (access(PGBOUNCER, X_OK) != 0)
        test_skip("PgBouncer is not installed");
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        pool_start(&d, &dir, rows[i].conf);
        (void)snprintf(pool, sizeof pool,
                       "host=%.400s user=postgres dbname=postgres", dir.path);
        (void)snprintf(conninfo, sizeof conninfo, "%s %s", pool, rows[i].more);
        (void)snprintf(option, sizeof option, "store.conninfo=%s", conninfo);
        refuse_start(x, "countd-worker", conninfo, x->schema, "PgBouncer");
        refuse_start(x, "countd-read", conninfo, x->schema, "PgBouncer");
        expect_untouched(pool);
        expect(FLEET_RUN(&x->fleets[0], "store", "init", "-o", option, "-o",
                         "store.schema=pooled"),
               CONFIG_EXIT_USAGE, "PgBouncer");
        expect_untouched(pool);
        daemon_kill(&d);
        daemon_fini(&d);
        tmpdir_remove(&dir);
    }
}
