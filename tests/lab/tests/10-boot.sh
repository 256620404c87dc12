#!/bin/bash
# SPDX-License-Identifier: LGPL-2.1-or-later
# env: all
# shellcheck disable=SC2317 # functions are called by check
# systemd is up and iolatd runs in it; every probe is there that this kernel has an attach point for.
set -u

# shellcheck source-path=SCRIPTDIR source=../guest/tap.sh
. /usr/lib/iolat-lab/guest/tap.sh

# In a container some units of the host's concern may fail.
system_is_up() {
    local i state
    for ((i = 0; i < 120; i++)); do
        # This test belongs to the start-up: "starting" is as far as it gets.
        state=$(systemctl is-system-running)
        systemctl is-active multi-user.target dbus.socket && return 0
        systemctl is-active sysinit.target basic.target dbus.socket && [[ $state == starting ]] && return 0
        sleep 0.5
    done
    systemctl --failed
    return 1
}

daemon_is_up() {
    systemctl status --no-pager iolatd.service && systemctl is-active iolatd.service
}

probes_parse() {
    iolatctl probes --json=short >/run/iolat-lab-probes && jq -e 'length > 10' /run/iolat-lab-probes
}

# A probe may be absent only where the kernel has nothing to attach to, perhaps because a module is not loaded.
no_probe_is_missing() {
    local missing
    missing=$(jq -r '.[] | select(.kind == "probe" and .state == "absent")
                     | select(.reason | test("^this kernel has no (tracepoint|function) ") | not)
                     | "\(.probe): \(.reason)"' /run/iolat-lab-probes)
    [[ -z $missing ]] || { echo "$missing"; return 1; }
}

# Such absences are to be expected of tracepoints that came after the minimum kernel, or come with a module that nothing
# needed so far. Which functions a kernel has is its own business.
only_new_tracepoints_are_absent() {
    local missing
    missing=$(jq -r --arg ext4 "$(find /sys/fs/ext4 /sys/module/ext4 -maxdepth 0)" \
                  '.[] | select(.kind == "probe" and .state == "absent")
                     | select(.reason | startswith("this kernel has no function") | not)
                     | select((.reason | test("tracepoint (jbd2|ext4)_.* now$")) and $ext4 == "" | not) | .probe' \
                 /run/iolat-lab-probes |
        grep -v -x -e dio-begin -e dio-queued -e dio-complete -e handle-inode -e request-create \
             -e memcg-reclaim-begin -e memcg-reclaim-end)
    [[ -z $missing ]] || { echo "absent: $missing"; return 1; }
}

# Some seconds after the daemon has started, without anybody asking for it.
costs_are_measured() {
    local i
    for ((i = 0; i < 60; i++)); do
        iolatctl probes --json=short | jq -e 'any(.[]; .kind == "floor" and .nsPerHit > 0)' && return 0
        sleep 1
    done
    systemctl status --no-pager iolat-calibrate.service
    return 1
}

nothing_is_lost() {
    local lost
    lost=$(jq -r '.[] | select(.kind == "loss" and .hits > 0) | "\(.probe) \(.hits)"' /run/iolat-lab-probes)
    [[ -z $lost ]] || { echo "$lost"; return 1; }
}

# An fsync in a unit is seen, under the name of the unit.
sees_a_unit() {
    local i dir=/var/tmp/iolat-lab-boot
    mkdir -p "$dir"
    if [[ $IOLAT_LAB_ENV == container-* ]]; then
        # The root file system here is an overlay: it needs an ext4 with a journal.
        truncate -s 64M /dev/shm/iolat-lab-boot &&
            mkfs.ext4 -q -F /dev/shm/iolat-lab-boot &&
            mount -o loop /dev/shm/iolat-lab-boot "$dir" || return 1
    fi
    systemd-run --quiet --wait --unit=iolat-lab-first.service \
                iolat-workload --count=7 --write=4096 --pattern=append fsync "$dir/file" || return 1
    for ((i = 0; i < 20; i++)); do
        [[ $(iolatctl list iolat-lab-first.service --json=short |
             jq '[.[] | select(.op == "fsync" and .phase == "total") | .count] | add') == 7 ]] && break
        sleep 0.5
    done
    mountpoint -q "$dir" && umount "$dir"
    rm -rf "$dir" /dev/shm/iolat-lab-boot
    [[ $i -lt 20 ]] && return 0
    iolatctl --no-pager list
    return 1
}

check "systemd is up" system_is_up
check "iolatd is up" daemon_is_up
check "a first operation is counted" sees_a_unit
check "the probe table is JSON" probes_parse
note "$(iolatctl --no-pager probes)"
check "what can be attached is attached" no_probe_is_missing
check "what is absent came after the oldest kernel" only_new_tracepoints_are_absent
check "nothing is lost" nothing_is_lost
check "what the probes cost is measured" costs_are_measured
finish
