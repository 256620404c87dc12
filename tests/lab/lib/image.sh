# SPDX-License-Identifier: LGPL-2.1-or-later
# shellcheck shell=bash
# Root images of the environments: made once by mmdebstrap, kept in the cache under a name that changes with the
# recipe. What is under test is not in them. Uses: CACHE, say, die.

# The Debian release of an environment is the last part of its name.
image_suite() {
    echo "${1##*-}"
}

image_packages() {
    local suite
    suite=$(image_suite "$1")

    # What it takes to build for environments of that suite, and the directories of a systemd for image_customize.
    if [[ $1 == build-* ]]; then
        echo systemd gcc libc6-dev clang bpftool meson ninja-build pkgconf
        echo libbpf-dev libsystemd-dev libjson-c-dev libinih-dev zlib1g-dev libncurses-dev libmicrohttpd-dev
        echo liburing-dev libaio-dev libfuse3-dev libcmocka-dev
        return
    fi

    echo systemd systemd-sysv dbus mount kmod util-linux procps python3 jq strace
    echo fio xfsprogs btrfs-progs e2fsprogs dmsetup fuse3 cryptsetup-bin
    echo postgresql
    echo libbpf1 libjson-c5 libinih1 liburing2 libcap2 libncursesw6
    case $suite in
    bookworm)
        echo libelf1 libaio1 libmicrohttpd12 ;;
    *)
        echo libelf1t64 libaio1t64 libmicrohttpd12t64 ;;
    esac
    case $1 in
    vm-generic-*)
        echo udev linux-image-amd64 initramfs-tools zstd ;;
    vm-*)
        echo udev linux-image-cloud-amd64 initramfs-tools zstd ;;
    container-*)
        echo systemd-container libpam-systemd dbus-user-session podman crun ;;
    esac
    if [[ $suite == sid ]]; then
        echo systemd-report
    fi
}

