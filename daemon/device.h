/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "block-device.h"
#include "util.h"

/* Names for the devices that the kernel counts under: what is mounted from a filesystem's s_dev, and what a disk
 * is called. Devices are in the kernel's encoding (major << 20 | minor). Nothing here looks at a mount point or at
 * a disk, so that nothing hangs with them: the names come from /proc and from sysfs.
 *
 * What was unmounted or unplugged keeps its last name for as long as the limits allow, and until the number is
 * used again. */
typedef struct DeviceTable DeviceTable;

enum {
        DEVICES_GONE_MAX = 256, /* unmounted filesystems that are remembered; the longest gone are dropped first */
        DISKS_MAX = 1024,       /* disks whose names are remembered; likewise */
        BLOCKS_MAX = 256,       /* devices of which it is remembered what they are made of */
};

/* Reads the table of mounts. Returns 0 or a negative errno. */
int device_table_new(DeviceTable **ret);
DeviceTable *device_table_free(DeviceTable *t);
DEFINE_CLEANUP_FUNC(DeviceTable, device_table_free)

/* Reads the mounts again if the kernel says that they have changed (one poll() if not), and has the names of disks
 * looked up again. To be called before each round of questions: all strings that the functions below return are
 * valid until the next call. On error (negative errno) the old names stay. */
int device_table_refresh(DeviceTable *t);

/* All return NULL if it is not known. */
const char *device_table_fs_type(DeviceTable *t, uint32_t dev);
/* The whole filesystem if it is mounted at several places, rather than a part (bind mount, subvolume); of those
 * the shortest path, of those the first. */
const char *device_table_mount_point(DeviceTable *t, uint32_t dev);
/* "sda", "nvme0n1p1" */
const char *device_table_disk_name(DeviceTable *t, uint32_t dev);

/* What a device is made of; that of a filesystem without one of its own (btrfs) is what it was mounted from. Looked up
 * again after half a minute, or when mounts change. -ENOENT if it is no block device. */
int device_table_block(DeviceTable *t, uint32_t dev, BlockDevice *ret);

/* For tests: an empty table that looks up disks in that directory instead of /sys/dev/block, and what
 * device_table_refresh() does with the text of the table of mounts. */
int device_table_new_empty(const char *sysfs_dev_block, DeviceTable **ret);
int device_table_load(DeviceTable *t, FILE *mountinfo);
