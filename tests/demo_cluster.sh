#!/bin/sh
# tests/demo_cluster.sh - countd with its counters in a Redis Cluster: six servers
# on this machine, a master of which is killed.
#
#   tests/demo_cluster.sh [BUILD]      (make demo-cluster)
#
# Everything lives in a temporary directory and on free ports, and is gone at
# the end.
set -u
build=${1:-build/release}
. "${0%/*}/lib/demo.sh"

await() { # SECONDS COMMAND ...
    left=$(($1 * 10))
    shift
    until "$@" >/dev/null 2>&1; do
        left=$((left - 1))
        [ "$left" -gt 0 ] || fail "waited in vain for: $*"
        sleep 0.1
    done
}

command -v redis-server >/dev/null && command -v redis-cli >/dev/null || fail "redis-server and redis-cli are needed"

say "Six servers: three masters, and a replica of each"
base=$((20000 + $$ % 9000))
nodes=
for i in 0 1 2 3 4 5; do
    mkdir "$dir/$i"
    redis-server --port $((base + i)) --cluster-port $((base + 100 + i)) --bind 127.0.0.1 --dir "$dir/$i" \
        --cluster-enabled yes --cluster-node-timeout 1000 --appendonly yes --aof-load-truncated no --save '' >"$dir/$i/log" 2>&1 &
    pids="$pids $!"
    eval "pid$i=$!"
    nodes="$nodes 127.0.0.1:$((base + i))"
done
for i in 0 1 2 3 4 5; do await 10 redis-cli -p $((base + i)) ping; done
# shellcheck disable=SC2086 -- a list of addresses
redis-cli --cluster create $nodes --cluster-replicas 1 --cluster-yes >"$dir/messages" 2>&1 || fail "make the cluster"
for i in 0 1 2 3 4 5; do
    await 10 sh -c "redis-cli -p $((base + i)) cluster info | grep -q cluster_state:ok"
done
: >"$dir/messages"

cat >"$dir/countd.conf" <<EOF
data_dir = $dir/data
store = cluster
store.nodes =$nodes
write.listen = socket
write.ack_listen = socket
read.listen = socket
read.http = socket
http.listen = socket
counter.enable = false
EOF
"$countd" serve -f "$dir/countd.conf" >"$dir/messages" 2>&1 &
pids="$pids $!"
await 20 "$countd" keyspaces -f "$dir/countd.conf"

say "Increments go to the writer, and from the worker into the cluster"
run incr words the 3
run incr words cluster 4
run flush
run top words
run store

say "A master is killed (kill -9), and its replica takes its place"
port=$("$countd" store --tsv -f "$dir/countd.conf" | sed -n 's/.*127\.0\.0\.1:\([0-9]*\).*/\1/p')
eval "kill -9 \$pid$((port - base))"
run incr words the 5
await 30 sh -c "$countd get words the -f $dir/countd.conf | grep -qx 8"
run top words
run store