# Changes the tree in $1 after the packages are there.
image_customize() {
    local root=$1 unit lib=$1/usr/lib/x86_64-linux-gnu

    tr -d - </proc/sys/kernel/random/uuid >"$root/etc/machine-id"
    echo lab >"$root/etc/hostname"
    rm -rf "$root"/var/cache/apt/archives/*.deb "$root"/var/lib/apt/lists/*_Packages*
    # The 64-bit time_t renaming changed nothing on this architecture but the name.
    if [[ -e $lib/libaio.so.1t64 ]]; then
        ln -sf libaio.so.1t64 "$lib/libaio.so.1"
    fi
    for unit in serial-getty@ttyS0.service serial-getty@hvc0.service console-getty.service getty@tty1.service \
                apt-daily.timer apt-daily-upgrade.timer dpkg-db-backup.timer e2scrub_all.timer fstrim.timer \
                xfs_scrub_all.timer fio.service postgresql.service systemd-networkd-wait-online.service; do
        ln -sfn /dev/null "$root/etc/systemd/system/$unit"
    done

    # The only thing that the image knows about the lab: where it gets the rest from.
    cat >"$root/etc/systemd/system/iolat-lab.service" <<'END'
[Unit]
Description=Tests of iolat
After=basic.target dbus.socket systemd-user-sessions.service
FailureAction=poweroff-force

[Service]
Type=oneshot
TimeoutStartSec=infinity
ExecStart=/bin/sh -c 'p=/iolat-lab.tar; test -e $p || p=/dev/vdb; tar -x -C / -f $p'
ExecStart=/usr/lib/iolat-lab/guest/runner
END
    mkdir -p "$root/etc/systemd/system/multi-user.target.wants"
    ln -sfn ../iolat-lab.service "$root/etc/systemd/system/multi-user.target.wants/iolat-lab.service"
}

# Base address of a Debian archive as this host's apt knows it; $1 is its label.
image_archive() {
    # shellcheck disable=SC2016 # apt expands these
    apt-get indextargets --format '$(ORIGIN)|$(LABEL)|$(REPO_URI)' 'Created-By: Packages' |
        awk -F'|' -v label="$1" '$1 == "Debian" && $2 == label { print $3; exit }'
}

image_sources() {
    local suite=$1 main security
    main=${IOLAT_LAB_ARCHIVE:-$(image_archive Debian)}
    security=$(image_archive Debian-Security)
    if [[ -z $main ]]; then
        die "apt on this host knows no Debian archive: name one in \$IOLAT_LAB_ARCHIVE."
    fi

    echo "deb $main $suite main"
    if [[ $suite != sid && -n $security && -z ${IOLAT_LAB_ARCHIVE:-} ]]; then
        echo "deb $security $suite-security main"
    fi
}

# In its initrd only what it takes to mount the root directory: an emulated machine is slow to unpack the rest. In a
# root directory $1, before its kernel is installed.
# shellcheck disable=SC2016 # mmdebstrap's shell expands it
INITRD_HOOK='mkdir -p "$1/etc/initramfs-tools/conf.d" "$1/usr/share/initramfs-tools/modules.d"
    echo MODULES=list >"$1/etc/initramfs-tools/conf.d/lab"
    printf "%s\n" virtio_pci virtio_blk btrfs >"$1/usr/share/initramfs-tools/modules.d/lab"'

# The root of the generic kernel is not on ext4, so that its module, too, comes late.
image_make_fs() {
    case $1 in
    vm-generic-*) mkfs.btrfs -q -f -L root --rootdir "$2" "$3" ;;
    *) mkfs.ext4 -q -F -L root -E lazy_itable_init=0 -d "$2" "$3" ;;
    esac
}

image_make() {
    local env=$1 dir=$2 suite packages hooks=()
    suite=$(image_suite "$env")
    packages=$(image_packages "$env" | tr ' \n' ',,')

    [[ $env != vm-generic-* ]] || hooks=(--essential-hook="$INITRD_HOOK")

    # sid's Release files may be older than they want to be. mmdebstrap makes the tree as root, without namespaces.
    image_sources "$suite" >"$dir/sources"
    mmdebstrap --quiet --mode=root --variant=apt --include="${packages%,}" \
               --aptopt='Acquire::Check-Valid-Until "false"' --aptopt='Acquire::Retries "3"' \
               --dpkgopt='path-exclude=/usr/share/doc/*' --dpkgopt='path-exclude=/usr/share/man/*' \
               --dpkgopt='path-exclude=/usr/share/locale/*' \
               ${hooks:+"${hooks[@]}"} \
               "$suite" "$dir/root" "$dir/sources" || return 1
    image_customize "$dir/root"

    if [[ $env == vm-* ]]; then
        cp "$dir"/root/boot/vmlinuz-* "$dir/vmlinuz"
        cp "$dir"/root/boot/initrd.img-* "$dir/initrd"
        truncate -s 4G "$dir/root.img"
        image_make_fs "$env" "$dir/root" "$dir/root.img" || return 1
        rm -rf --one-file-system "${dir:?}/root"
    fi
}

# Makes the image directory $2 of environment $1; others of that environment go.
image_build() {
    local env=$1 dir=$2 old
    say "building the image of $env (once)"
    for old in "$CACHE/image-$env"-*; do
        [[ ! -e $old ]] || rm -rf --one-file-system "$old"
    done
    mkdir "$dir.new"
    if ! image_make "$env" "$dir.new" >"$dir.new/log" 2>&1; then
        cat "$dir.new/log" >&2
        rm -rf --one-file-system "$dir.new"
        die "the image of $env cannot be built."
    fi
    mv "$dir.new" "$dir"
}

# Sets IMAGE to the directory of the environment's image, after making it if need be. Until image_release it stays.
image_ensure() {
    local env=$1 key
    key=$({ echo "$env"; image_packages "$env"; declare -f image_make image_customize; } | sha256sum)
    IMAGE=$CACHE/image-$env-${key:0:12}

    mkdir -p "$CACHE"
    exec {IMAGE_LOCK}>"$CACHE/lock-$env"
    flock --shared "$IMAGE_LOCK"
    if [[ ! -d $IMAGE ]]; then
        flock --unlock "$IMAGE_LOCK"
        flock --exclusive "$IMAGE_LOCK"
        [[ -d $IMAGE ]] || image_build "$env" "$IMAGE"
        flock --shared "$IMAGE_LOCK"
    fi
}

image_release() {
    exec {IMAGE_LOCK}>&-
}
