# SPDX-License-Identifier: LGPL-2.1-or-later
# shellcheck shell=bash
# TAP for tests that are shell scripts: `check NAME COMMAND...` for each line, `finish` at the end.

TAP_COUNT=0
TAP_FAILED=0

note() {
    printf '%s\n' "$*" | sed 's/^/# /'
}

# Succeeds if the command does; shows what it printed if not.
check() {
    local name=$1 output
    shift
    TAP_COUNT=$((TAP_COUNT + 1))
    if output=$("$@" 2>&1); then
        echo "ok $TAP_COUNT - $name"
    else
        note "$output"
        echo "not ok $TAP_COUNT - $name"
        TAP_FAILED=$((TAP_FAILED + 1))
        return 1
    fi
}

finish() {
    echo "1..$TAP_COUNT"
    exit $((TAP_FAILED > 0))
}
