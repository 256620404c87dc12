/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "util.h"

/* What a block device is made of, as sysfs tells it: nothing here looks at a disk. */

enum {
        BLOCK_SLAVES_MAX = 32, /* of more the others are left out */
};

typedef struct BlockDevice {
        uint32_t disk;     /* the whole of it: itself unless it is a partition */
        uint32_t slaves[BLOCK_SLAVES_MAX]; /* what it lies upon (device mapper, md) */
        size_t n_slaves;
} BlockDevice;

/* sysfs_dev_block: "/sys/dev/block". -ENOENT if there is no such block device. */
int block_device_read(const char *sysfs_dev_block, uint32_t dev, BlockDevice *ret);

/* The device that is called so, as in the first column of what mount(8) prints: "/dev/sdb1", "/dev/mapper/x". -ENOENT
 * if it is none. */
int block_device_find(const char *sysfs_dev_block, const char *path, uint32_t *ret);
