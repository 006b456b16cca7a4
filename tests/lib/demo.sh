# tests/lib/demo.sh - what the demonstrations share; source it with $build set.
# SPDX-License-Identifier: BSD-2-Clause
#
# Everything lives in $dir, and the processes in $pids end with the script.
# shellcheck shell=sh disable=SC2154 -- build is the caller's
countd=$build/countd
dir=$(mktemp -d "${TMPDIR:-/tmp}/countd-demo-XXXXXX") || exit 111
pids=

finish() {
    status=$?
    trap - EXIT INT TERM
    # shellcheck disable=SC2086 -- a list of pids
    [ -z "$pids" ] || { kill $pids; wait $pids; } 2>/dev/null
    rm -rf "$dir"
    exit "$status"
}
trap finish EXIT
trap 'exit 130' INT TERM

fail() {
    echo "${0##*/}: $1" >&2
    [ -s "$dir/messages" ] && sed 's/^/    /' "$dir/messages" >&2
    exit 1
}

say() { printf '\n\033[1m%s\033[0m\n' "$*"; }
[ -t 1 ] || say() { printf '\n%s\n' "$*"; }

# Runs a countd command with our settings, showing what a user would type.
run() {
    printf '$ countd'
    for word; do case $word in *' '*) printf " '%s'" "$word" ;; *) printf ' %s' "$word" ;; esac; done
    echo
    command=$1
    shift
    "$countd" "$command" -f "$dir/countd.conf" "$@" || fail "countd $command failed"
}

# ---- machines: a folder and a file of settings each -------------------------
daemons=
# The user of PostgreSQL, which refuses root.
as=
[ "$(id -u)" != 0 ] || as='setpriv --reuid nobody --regid nogroup --clear-groups'
pg=$(ls -d /usr/lib/postgresql/*/bin 2>/dev/null | tail -1)

make_machines() { # CONNINFO
    [ -x "$pg/initdb" ] || fail "PostgreSQL's server is not installed"
    chmod 755 "$dir"
    for m in one two; do
        mkdir "$dir/$m" || exit 111
        [ -z "$as" ] || chown nobody "$dir/$m"
        printf '%s\n' "data_dir = $dir/$m/countd" "store = postgresql" \
            "store.conninfo = $1 user=postgres dbname=postgres" >"$dir/$m.conf"
    done
}

# Starts the daemons of a machine; its ports are added to its settings.
machine() {
    mkfifo "$dir/$1.ready" || exit 111
    "$countd" serve -f "$dir/$1.conf" -o write.listen=127.0.0.1:0 -o write.ack_listen=127.0.0.1:0 \
        -o read.listen=127.0.0.1:0 -o counter.port=0 -o http.listen=127.0.0.1:0 -o read.http=127.0.0.1:0 \
        --ready-fd 3 3>"$dir/$1.ready" 2>>"$dir/messages" &
    daemons="$daemons $!"
    pids="$pids $!"
    sed -n '/^$/q; s/^ack=/write.ack_listen = /p; s/^read=/read.listen = /p' "$dir/$1.ready" >>"$dir/$1.conf"
}
on() { # MACHINE COMMAND ...
    cp "$dir/$1.conf" "$dir/countd.conf"
    shift
    run "$@"
}
views() { awk -v n="$1" 'BEGIN { for (i = 0; i < n; i++) print "views\tpost-" i % 100 % 7 "\t1" }' >"$dir/views.tsv"; }
stop_machines() {
    # shellcheck disable=SC2086 # a list of pids
    kill $daemons
    for pid in $daemons; do
        wait "$pid" || fail "the daemons ended with $?"
    done
}
