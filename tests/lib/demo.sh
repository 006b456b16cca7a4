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
    echo "demo: $1" >&2
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
