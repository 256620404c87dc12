#!/bin/bash
# SPDX-License-Identifier: LGPL-2.1-or-later
# env: container-trixie vm-sid
# shellcheck disable=SC2317 # functions are called by check
# The varlink interfaces as systemd's own tools see them: varlinkctl, and systemd-report where there is one.
set -u

# shellcheck source-path=SCRIPTDIR source=../guest/tap.sh
. /usr/lib/iolat-lab/guest/tap.sh

MANAGER=/run/iolat/org.iolat.Manager
REPORT=/run/systemd/report/org.iolat
REPORT_TOOL=/usr/lib/systemd/systemd-report
UNIT=iolat-lab-varlink-writer.service
SYNCS=9
DIR=/var/tmp/iolat-lab-varlink

call() {
    varlinkctl --json=short call "$@" | tr -d '\036'
}

sockets_are_there() {
    systemctl is-active iolatd-report.socket &&
        [[ $(stat -c '%F %a' "$MANAGER") == 'socket 666' && $(stat -c '%F %a' "$REPORT") == 'socket 666' ]] && return 0
    systemctl status --no-pager iolatd.service iolatd-report.socket
    stat "$MANAGER" "$REPORT"
    return 1
}

answers() {
    local version
    version=$(iolatctl --version | awk '{ print $2; exit }')
    [[ $(call "$1" org.iolat.Manager.GetStatus '{}' | jq -r .version) == "$version" ]]
}

idl_is_valid() {
    varlinkctl introspect "$MANAGER" "$1" >/run/iolat-lab-idl && varlinkctl validate-idl /run/iolat-lab-idl
}

has_interfaces() {
    varlinkctl info "$1" &&
        [[ $(varlinkctl list-interfaces "$1" | grep -c -x -e org.iolat.Manager -e io.systemd.Metrics) == 2 ]]
}

# Everything that a unit does is a stall for a while.
write_in_a_unit() {
    mkdir -p "$DIR" /etc/iolat/iolatd.conf.d
    if [[ $IOLAT_LAB_ENV == container-* ]]; then
        # The root file system here is an overlay: it needs an ext4 with a journal.
        truncate -s 64M /dev/shm/iolat-lab-varlink &&
            mkfs.ext4 -q -F /dev/shm/iolat-lab-varlink &&
            mount -o loop /dev/shm/iolat-lab-varlink "$DIR" || return 1
    fi
    printf '[Stall]\nFsyncRecordSec=1us\n' >/etc/iolat/iolatd.conf.d/varlink.conf
    systemctl reload iolatd.service || return 1
    sleep 2
    systemd-run --quiet --wait --unit="$UNIT" \
                iolat-workload --count="$SYNCS" --write=4096 --pattern=append fsync "$DIR/file" || return 1
    rm -f /etc/iolat/iolatd.conf.d/varlink.conf
    systemctl reload iolatd.service
}

# Tries for a while, because what was counted is not shown at once.
until_equal() {
    local expected=$1 got='' i
    shift
    for ((i = 0; i < 30; i++)); do
        got=$("$@")
        [[ $got == "$expected" ]] && return 0
        sleep 0.5
    done
    echo "got $got instead of $expected"
    return 1
}

listed() {
    call --more "$MANAGER" org.iolat.Manager.List \
         "{\"patterns\":[\"$UNIT\"],\"ops\":[\"fsync\"],\"phases\":[\"total\"]}" |
        jq -s 'map(.row.count) | add'
}

in_histogram() {
    call "$MANAGER" org.iolat.Manager.GetHistogram "{\"unit\":\"$UNIT\",\"op\":\"fsync\"}" |
        jq '[.buckets[].count] | add'
}

reported() {
    call --more "$REPORT" io.systemd.Metrics.List '{}' |
        jq -s "map(select(.name == \"org.iolat.Operations\" and .object == \"$UNIT\" and .fields.op == \"fsync\") |
               .value) | add"
}

stalls_with() {
    "${@:2}" varlinkctl --json=short call --more "$MANAGER" org.iolat.Manager.ListStalls '{}' | tr -d '\036' |
        jq -s "[.[].stall | select(.unit == \"$UNIT\" and $1)] | length"
}

