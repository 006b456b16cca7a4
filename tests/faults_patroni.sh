#!/bin/sh
# tests/faults_patroni.sh - two machines count into one PostgreSQL under Patroni,
# whose primary dies again and again, while they count.
# SPDX-License-Identifier: BSD-2-Clause
#
#   tests/faults_patroni.sh [BUILD [ROUNDS]]      (make faults)
#
# In odd rounds its machine dies, that is Patroni, too, and comes back when the
# other one has taken over: a moment before it sent the standby no more, so what
# was committed since is lost.  In even rounds its server alone: a moment before its
# sessions stood still, so that what the standby got was not answered.  At the end
# each count is what was acknowledged.  Everything lives in a temporary
# directory, on sockets in it and free ports of loopback, and is gone at the end.
set -u
build=${1:-build/release}
rounds=${2:-4}
loads=40 # of a machine in a round
. "${0%/*}/lib/demo.sh"

if ! command -v patroni >"$dir/out" || ! command -v etcd >"$dir/out"; then
    echo "SKIPPED ${0##*/}: Patroni and etcd are not installed, and .ci/setup faults could not" >&2
    exit 0
fi
# shellcheck disable=SC2046 # six words
set -- $(python3 -c 'import socket
s = [socket.socket() for i in range(6)]
for x in s: x.bind(("127.0.0.1", 0))
print(*[x.getsockname()[1] for x in s])')
etcd_port=$1 etcd_peers=$2 sql_one=$3 sql_two=$4 rest_one=$5 rest_two=$6
make_machines "host=$dir/one,$dir/two port=$sql_one,$sql_two"
printf 'log.rotate_after = 50ms\n' | tee -a "$dir/one.conf" >>"$dir/two.conf"

# ---- Patroni -------------------------------------------------------------------
of() { eval "echo \$$1_$2"; } # of rest one
configure() { # MACHINE
    cat >"$dir/$1.yml" <<END
scope: countd
name: $1
restapi: {listen: "127.0.0.1:$(of rest "$1")", connect_address: "127.0.0.1:$(of rest "$1")"}
etcd3: {host: "127.0.0.1:$etcd_port"}
bootstrap:
  dcs:
    ttl: 8
    loop_wait: 1
    retry_timeout: 3
    synchronous_mode: true
    primary_start_timeout: 0
    postgresql: {use_pg_rewind: true}
  initdb: [data-checksums, {encoding: UTF8}, {locale: C}, {auth: trust}]
  pg_hba: [local all all trust, host all all 127.0.0.1/32 trust, host replication all 127.0.0.1/32 trust]
postgresql:
  listen: "127.0.0.1:$(of sql "$1")"
  connect_address: "127.0.0.1:$(of sql "$1")"
  data_dir: $dir/$1/data
  bin_dir: $pg
  pgpass: $dir/$1/pgpass
  use_unix_socket: true
  authentication: {superuser: {username: postgres}, replication: {username: postgres}}
  parameters: {unix_socket_directories: $dir/$1, shared_buffers: 16MB, wal_retrieve_retry_interval: 500ms}
END
}
boot() { # MACHINE
    # shellcheck disable=SC2086 # a command and its arguments, or nothing
    $as patroni "$dir/$1.yml" >>"$dir/messages" 2>&1 &
    eval "patroni_$1=$!"
    pids="$pids $!"
}
end() { # PID
    kill -9 "$1"
    wait "$1" 2>>"$dir/messages"
    pids=$(echo "$pids" | sed "s/ $1\>//")
}
is() { curl -fs -o "$dir/out" "http://127.0.0.1:$(of rest "$1")/$2"; } # is one primary
sql() { "$pg/psql" -h "$dir/$1" -p "$(of sql "$1")" -U postgres -Atc "$2" 2>"$dir/out"; }
takes_changes() { [ "$(sql "$1" 'SELECT pg_is_in_recovery()')" = f ]; } # Patroni would answer from memory
has_primary() { { takes_changes one && primary=one other=two; } || { takes_changes two && primary=two other=one; }; }
# One machine is the primary, and commits wait for the other.
is_whole() { has_primary && is "$primary" primary && is "$other" sync; }
await() { # WHAT COMMAND ...
    awaited=$1
    shift
    since=$(date +%s)
    until "$@"; do
        [ $(($(date +%s) - since)) -lt 180 ] || fail "not in time: $awaited"
        sleep 0.1
    done
}

# Counts a file again and again.
load() { # MACHINE
    i=0
    while [ $i -lt "$loads" ]; do
        "$countd" load -f "$dir/$1.conf" "$dir/views.tsv" >>"$dir/loads" 2>&1 || exit 1
        i=$((i + 1))
    done
}

say "1. etcd, and PostgreSQL under Patroni on two machines"
mkdir "$dir/etcd" || exit 111
[ -z "$as" ] || chown nobody "$dir/etcd"
# shellcheck disable=SC2086
$as etcd --name etcd --data-dir "$dir/etcd" --initial-cluster "etcd=http://127.0.0.1:$etcd_peers" \
    --listen-client-urls "http://127.0.0.1:$etcd_port" --advertise-client-urls "http://127.0.0.1:$etcd_port" \
    --listen-peer-urls "http://127.0.0.1:$etcd_peers" --initial-advertise-peer-urls "http://127.0.0.1:$etcd_peers" \
    >>"$dir/etcd.log" 2>&1 &
pids="$pids $!"
await "etcd" curl -fs -o "$dir/out" "http://127.0.0.1:$etcd_port/health"
configure one
configure two
boot one
await "a primary" takes_changes one
boot two
await "a synchronous standby" is_whole

say "2. countd on both machines counts into it, and the primary dies $rounds times"
on "$primary" store init
machine one
machine two
views 300
round=1
while [ "$round" -le "$rounds" ]; do
    load one &
    loader_one=$!
    load two &
    loader_two=$!
    sleep "0.$((round * 37 % 90 + 10))" # so that it dies at any point
    dead=$primary
    if [ $((round % 2)) = 1 ]; then
        what="machine $dead" stop="pg_stat_replication"
    else
        what="the server of machine $dead" stop="pg_stat_activity WHERE application_name = 'countd'"
    fi
    stopped=$(sql "$dead" "SELECT pid FROM $stop")
    # shellcheck disable=SC2086 # a list of pids
    kill -STOP $stopped
    sleep 0.3
    [ $((round % 2)) = 0 ] || end "$(of patroni "$dead")" # first: it would say something
    # shellcheck disable=SC2086 # what is stopped would not see that its server is gone
    kill -9 "$(head -n 1 "$dir/$dead/data/postmaster.pid")" $stopped
    began=$(date +%s.%N)
    await "a primary again" has_primary
    echo "    $round: $what died; the primary is on machine $primary after $(echo "$began $(date +%s.%N)" | awk '{ printf "%.1f", $2 - $1 }') s"
    [ $((round % 2)) = 0 ] || boot "$dead"
    await "a synchronous standby again" is_whole
    for loader in $loader_one $loader_two; do
        wait "$loader" || fail "an increment was not acknowledged: $(tail -n 3 "$dir/loads")"
    done
    round=$((round + 1))
done

say "3. All that was acknowledged is there, once"
for m in one two; do
    on $m flush --timeout 2m
done
for m in one two; do
    on $m check
    on $m store
done
sort "$dir/views.tsv" | uniq -c | while read -r n keyspace key by; do
    expected=$((n * by * loads * 2 * rounds))
    got=$("$countd" get -f "$dir/one.conf" "$keyspace" "$key")
    [ "$got" = $expected ] || fail "$key was counted $expected times, and is $got"
done || exit 1
echo "    increments=$((300 * loads * 2 * rounds)) deaths=$rounds: all counts are exact"
stop_machines
