# SPDX-License-Identifier: LGPL-2.1-or-later
# Reads the results of one environment (NAME TAB KIND TAB TEXT), prints them, and writes "passed failed skipped" to
# the file named by counts. expect: names of the tests that were to run; verbose: show everything.
BEGIN {
    FS = "\t"
    n_expected = split(expect, expected, " ")
}

{
    text = $0
    sub(/^[^\t]*\t[^\t]*\t/, "", text)
    sub(/\r$/, "", text)
}

$1 == "-" {
    if ($2 == "info" || $2 == "kernel")
        print "# " text
    next
}

$2 == "tap" {
    shown = 0
    if (text ~ /^1\.\.[0-9]+/) {
        plan[$1] = substr(text, 4) + 0
        if (plan[$1] == 0) {
            skipped[$1]++
            print "ok " $1 text
        }
    } else if (text ~ /^ok /) {
        done[$1]++
        if (text ~ /# SKIP/)
            skipped[$1]++
        else
            passed[$1]++
        print "ok " $1 ": " substr(text, 4)
        shown = 1
        flush($1, verbose)
    } else if (text ~ /^not ok /) {
        done[$1]++
        bad[$1]++
        print "not ok " $1 ": " substr(text, 8)
        flush($1, 1)
        after[$1] = 1
        next
    } else if (after[$1] && text ~ /^#/) {
        print "    " text # the reason comes after the line
        next
    } else
        held[$1, n_held[$1]++] = text
    after[$1] = 0
    next
}

$2 == "exit" {
    ended[$1] = 1
    if (text != 0 && !bad[$1]) {
        bad[$1]++
        print "not ok " $1 ": exit code " text
    } else if (plan[$1] != done[$1]) {
        bad[$1]++
        print "not ok " $1 ": " done[$1] + 0 " results instead of " plan[$1] + 0
    }
    flush($1, verbose || bad[$1])
    next
}

# It failed and is run once more, which is what counts.
$2 == "again" {
    print "# " $1 " is run once more"
    n_again++
    delete done[$1]
    delete plan[$1]
    delete bad[$1]
    delete passed[$1]
    delete skipped[$1]
    delete ended[$1]
    next
}

$2 == "log" {
    if (verbose || bad[$1])
        print "    | " text
}

# What a test printed before the line that belongs to it.
function flush(name, show,    i) {
    if (show)
        for (i = 0; i < n_held[name]; i++)
            print "    " held[name, i]
    n_held[name] = 0
}

END {
    for (i = 1; i <= n_expected; i++)
        if (!ended[expected[i]]) {
            bad[expected[i]]++
            print "not ok " expected[i] ": did not end"
            flush(expected[i], 1)
        }
    for (name in passed)
        n_passed += passed[name]
    for (name in bad)
        n_failed += bad[name]
    for (name in skipped)
        n_skipped += skipped[name]
    if (n_again)
        print "# " n_again " run twice"
    print n_passed + 0, n_failed + 0, n_skipped + 0 > counts
}