follows() {
    local follower seen i
    varlinkctl --json=short --timeout=infinity call --more "$MANAGER" org.iolat.Manager.ListStalls '{"follow":true}' \
               >/run/iolat-lab-followed 2>&1 &
    follower=$!
    sleep 2
    write_again || return 1
    for ((i = 0; i < 30; i++)); do
        seen=$(tr -d '\036' </run/iolat-lab-followed |
            jq -s '[.[].stall | select(.file // "" | endswith("/again"))] | length')
        [[ $seen == 1 ]] && break
        sleep 0.5
    done
    kill "$follower"
    wait "$follower" 2>/dev/null
    [[ $seen == 1 ]] || cat /run/iolat-lab-followed
    [[ $seen == 1 ]]
}

write_again() {
    printf '[Stall]\nFsyncRecordSec=1us\n' >/etc/iolat/iolatd.conf.d/varlink.conf
    systemctl reload iolatd.service && sleep 2
    systemd-run --quiet --wait --unit="$UNIT" iolat-workload --count=1 --write=4096 fsync "$DIR/again"
    local r=$?
    rm -f /etc/iolat/iolatd.conf.d/varlink.conf
    systemctl reload iolatd.service
    return "$r"
}

metrics_are_named_well() {
    local wrong
    wrong=$(call --more "$REPORT" io.systemd.Metrics.List '{}' | jq -s -r '.[].name' |
        grep -v '^org\.iolat\.[A-Z][A-Za-z0-9]*$')
    [[ -z $wrong ]] || { echo "$wrong"; return 1; }
    [[ $(call --more "$REPORT" io.systemd.Metrics.List '{}' | wc -l) -lt 2000 ]]
}

report_tool_likes_it() {
    local r
    "$REPORT_TOOL" --no-pager metrics org.iolat >/run/iolat-lab-report 2>&1
    r=$?
    [[ "$r" -eq 0 ]] &&
        grep -q "^org.iolat.Operations *$UNIT *{\"op\":\"fsync\"} *$SYNCS\$" /run/iolat-lab-report && return 0
    echo "exit code $r"
    cat /run/iolat-lab-report
    return 1
}

report_tool_knows_the_source() {
    "$REPORT_TOOL" --no-pager list-sources | tee /dev/stderr | grep -q org.iolat &&
        "$REPORT_TOOL" --no-pager describe org.iolat | tee /dev/stderr | grep -q '^org.iolat.OperationP99NSec *gauge'
}

restarts() {
    systemctl restart iolatd.service && sockets_are_there && until_equal "$SYNCS" reported && answers "$MANAGER"
}

are_gone() {
    local i
    # The socket of the report is stopped by a job of its own, after the one that systemctl waits for.
    for ((i = 0; i < 40; i++)); do
        [[ ! -e "$REPORT" && ! -e "$MANAGER" ]] && ! systemctl is-active --quiet iolatd-report.socket && return 0
        sleep 0.25
    done
    return 1
}

# Nobody who reads a report starts what was stopped.
stops_and_starts() {
    local r
    systemctl stop iolatd.service && are_gone
    r=$?
    systemctl start iolatd.service && sockets_are_there && answers "$REPORT" && return "$r"
}

check "the sockets are there" sockets_are_there
check "the daemon's own answers" answers "$MANAGER"
check "the one of the report answers" answers "$REPORT"
check "both have both interfaces" has_interfaces "$MANAGER"
check "the IDL of org.iolat.Manager is valid" idl_is_valid org.iolat.Manager
check "the IDL of io.systemd.Metrics is valid" idl_is_valid io.systemd.Metrics
check "a unit writes" write_in_a_unit
check "it is listed" until_equal "$SYNCS" listed
check "its histogram is there" until_equal "$SYNCS" in_histogram
check "it is in the report" until_equal "$SYNCS" reported
check "metrics have good names, and are not too many" metrics_are_named_well
check "root sees whose stalls they are" until_equal "$SYNCS" stalls_with '.pid > 0 and .comm and .file' env
check "others see them" until_equal "$SYNCS" stalls_with 'true' setpriv --reuid=nobody --regid=nogroup --clear-groups
check "others do not see whose they are" until_equal 0 \
      stalls_with '.pid or .comm or .file or .thread' setpriv --reuid=nobody --regid=nogroup --clear-groups
if [[ -x "$REPORT_TOOL" ]]; then
    check "systemd-report shows it" report_tool_likes_it
    check "systemd-report describes it" report_tool_knows_the_source
fi
check "new stalls are told to those who follow" follows
SYNCS=$((SYNCS + 1))
check "it goes on after a restart" restarts
check "it stops and starts" stops_and_starts
mountpoint -q "$DIR" && umount "$DIR"
rm -rf "$DIR" /dev/shm/iolat-lab-varlink
finish
