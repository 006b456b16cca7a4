/* common/store/postgresql/pg_statements.c - the statements, which a connection
 * prepares when it is made.
 *
 * Names of tables have no schema: the connection's search_path has it.
 * Parameters and columns are binary.  Rows by count are ordered by count
 * descending, then key; bytea compares as memcmp, the shorter first. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "common/store/postgresql/pg.h"

#define KEYSPACE                                                               \
    "SELECT id, keys, sum::text, saturated, change, nonce, history "           \
    "FROM keyspace WHERE name = $1"
#define ROWS    "SELECT key, n, saturated FROM counter WHERE keyspace = $1::int4 "
#define COUNTED "(SELECT count(*) FROM counter WHERE keyspace = $1::int4 AND "

const char *const pg_statements[PG_STATEMENTS] = {
    [PG_BEGIN] = "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE",
    [PG_BEGIN_READ] = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY",
    [PG_COMMIT] = "COMMIT",
    [PG_ROLLBACK] = "ROLLBACK",

    /* The server and its sessions. */
    [PG_SERVER] =
        "SELECT version::int8, current_setting('server_version_num')::int8, "
        "current_setting('fsync'), current_setting('full_page_writes'), "
        "current_setting('synchronous_commit'), "
        "current_setting('synchronous_standby_names'), "
        "current_setting('autovacuum'), current_setting('data_checksums'), "
        "current_setting('server_version'), pg_is_in_recovery() FROM meta",
    [PG_LOCKERS] =
        "SELECT a.pid::int8, a.usename::text, a.application_name "
        "FROM pg_locks l JOIN pg_stat_activity a USING (pid) "
        "WHERE l.granted AND a.pid <> pg_backend_pid() AND l.mode <> "
        "'AccessShareLock' AND l.relation IN ('keyspace'::regclass, "
        "'counter'::regclass, 'band'::regclass, 'mark'::regclass, "
        "'block'::regclass) ORDER BY a.xact_start LIMIT 1",
    [PG_SIZES] = "SELECT (SELECT count(*) FROM keyspace), "
                 "(SELECT coalesce(sum(keys), 0)::int8 FROM keyspace), "
                 "pg_total_relation_size('counter')::int8, "
                 "pg_total_relation_size('block')::int8",

    /* Keyspaces. */
    [PG_CREATE] = "INSERT INTO keyspace (name, nonce) VALUES ($1, $2::int8) "
                  "ON CONFLICT DO NOTHING",
    [PG_COUNT_KEYSPACES] = "SELECT count(*) FROM keyspace",
    [PG_LOCK] = KEYSPACE " FOR UPDATE",
    [PG_LOCK_FREE] = KEYSPACE " FOR UPDATE SKIP LOCKED",
    [PG_FIND] = KEYSPACE,
    [PG_KEYSPACE_PUT] =
        "UPDATE keyspace SET keys = $2::int8, sum = $3::text::numeric, "
        "saturated = $4::int8, change = $5::int8, history = $6::bytea "
        "WHERE id = $1::int4",
    [PG_LIST] = "SELECT name, keys FROM keyspace WHERE name > $1 "
                "ORDER BY name LIMIT 256",
    [PG_DUE] = "SELECT name FROM keyspace WHERE history IS NOT NULL AND "
               "name > $1 ORDER BY name LIMIT 256",

    /* Marks. */
    [PG_MARKS] = "SELECT log, epoch, first_ms FROM mark "
                 "WHERE keyspace = $1::int4 AND log = ANY($2::bytea[])",
    [PG_MARK_PUT] =
        "INSERT INTO mark (keyspace, log, epoch, first_ms) "
        "SELECT $1::int4, l, e, f "
        "FROM unnest($2::bytea[], $3::int8[], $4::int8[]) u(l, e, f) "
        "ON CONFLICT (keyspace, log) DO UPDATE "
        "SET epoch = excluded.epoch, first_ms = excluded.first_ms",
    [PG_EACH_MARK] = "SELECT log, epoch, first_ms FROM mark "
                     "WHERE keyspace = $1::int4",

    /* Counters. */
    [PG_OLD] = "SELECT u.i, c.n, c.saturated "
               "FROM unnest($2::bytea[]) WITH ORDINALITY u(k, i) "
               "JOIN counter c ON c.keyspace = $1::int4 AND c.key = u.k",
    [PG_PUT] = "INSERT INTO counter (keyspace, key, n, saturated) "
               "SELECT $1::int4, k, n, s "
               "FROM unnest($2::bytea[], $3::int8[], $4::bool[]) u(k, n, s) "
               "ON CONFLICT (keyspace, key) DO UPDATE "
               "SET n = excluded.n, saturated = excluded.saturated",
    [PG_GET] = "SELECT n, saturated FROM counter "
               "WHERE keyspace = $1::int4 AND key = $2",
    [PG_TOP] = ROWS "ORDER BY n DESC, key OFFSET $2::int8 LIMIT $3::int8",
    [PG_RANGE] = "SELECT key, n, saturated FROM ((" ROWS
                 "AND n = $2::int8 AND key >= $3::bytea ORDER BY key "
                 "LIMIT $4::int8 + $5::int8) UNION ALL (" ROWS
                 "AND n < $2::int8 ORDER BY n DESC, key "
                 "LIMIT $4::int8 + $5::int8)) t "
                 "ORDER BY n DESC, key OFFSET $4::int8 LIMIT $5::int8",
    [PG_COUNT_SAME] = "SELECT " COUNTED "n = $2::int8 AND key >= $3::bytea "
                      "AND ($4::bytea IS NULL OR key < $4::bytea))",
    [PG_COUNT_BETWEEN] =
        "SELECT " COUNTED "n = $2::int8 AND key >= $3::bytea) + " COUNTED
        "n < $2::int8 AND n > $4::int8) + " COUNTED
        "n = $4::int8 AND key < $5::bytea)",
    [PG_KEYS] = ROWS "AND key >= $2::bytea AND key > $3::bytea "
                     "AND ($4::bytea IS NULL OR key < $4::bytea) "
                     "ORDER BY key LIMIT $5::int8",
    [PG_KEY_AT] = "SELECT key FROM counter WHERE keyspace = $1::int4 "
                  "ORDER BY key OFFSET $2::int8 LIMIT 1",
    [PG_DEL] = "DELETE FROM counter c "
               "USING unnest($2::bytea[]) WITH ORDINALITY u(k, i) "
               "WHERE c.keyspace = $1::int4 AND c.key = u.k "
               "RETURNING u.i, c.n, c.saturated",
    [PG_DROP] =
        "WITH t AS (SELECT key FROM (SELECT key FROM counter "
        "WHERE keyspace = $1::int4 AND key > $2 ORDER BY key LIMIT $3::int8) x "
        "ORDER BY key DESC LIMIT 1), d AS (DELETE FROM counter c USING t "
        "WHERE c.keyspace = $1::int4 AND c.key > $2 AND c.key <= t.key) "
        "SELECT key FROM t",

    /* Bands. */
    [PG_BANDS] = "SELECT n, key, keys FROM band WHERE keyspace = $1::int4 "
                 "ORDER BY n DESC, key",
    [PG_BAND_AT] =
        "SELECT n, key, before::int8 FROM (SELECT n, key, keys, "
        "sum(keys) OVER (ORDER BY n DESC, key) - keys AS before FROM band "
        "WHERE keyspace = $1::int4) b WHERE before <= $2::int8 "
        "ORDER BY before DESC, n, key DESC LIMIT 1",
    [PG_BAND_OF] =
        "SELECT n, key, before::int8 FROM (SELECT n, key, keys, "
        "sum(keys) OVER (ORDER BY n DESC, key) - keys AS before FROM band "
        "WHERE keyspace = $1::int4) b WHERE n > $2::int8 OR "
        "(n = $2::int8 AND key <= $3::bytea) "
        "ORDER BY before DESC, n, key DESC LIMIT 1",
    [PG_BAND_PUT] =
        "INSERT INTO band (keyspace, n, key, keys) SELECT $1::int4, n, k, c "
        "FROM unnest($2::int8[], $3::bytea[], $4::int8[]) u(n, k, c) "
        "ON CONFLICT (keyspace, n, key) DO UPDATE SET keys = excluded.keys",
    [PG_BAND_DEL] = "DELETE FROM band USING unnest($2::int8[], $3::bytea[]) "
                    "u(n, k) WHERE keyspace = $1::int4 AND band.n = u.n "
                    "AND band.key = u.k",
    [PG_BAND_CLEAR] = "DELETE FROM band WHERE keyspace = $1::int4",
    [PG_SPLIT] = "SELECT key, n FROM counter WHERE keyspace = $1::int4 "
                 "AND n = $2::int8 AND key >= $3 "
                 "ORDER BY key OFFSET $4::int8 LIMIT 1",
    [PG_SPLIT_MORE] = "SELECT key, n FROM counter WHERE keyspace = $1::int4 "
                      "AND n < $2::int8 ORDER BY n DESC, key "
                      "OFFSET $3::int8 LIMIT 1",

    /* Blocks of history. */
    [PG_BLOCK_AFTER] = "SELECT k, v FROM block WHERE keyspace = $1::int4 "
                       "AND k >= $2 ORDER BY k LIMIT $3::int8",
    [PG_BLOCK_BEFORE] = "SELECT k, v FROM block WHERE keyspace = $1::int4 "
                        "AND k <= $2 ORDER BY k DESC LIMIT 1",
    [PG_BLOCK_PUT] = "INSERT INTO block (keyspace, k, v) "
                     "SELECT $1::int4, k, v "
                     "FROM unnest($2::bytea[], $3::bytea[]) u(k, v) "
                     "ON CONFLICT (keyspace, k) DO UPDATE SET v = excluded.v",
    [PG_BLOCK_DEL] =
        "DELETE FROM block WHERE keyspace = $1::int4 AND k = ANY($2::bytea[])",
    [PG_BLOCK_CLEAR] =
        "WITH t AS (SELECT k FROM (SELECT k FROM block "
        "WHERE keyspace = $1::int4 AND k > $2 ORDER BY k LIMIT $3::int8) x "
        "ORDER BY k DESC LIMIT 1), d AS (DELETE FROM block b USING t "
        "WHERE b.keyspace = $1::int4 AND b.k > $2 AND b.k <= t.k) "
        "SELECT k FROM t",
    [PG_BLOCK_COUNT] = "SELECT count(*) FROM block WHERE keyspace = $1::int4",
};
