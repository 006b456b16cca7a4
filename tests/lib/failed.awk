# tests/lib/failed.awk - what matters of a failed test program's output.
# SPDX-License-Identifier: BSD-2-Clause
#
#   awk -f failed.awk -v program=NAME -v status=N -v lines=FILE OUTPUT
#
# A line per failed test goes to FILE, `FAILED program: test: why (where)`,
# and what the test and its daemons printed to the standard output, cut in
# the middle when it is long.  Tests that passed leave nothing.

# Lines kept of one test, from its beginning and from its end.
BEGIN { first = 20; last = 40 }

function begin(name) {
    test = name
    count = sure = 0
    said = message = place = trouble = ""
}

function show(  i) {
    for (i = 1; i <= count; i++) {
        if (i == first + 1 && count > first + last) {
            printf "... %d lines left out ...\n", count - first - last
            i = count - last + 1
        }
        print text[i]
    }
}

function failed(why) {
    sub(/ +$/, "", why)
    if (length(why) > 300) why = substr(why, 1, 300) "..."
    print "FAILED " program ": " test ": " why (place != "" ? " (" place ")" : "") >lines
    found++
    show()
}

# Why a test failed that did not come to its own end.
function cut_short() {
    if (status == 124 || status == 137) return "killed: not finished in time"
    return "ended with status " status (trouble != "" ? ": " trouble : "")
}

# cmocka's summary repeats what was said.
/^\[==========\]/ || /^\[  PASSED  \]/ || /^ *[0-9]+ (FAILED|SKIPPED) TEST\(S\)$/ { next }
/^\[  (SKIPPED|FAILED ) *\].*listed below:$/ { summary = 1; next }
summary && (/^\[  (SKIPPED|FAILED ) *\] / || $0 == "") { next }

{ text[++count] = $0 }

/^\[ RUN      \] / { begin(substr($0, 14)); text[++count] = $0; next }
/^\[       OK \] / || /^\[  SKIPPED \] / { begin(""); next }
/^\[  (FAILED|ERROR )  \] [^-]/ {
    test = substr($0, 14)
    failed(said != "" ? said : trouble)
    begin("")
    next
}

# What failed is on this line, or was printed before it: by fail_msg with
# ERROR in front, which may go on for many lines, else as the last line.
/^\[  ERROR   \] --- / {
    said = substr($0, 18)
    if (said == "" || said ~ /^\[   LINE/) said = message != "" ? message : text[count - 1]
}
/\[   LINE   \] --- / {
    place = $0
    sub(/.*\[   LINE   \] --- /, "", place)
    sub(/: error: .*/, "", place)
    message = ""
    next
}
/^ERROR: / { if (message == "") message = substr($0, 8) }

# Of what ends a process the first line says most; else the last one printed.
/Sanitizer|runtime error:|[Aa]ssertion|exception:/ { if (!sure) trouble = $0; sure = 1 }
$0 != "" && !sure { trouble = $0 }

# A test that was running, or something after or outside of all tests.
END {
    if (test != "") failed(cut_short())
    else if (found == 0 || sure) { test = "not in a test"; failed(cut_short()) }
}
