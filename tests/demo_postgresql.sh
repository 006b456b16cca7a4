#!/bin/sh
# tests/demo_postgresql.sh - two machines count into one PostgreSQL, which loses its
# own machine meanwhile.
# SPDX-License-Identifier: BSD-2-Clause
#
#   tests/demo_postgresql.sh [BUILD]      (make demo-postgresql)
#
# Everything lives in a temporary directory, on sockets in it and free ports, and
# is gone at the end.  PostgreSQL refuses root: root's servers run as nobody.
set -u
build=${1:-build/release}
. "${0%/*}/lib/demo.sh"

make_machines "host=$dir/one,$dir/two"

# The server of a machine.
postgres() {
    # shellcheck disable=SC2086 # a command and its arguments, or nothing
    $as "$pg/postgres" -D "$dir/$1/data" -k "$dir/$1" -c listen_addresses= 2>>"$dir/messages" &
    server=$!
    pids="$pids $server"
    until "$pg/pg_isready" -q -U postgres -h "$dir/$1"; do
        kill -0 "$server" || fail "a server did not start"
        sleep 0.1
    done
}
sql() { "$pg/psql" -h "$dir/$1" -U postgres -d postgres -c "$2" || fail "psql failed"; }

say "1. PostgreSQL on machine one, and a synchronous standby on machine two"
# shellcheck disable=SC2086
$as "$pg/initdb" -D "$dir/one/data" -U postgres -A trust -k --no-sync >"$dir/messages" 2>&1 || fail "initdb failed"
postgres one
primary=$server
# shellcheck disable=SC2086
$as "$pg/pg_basebackup" -D "$dir/two/data" -d "host=$dir/one user=postgres" -R -c fast --no-sync || fail "no copy"
postgres two
sql one "ALTER SYSTEM SET synchronous_standby_names = '*'" >"$dir/out"
sql one "SELECT pg_reload_conf()" >"$dir/out"

say "2. countd on both machines counts into it"
on one store init
machine one
machine two
views 30000
for m in one two; do
    echo "    on machine $m:"
    on $m load "$dir/views.tsv"
    on $m flush
done
on one top views -n 3

say "3. Machine one loses its server; 20000 more are counted, and wait in logs"
kill -QUIT "$primary"
wait "$primary"
views 20000
on one load "$dir/views.tsv"

say "4. The standby is promoted: what had been merged is there, and what waited comes"
sql two "ALTER SYSTEM RESET synchronous_standby_names" >"$dir/out"
sql two "SELECT pg_promote()" >"$dir/out"
on one flush
on two get views post-0
on two check
total=$("$countd" total -f "$dir/countd.conf" views)
[ "$total" = 80000 ] || fail "80000 were counted, and the total is $total"

say "5. Beside tables of your own"
sql two "CREATE TABLE posts (slug text PRIMARY KEY, title text);
    INSERT INTO posts SELECT 'post-' || i, 'Post ' || i FROM generate_series(0, 6) i" >"$dir/out"
cat <<'END'
SELECT p.title, c.n FROM posts p JOIN countd.counters c
    ON c.keyspace = 'views' AND c.key = p.slug::bytea ORDER BY c.n DESC LIMIT 3
END
sql two "SELECT p.title, c.n FROM posts p JOIN countd.counters c
    ON c.keyspace = 'views' AND c.key = p.slug::bytea ORDER BY c.n DESC LIMIT 3"
stop_machines
