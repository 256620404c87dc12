# SPDX-License-Identifier: LGPL-2.1-or-later
# shellcheck shell=bash
# Boots an environment on a copy of its image that vanishes with it. Uses: IMAGE (directory of the image), OUT
# (directory of the run, with payload.tar; results and console are written there).

CHILD=

# Ends what is running, only that.
machine_stop() {
    if [[ $CHILD ]]; then
        kill "$CHILD" 2>/dev/null
        wait "$CHILD" 2>/dev/null
        CHILD=
    fi
    # nspawn removes them only where /run is in memory.
    find /run/systemd/nspawn -depth -name "iolat-lab-$$" -exec rmdir {} + 2>/dev/null
    if [[ ${CGROUP:-} ]]; then
        find "$CGROUP" -depth -type d -exec rmdir {} + 2>/dev/null
        CGROUP=
    fi
}

# Runs a command for at most $1 seconds.
machine_wait() {
    local r
    timeout --kill-after=20 "$@" &
    CHILD=$!
    wait "$CHILD"
    r=$?
    machine_stop
    return $r
}

machine_run() {
    local env=$1 limit=$2
    case $env in
    vm-*)
        vm_command file,id=c,path="$OUT/results"
        machine_wait "$limit" "${COMMAND[@]}" </dev/null >>"$OUT/console" 2>&1
        ;;
    container-*)
        container_command
        machine_wait "$limit" "${COMMAND[@]}" --bind="$OUT/results:/iolat-lab-results" </dev/null >>"$OUT/console" 2>&1
        ;;
    esac
}

machine_shell() {
    case $1 in
    vm-*) vm_command stdio,id=c,signal=off ;;
    container-*) container_command ;;
    esac
    say "booting $1, its console is in $OUT/console"
    "${COMMAND[@]}"
}

# The results come out of the virtio console, /dev/hvc0 inside; $1 is what is at the other end of it.
vm_command() {
    truncate -s 1G "$OUT/scratch"
    # The copy of the root image is a temporary file of qemu's.
    # shellcheck disable=SC2054 # those commas are qemu's
    COMMAND=(env TMPDIR="$OUT" qemu-system-x86_64 -accel tcg,thread=multi -smp 2 -cpu max -m 2048
             -display none -no-reboot -nodefaults -nic none
             -serial "file:$OUT/console" -device virtio-serial -chardev "$1" -device virtconsole,chardev=c
             -device virtio-rng-pci
             -kernel "$IMAGE/vmlinuz" -initrd "$IMAGE/initrd"
             -append "console=ttyS0 root=/dev/vda rw quiet panic=-1 systemd.show_status=0"
             -drive "file=$IMAGE/root.img,if=virtio,format=raw,cache=unsafe,snapshot=on"
             -drive "file=$OUT/payload.tar,if=virtio,format=raw,readonly=on"
             -drive "file=$OUT/scratch,if=virtio,format=raw,cache=unsafe,discard=unmap")
}

# A cgroup of our own, so that runs do not meet; nobody manages cgroups if systemd does not.
container_cgroup() {
    local root
    root=$(findmnt -n -o TARGET -t cgroup2 | head -n 1)
    if [[ -d /run/systemd/system || -z $root ]]; then
        return
    fi
    CGROUP=$root/iolat-lab-$$
    mkdir "$CGROUP"
}

container_command() {
    mkdir -p "$OUT/upper" "$OUT/work" "$OUT/root"
    container_cgroup
    # The mounts are in a namespace that ends with the container.
    # shellcheck disable=SC2016 # expanded by that shell
    COMMAND=(env SYSTEMD_NSPAWN_UNIFIED_HIERARCHY=1 unshare --mount --propagation private bash -c '
                 [[ -z $1 ]] || echo 0 >"$1/cgroup.procs"
                 mount -t overlay overlay -o "lowerdir=$2,upperdir=$3/upper,workdir=$3/work" "$3/root" || exit 1
                 shift 2
                 exec systemd-nspawn --quiet --directory="$1/root" --bind-ro="$1/payload.tar:/iolat-lab.tar" "${@:2}"
             ' container "${CGROUP:-}" "$IMAGE/root" "$OUT"
             --boot --register=no --keep-unit --machine="iolat-lab-$$" --capability=all --private-users=no
             --system-call-filter="bpf perf_event_open @mount @privileged")
}
