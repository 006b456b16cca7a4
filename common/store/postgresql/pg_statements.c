/* common/store/postgresql/pg_statements.c - the statements that a connection
 * prepares when it is made, for pg_run().
 *
 * Names of tables have no schema: the connection's search_path has it.
 * Parameters and columns are binary.  Rows by count are ordered by count
 * descending, then key; bytea compares as memcmp, the shorter first.  Questions
 * name their keyspace, so that none waits for its number; the others have it. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "common/store/postgresql/pg.h"

/* This server's clock, Unix time in ms. */
#define NOW "(extract(epoch FROM clock_timestamp()) * 1000)::int8 "

/* Directories that have not ended. */
#define SENDERS "sender WHERE seen > 0 "

#define KEYSPACE                                                               \
    "SELECT id, keys, sum::text, saturated, change, nonce, history "           \
    "FROM keyspace WHERE name = $1"
#define NAMED "keyspace = (SELECT id FROM keyspace WHERE name = $1) "
#define ROWS  "SELECT key, n, saturated FROM counter WHERE " NAMED
#define IN    "WHERE keyspace = $1::int4 "
#define COUNT                                                                  \
    "(SELECT count(*) FROM counter x WHERE x.keyspace = c.keyspace AND "
#define BEFORE "n, key, sum(keys) OVER (ORDER BY n DESC, key) - keys AS before "

/* The rows from a row on, in order. */
#define FROM_ROW(id, count, row, most)                                         \
    "((SELECT key, n, saturated FROM counter WHERE keyspace = " id             \
    " AND n = " count " AND key >= " row " ORDER BY key LIMIT " most ") "      \
    "UNION ALL (SELECT key, n, saturated FROM counter WHERE keyspace = " id    \
    " AND n < " count " ORDER BY n DESC, key LIMIT " most ")) u "              \
    "ORDER BY n DESC, key "

/* Deletes some rows behind $2, and has the last of them. */
#define CLEAR(table, k)                                                        \
    "WITH t AS (SELECT " k " FROM (SELECT " k " FROM " table " " IN "AND " k   \
    " > $2 ORDER BY " k " LIMIT $3::int8) x ORDER BY " k " DESC LIMIT 1), "    \
    "d AS (DELETE FROM " table " c USING t WHERE c.keyspace = $1::int4 "       \
    "AND c." k " > $2 AND c." k " <= t." k ") SELECT " k " FROM t"

