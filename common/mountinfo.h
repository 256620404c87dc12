/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "util.h"

/* One line of /proc/PID/mountinfo. The strings point into that line, unescaped. */
typedef struct MountInfo {
        uint32_t dev;     /* s_dev of the filesystem, kernel encoding (major << 20 | minor) */
        char *root;       /* which directory of the filesystem is mounted: "/" but for bind mounts and subvolumes */
        char *mount_point;
        char *fs_type;
        char *source; /* what it says was mounted: a device node or any other text */
} MountInfo;

#define MOUNTINFO_PATH "/proc/self/mountinfo"

/* Splits one line, which is modified. Returns 0 or -EBADMSG. */
int mountinfo_parse_line(char *line, MountInfo *ret);

/* Calls back for each line of f up to its end; lines that cannot be understood are left out. A callback that
 * returns non-zero ends that, and its result is returned. Else returns 0 or a negative errno of reading. */
typedef int (*mountinfo_callback)(const MountInfo *m, void *userdata);
int mountinfo_foreach(FILE *f, mountinfo_callback callback, void *userdata);
