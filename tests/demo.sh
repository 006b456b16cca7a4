#!/bin/sh
# tests/demo.sh - countd in a minute: counts the words of the texts on this machine.
# SPDX-License-Identifier: BSD-2-Clause
#
#   tests/demo.sh [BUILD]      (make demo)
#
# Everything lives in a temporary directory and on free ports, and is gone at
# the end.
set -u
build=${1:-build/release}
. "${0%/*}/lib/demo.sh"

# ---- the texts: licences and package papers, or our own pages -----------------
texts() {
    for f in /usr/share/common-licenses/* /usr/share/doc/*/copyright; do
        [ -f "$f" ] && [ ! -L "$f" ] && printf '%s\n' "$f"
    done
    for f in README.md data/FORMAT.md */*.[158] common/*/*.[158]; do
        [ -f "$f" ] && printf '%s\n' "$f"
    done
}
texts | sort -u | awk 'NR <= 800' >"$dir/texts"
# One increment per word, and one per word and text.
while read -r f; do head -c 30000 "$f"; done <"$dir/texts" | LC_ALL=C tr -cs 'A-Za-z' '\n' | LC_ALL=C tr A-Z a-z |
    LC_ALL=C awk 'length($0) > 0 && length($0) < 40 && ++n <= 1000000 { print "words\t" $0 "\t1" }' >"$dir/words.tsv"
while read -r f; do
    printf 'words per text\t%s\t%s\n' "$f" "$(wc -w <"$f")"
done <"$dir/texts" >>"$dir/words.tsv"
[ -s "$dir/words.tsv" ] || fail "no texts were found"

# ---- the server -----------------------------------------------------------------
say "1. The three daemons, as one process, in $dir"
mkfifo "$dir/ready" || exit 111
"$countd" serve -d "$dir/data" -o write.listen=127.0.0.1:0 -o write.ack_listen=127.0.0.1:0 \
    -o read.listen=127.0.0.1:0 -o counter.port=0 -o http.listen=127.0.0.1:0 -o read.http=127.0.0.1:0 --ready-fd 3 3>"$dir/ready" 2>"$dir/messages" &
pids=$!
echo "data_dir = $dir/data" >"$dir/countd.conf"
ready=
while read -r line; do
    if [ -z "$line" ]; then
        ready=yes
        break
    fi
    echo "    $line"
    case $line in
    silent=*) echo "write.listen = ${line#*=}" ;;
    ack=*) echo "write.ack_listen = ${line#*=}" ;;
    read=*) echo "read.listen = ${line#*=}" ;;
    esac >>"$dir/countd.conf"
done <"$dir/ready"
[ -n "$ready" ] || fail "the daemons did not start"

# ---- in, and out again --------------------------------------------------------------
say "2. Every word of $(wc -l <"$dir/texts") texts is one increment, acknowledged once it is on disk"
echo "\$ countd load words.tsv"
"$countd" load -f "$dir/countd.conf" "$dir/words.tsv" || fail "the words could not be loaded"
since=$(date +%s%N)
total() { "$countd" total -f "$dir/countd.conf" "$1" 2>/dev/null; }
sum() { awk -F '\t' -v keyspace="$1" '$1 == keyspace { n += $3 } END { printf "%.0f\n", n }' "$dir/words.tsv"; }
words=$(sum words) texts=$(sum 'words per text') looks=0
until [ "$(total words)" = "$words" ] && [ "$(total 'words per text')" = "$texts" ]; do
    looks=$((looks + 1))
    [ "$looks" -lt 2000 ] || fail "the words cannot be read"
done
echo "readable $((($(date +%s%N) - since) / 1000000)) ms later"

say "3. The words that come most often"
run top words -n 10

say "4. Any part of the order: five words from position 1000 on"
run range words 1000 5

say "5. How far up one word is, and how often it comes"
word=freedom
grep -q "^words	$word	" "$dir/words.tsv" || word=the
run rank words "$word"
run get words "$word"

say "6. What there is, and how fresh: everything up to the time shown is in"
run keyspaces
run top 'words per text' -n 3

say "7. Stopping: what has arrived is merged or stays safe in the logs"
kill "$pids"
wait "$pids"
status=$?
pids=
[ "$status" = 0 ] || fail "the daemons ended with $status"
run check
du -sh "$dir/data/keyspace" | awk '{ print "the counters take " $1 " on disk" }'

say "What to try next"
cat <<END
    make install                        then, in one terminal:
    countd serve -d /var/tmp/counts
                                        and in another:
    countd incr -d /var/tmp/counts pages /index
    countd flush -d /var/tmp/counts && countd top pages
    countd load data/sample.tsv.gz      lines of keyspace TAB key TAB increment
    man countd, man 5 countd            commands; settings
END
