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

bin=$(ls -d /usr/lib/postgresql/*/bin 2>/dev/null | tail -1)
[ -x "$bin/initdb" ] || fail "PostgreSQL's server is not installed"
chmod 755 "$dir"
mkdir "$dir/one" "$dir/two" || exit 111
as=
[ "$(id -u)" != 0 ] || { as='setpriv --reuid nobody --regid nogroup --clear-groups' && chown nobody "$dir/one" "$dir/two"; }

# The server of a machine.
postgres() {
    # shellcheck disable=SC2086 # a command and its arguments, or nothing
    $as "$bin/postgres" -D "$dir/$1/data" -k "$dir/$1" -c listen_addresses= 2>>"$dir/messages" &
    server=$!
    pids="$pids $server"
    until "$bin/pg_isready" -q -U postgres -h "$dir/$1"; do
        kill -0 "$server" || fail "a server did not start"
        sleep 0.1
    done
}
sql() { "$bin/psql" -h "$dir/$1" -U postgres -d postgres -c "$2" || fail "psql failed"; }

# The daemons of a machine; its ports are added to its settings.
machine() {
    mkfifo "$dir/$1.ready" || exit 111
    "$countd" serve -f "$dir/$1.conf" -o write.listen=127.0.0.1:0 -o write.ack_listen=127.0.0.1:0 \
        -o read.listen=127.0.0.1:0 -o counter.port=0 -o http.listen=127.0.0.1:0 -o read.http=127.0.0.1:0 \
        --ready-fd 3 3>"$dir/$1.ready" 2>>"$dir/messages" &
    daemons="$daemons $!"
    pids="$pids $!"
    sed -n '/^$/q; s/^ack=/write.ack_listen = /p; s/^read=/read.listen = /p' "$dir/$1.ready" >>"$dir/$1.conf"
}
on() {
    cp "$dir/$1.conf" "$dir/countd.conf"
    shift
    run "$@"
}
views() { awk -v n="$1" 'BEGIN { for (i = 0; i < n; i++) print "views\tpost-" i % 100 % 7 "\t1" }' >"$dir/views.tsv"; }

say "1. PostgreSQL on machine one, and a synchronous standby on machine two"
# shellcheck disable=SC2086
$as "$bin/initdb" -D "$dir/one/data" -U postgres -A trust -k --no-sync >"$dir/messages" 2>&1 || fail "initdb failed"
postgres one
primary=$server
# shellcheck disable=SC2086
$as "$bin/pg_basebackup" -D "$dir/two/data" -d "host=$dir/one user=postgres" -R -c fast --no-sync || fail "no copy"
postgres two
sql one "ALTER SYSTEM SET synchronous_standby_names = '*'" >"$dir/out"
sql one "SELECT pg_reload_conf()" >"$dir/out"

say "2. countd on both machines counts into it"
for m in one two; do
    printf '%s\n' "data_dir = $dir/$m/countd" "store = postgresql" \
        "store.conninfo = host=$dir/one,$dir/two user=postgres dbname=postgres" >"$dir/$m.conf"
done
on one store init
daemons=
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
# shellcheck disable=SC2086 # a list of pids
kill $daemons
for pid in $daemons; do
    wait "$pid" || fail "the daemons ended with $?"
done