const char *const pg_statements[PG_STATEMENTS] = {
    [PG_BEGIN] = "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE",
    [PG_BEGIN_READ] = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY",
    [PG_COMMIT] = "COMMIT",
    [PG_ROLLBACK] = "ROLLBACK",

    /* The server and its sessions. */
    [PG_SERVER] =
        "SELECT version::int8, "
        "current_setting('transaction_read_only')::bool, " NOW ", "
        "('off' IN (current_setting('fsync'), "
        "current_setting('full_page_writes')))::int::int8, "
        "(current_setting('synchronous_commit') NOT IN ('on', "
        "'remote_apply'))::int::int8, "
        "(current_setting('synchronous_standby_names') <> '' AND NOT EXISTS ("
        "SELECT FROM pg_stat_replication WHERE sync_state IS NULL " /* hidden */
        "OR sync_state IN ('sync', 'quorum')))::int::int8, "
        "(current_setting('autovacuum') = 'off')::int::int8, "
        "(current_setting('synchronous_standby_names') = '')::int::int8, "
        "(current_setting('data_checksums') = 'off')::int::int8, "
        "CASE WHEN pg_is_in_recovery() THEN 0 ELSE (SELECT coalesce(sum("
        "pg_wal_lsn_diff(pg_current_wal_lsn(), restart_lsn)), 0)::int8 "
        "FROM pg_replication_slots "
        "WHERE wal_status IN ('extended', 'unreserved')) END, "
        "(SELECT count(*) FROM " SENDERS "AND seen < " NOW "- 10000), "
        "(SELECT coalesce(max(abs(skew)), 0) FROM " SENDERS ") FROM meta",

    /* What countd store prints: rows of a name and a value. */
    [PG_FACTS] =
        "VALUES ('postgresql', current_setting('server_version')), "
        "('synchronous_commit', current_setting('synchronous_commit')), "
        "('synchronous_standby_names', "
        "current_setting('synchronous_standby_names')), "
        "('data_checksums', current_setting('data_checksums')), "
        "('keyspaces', (SELECT count(*)::text FROM keyspace)), "
        "('keys', (SELECT coalesce(sum(keys), 0)::text FROM keyspace)), "
        "('counter_bytes', pg_total_relation_size('counter')::text), "
        "('history_bytes', pg_total_relation_size('block')::text)",
    [PG_SENDERS] =
        "SELECT 'directory', format('%s host=%s as_of_ms=%s clock_ahead_ms=%s "
        "%s transactions=%s', encode(s.id, 'hex'), s.host, s.as_of, s.skew, "
        "CASE WHEN s.seen > 0 THEN 'seen_ms_ago=' || (" NOW "- s.seen) "
        "ELSE 'ended' END, "
        "(SELECT coalesce(sum(seq), 0) FROM lane WHERE sender = s.id)) "
        "FROM sender s ORDER BY s.host, s.id",
    [PG_BLOCKED] =
        "SELECT DISTINCT 'lock', format('merges wait for the server''s process "
        "%s (user %s, program %s)', b.pid, b.usename, b.application_name) "
        "FROM pg_stat_activity a, unnest(pg_blocking_pids(a.pid)) p "
        "JOIN pg_stat_activity b ON b.pid = p WHERE a.wait_event_type = 'Lock' "
        "AND a.datname = current_database() AND a.application_name = 'countd' "
        "AND b.application_name IS DISTINCT FROM 'countd'",

    /* Keyspaces. */
    [PG_CREATE] = "INSERT INTO keyspace (name, nonce) VALUES ($1, $2::int8) "
                  "ON CONFLICT DO NOTHING",
    [PG_COUNT_KEYSPACES] =
        "SELECT count(*) FROM keyspace WHERE keys > 0 AND name <> $1",
    [PG_LOCK] = KEYSPACE " FOR UPDATE",
    [PG_LOCK_FREE] = KEYSPACE " FOR UPDATE SKIP LOCKED",
    [PG_FIND] = KEYSPACE,
    [PG_KEYSPACE_PUT] =
        "UPDATE keyspace SET keys = $2::int8, sum = $3::text::numeric, "
        "saturated = $4::int8, change = $5::int8, "
        "history = nullif($6::bytea, ''), nonce = $7::int8 "
        "WHERE id = $1::int4",
    /* One that was emptied is there for its marks; a wrong one is listed. */
    [PG_LIST] = "SELECT name, keys FROM keyspace k WHERE name > $1 "
                "AND ($2::int8 <> 0 OR keys <> 0 OR sum <> 0 OR EXISTS ("
                "SELECT FROM counter c WHERE c.keyspace = k.id)) "
                "ORDER BY name LIMIT 256",
    [PG_DUE] = "SELECT name FROM keyspace WHERE history IS NOT NULL "
               "AND name > $1 ORDER BY name LIMIT 256",

    /* Marks. */
    [PG_MARKS] = "SELECT u.i, m.epoch, m.first_ms "
                 "FROM unnest($2::bytea[]) WITH ORDINALITY u(log, i) "
                 "JOIN mark m ON m.keyspace = $1::int4 AND m.log = u.log",
    [PG_MARK_PUT] =
        "INSERT INTO mark (keyspace, log, epoch, first_ms) "
        "SELECT $1::int4, l, e, f "
        "FROM unnest($2::bytea[], $3::int8[], $4::int8[]) u(l, e, f) "
        "ON CONFLICT (keyspace, log) DO UPDATE "
        "SET epoch = excluded.epoch, first_ms = excluded.first_ms "
        "WHERE mark.epoch <= excluded.epoch", /* an import's may be older */
    [PG_IMPORT_MARKS_CLEAR] =
        "DELETE FROM mark " IN "AND substring(log from 1 for 4) = "
        "'" LOG_FILL_IMPORT "'::bytea",
    [PG_EACH_MARK] = "SELECT log, epoch, first_ms FROM mark " IN,

    /* Counters. */
    [PG_OLD] = "SELECT u.i, c.n, c.saturated "
               "FROM unnest($2::bytea[]) WITH ORDINALITY u(k, i) "
               "JOIN counter c ON c.keyspace = $1::int4 AND c.key = u.k",
    [PG_PUT] = "INSERT INTO counter (keyspace, key, n, saturated) "
               "SELECT $1::int4, k, n, s "
               "FROM unnest($2::bytea[], $3::int8[], $4::bool[]) u(k, n, s) "
               "ON CONFLICT (keyspace, key) DO UPDATE "
               "SET n = excluded.n, saturated = excluded.saturated",
    [PG_DEL] = "DELETE FROM counter c "
               "USING unnest($2::bytea[]) WITH ORDINALITY u(k, i) "
               "WHERE c.keyspace = $1::int4 AND c.key = u.k "
               "RETURNING u.i, c.n, c.saturated",
    [PG_DROP] = CLEAR("counter", "key"),

    /* Questions. */
    [PG_GET] = "SELECT n, saturated FROM counter WHERE " NAMED "AND key = $2",
    [PG_TOP] = ROWS "ORDER BY n DESC, key OFFSET $2::int8 LIMIT $3::int8",
    [PG_FAR] =
        "WITH k AS (SELECT * FROM (SELECT id, keys, greatest($2::int8 + "
        "CASE WHEN $2::int8 < 0 THEN keys ELSE 0 END, 0) AS rank "
        "FROM keyspace WHERE name = $1) x WHERE rank < keys), "
        "b AS (SELECT id, n, key, (rank - before)::int8 AS skip FROM k, "
        "LATERAL (SELECT " BEFORE "FROM band WHERE keyspace = k.id) y "
        "WHERE before <= rank ORDER BY before DESC, n, key DESC LIMIT 1) "
        "SELECT t.* FROM b, LATERAL (SELECT * FROM " FROM_ROW(
            "b.id", "b.n", "b.key", "b.skip + $3::int8") //
    "OFFSET b.skip LIMIT $3::int8) t ORDER BY t.n DESC, t.key",
    [PG_RANK] =
        "WITH c AS (SELECT keyspace, n, saturated FROM counter WHERE " NAMED
        "AND key = $2), "
        "b AS (SELECT y.* FROM c, LATERAL (SELECT " BEFORE
        "FROM band WHERE keyspace = c.keyspace) y "
        "WHERE y.n > c.n OR (y.n = c.n AND y.key <= $2) "
        "ORDER BY y.before DESC, y.n, y.key DESC LIMIT 1) "
        "SELECT c.n, c.saturated, b.before::int8 + CASE WHEN b.n = c.n "
        "THEN " COUNT "x.n = c.n AND x.key >= b.key AND x.key < $2) ELSE " COUNT
        "x.n = b.n AND x.key >= b.key) + " COUNT
        "x.n < b.n AND x.n > c.n) + " COUNT
        "x.n = c.n AND x.key < $2) END FROM c LEFT JOIN b ON true",
    [PG_KEYS] = ROWS "AND key >= $2::bytea AND key > $3::bytea "
                     "AND ($4::bytea = '' OR key < $4::bytea) "
                     "AND ($6::int8 = 0 OR key >= (SELECT key FROM counter "
                     "WHERE " NAMED "ORDER BY key OFFSET $6::int8 LIMIT 1)) "
                     "ORDER BY key LIMIT $5::int8",

    /* Bands. */
    [PG_BANDS] = "SELECT n, key, keys FROM band " IN "ORDER BY n DESC, key",
    [PG_BAND_PUT] =
        "INSERT INTO band (keyspace, n, key, keys) SELECT $1::int4, n, k, c "
        "FROM unnest($2::int8[], $3::bytea[], $4::int8[]) u(n, k, c) "
        "ON CONFLICT (keyspace, n, key) DO UPDATE SET keys = excluded.keys",
    [PG_BAND_DEL] = "DELETE FROM band USING unnest($2::int8[], $3::bytea[]) "
                    "u(n, k) WHERE keyspace = $1::int4 AND band.n = u.n "
                    "AND band.key = u.k",
    [PG_BAND_CLEAR] = "DELETE FROM band " IN,
    [PG_SPLIT] = "SELECT n, key FROM " FROM_ROW("$1::int4", "$2::int8", "$3",
                                                "$4::int8 + 1") //
    "OFFSET $4::int8 LIMIT 1",

    /* Blocks of history. */
    [PG_BLOCK_AFTER] =
        "SELECT k, v FROM block " IN "AND k >= $2 ORDER BY k LIMIT $3::int8",
    [PG_BLOCK_BEFORE] =
        "SELECT k, v FROM block " IN "AND k <= $2 ORDER BY k DESC LIMIT 1",
    [PG_BLOCK_PUT] = "INSERT INTO block (keyspace, k, v) "
                     "SELECT $1::int4, k, v "
                     "FROM unnest($2::bytea[], $3::bytea[]) u(k, v) "
                     "ON CONFLICT (keyspace, k) DO UPDATE SET v = excluded.v",
    [PG_BLOCK_DEL] = "DELETE FROM block " IN "AND k = $2",
    [PG_BLOCK_CLEAR] = CLEAR("block", "k"),

    /* For a check: blocks, marks, and whether a mark names no log. */
    [PG_COUNTS] = "SELECT (SELECT count(*) FROM block " IN "), count(*), "
                  "coalesce(bool_or(length(log) <> 16), false) FROM mark " IN,

    /* The sender. */
    [PG_LANES] = "SELECT lane::int8, seq FROM lane WHERE sender = $1",
    [PG_SEND] = "INSERT INTO lane (sender, lane, seq) VALUES ($1, $2::int4, 1) "
                "ON CONFLICT (sender, lane) DO UPDATE SET seq = lane.seq + 1 "
                "RETURNING seq",
    [PG_ACCEPT] =
        "INSERT INTO lane (sender, lane, seq) VALUES ($1, $2::int4, $3::int8) "
        "ON CONFLICT (sender, lane) DO UPDATE SET seq = excluded.seq",
    [PG_TICK] =
        "INSERT INTO sender (id, host, as_of, skew, seen) "
        "VALUES ($1, $2::text, $3::int8, $4::int8, " NOW ") "
        "ON CONFLICT (id) DO UPDATE SET host = excluded.host, "
        "as_of = excluded.as_of, skew = excluded.skew, seen = excluded.seen "
        "RETURNING seen",
    [PG_AS_OF] =
        "SELECT (SELECT min(greatest(as_of - greatest(skew - t.skew, 0), 0)) "
        "FROM " SENDERS "AND id <> $1), "
        "(SELECT as_of FROM sender WHERE id = $1), NOT EXISTS (SELECT FROM "
        "unnest($2::int8[]) WITH ORDINALITY u(seq, i) WHERE u.seq > "
        "coalesce((SELECT l.seq FROM lane l WHERE l.sender = $1 "
        "AND l.lane = u.i - 1), 0)), "
        "NOT EXISTS (SELECT FROM " SENDERS "AND id <> $1) "
        "FROM (SELECT $3::int8 - " NOW "AS skew) t",
    [PG_END] = "UPDATE sender SET seen = 0 WHERE id = $1",
    [PG_RESUME] = "UPDATE sender SET seen = " NOW "WHERE id = $1 AND seen = 0",
    [PG_ALONE] = "SELECT NOT EXISTS (SELECT FROM sender WHERE id <> $1)",
    [PG_FORGET] = "WITH s AS (DELETE FROM sender WHERE encode(id, 'hex') = $1 "
                  "RETURNING id) SELECT count(*) FROM s",
};
