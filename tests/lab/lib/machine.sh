# SPDX-License-Identifier: LGPL-2.1-or-later
# shellcheck shell=bash
# Boots an environment on a copy of its image that vanishes with it. Uses: IMAGE (directory of the image), OUT
# (directory of the run, with payload.tar; results and console are written there), HANG_SEC.

CHILD=

# Ends what is running, only that.
machine_stop() {
    local i
    if [[ $CHILD ]]; then
        kill "$CHILD" 2>/dev/null
        for ((i = 0; i < 20; i++)); do
            kill -0 "$CHILD" 2>/dev/null || break
            sleep 0.5
        done
        kill -KILL "$CHILD" 2>/dev/null
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

# Runs a command until it ends, or until no result has come for HANG_SEC seconds.
machine_wait() {
    local r size before=0 since=$SECONDS
    "$@" </dev/null >>"$OUT/console" 2>&1 &
    CHILD=$!
    while kill -0 "$CHILD" 2>/dev/null; do
        sleep 1
        size=$(stat -c %s "$OUT/results")
        if [[ $size -ne $before ]]; then
            before=$size
            since=$SECONDS
        elif [[ $((SECONDS - since)) -gt $HANG_SEC ]]; then
            echo "# no sign of life for $HANG_SEC s, stopping it"
            machine_stop
            return 1
        fi
    done
    wait "$CHILD"
    r=$?
    machine_stop
    return $r
}

machine_run() {
    case $1 in
    vm-*)
        vm_command file,id=c,path="$OUT/results"
        machine_wait "${COMMAND[@]}"
        ;;
    container-*)
        container_command
        machine_wait "${COMMAND[@]}" --bind="$OUT/results:/iolat-lab-results"
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
    local threads=multi
    # Newer kernels change more of their own code while they run, and this emulation sometimes goes on with the old on
    # another CPU: "Oops: int3" at a jump label, also before iolat is loaded. One thread for all CPUs cannot.
    [ "$env" != vm-sid ] || threads=single
    truncate -s 1G "$OUT/scratch"
    # The copy of the root image is a temporary file of qemu's.
    # shellcheck disable=SC2054 # those commas are qemu's
    COMMAND=(env TMPDIR="$OUT" qemu-system-x86_64 -accel "tcg,thread=$threads" -smp 2 -cpu max -m 2048
             -display none -no-reboot -nodefaults -nic none
             -serial "file:$OUT/console" -device virtio-serial -chardev "$1" -device virtconsole,chardev=c
             -device virtio-rng-pci
             -kernel "$IMAGE/vmlinuz" -initrd "$IMAGE/initrd"
             -append "console=ttyS0 root=/dev/vda rw quiet panic=-1 systemd.show_status=0 tsc=reliable"
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
