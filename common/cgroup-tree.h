/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "util.h"

enum {
        CGROUP_DEPTH_MAX = 64,     /* levels below the root that a walk goes down */
        INVOCATION_ID_LEN = 32,    /* hexadecimal digits */
};

/* Where the default hierarchy is mounted, out of the text of a mountinfo file. Found by filesystem type,
 * because it is not at the usual place on hosts that use the hybrid layout. Takes the first mount of the
 * hierarchy's root, else (in a container without a cgroup namespace) the first of some part of it. The caller
 * frees *ret. -ENOENT if there is none. */
int cgroup_root_parse(FILE *mountinfo, char **ret);

/* The same for this process. */
int cgroup_root(char **ret);

/* Calls back for root (as "/") and all directories below it, parents before children, with the cgroup's id,
 * which is the inode number, and its path below root, which is valid during the call. Cgroups that come or go
 * meanwhile may be missed, those that may not be read have no children, those deeper than CGROUP_DEPTH_MAX or
 * with paths longer than PATH_MAX are left out. Symbolic links and other filesystems are not followed. A
 * callback that returns non-zero ends the walk, and its result is returned. Else returns 0 or, only if root
 * itself cannot be opened, a negative errno. */
typedef int (*cgroup_callback)(uint64_t id, const char *path, void *userdata);
int cgroup_tree_walk(const char *root, cgroup_callback callback, void *userdata);

/* The invocation id that systemd left on the cgroup of a unit (see unit_path_of_unit()), which is path below
 * root. Returns 0, -ENOENT if there is no such cgroup, -ENODATA if it has none, -EBADMSG if what it has is
 * none, -EINVAL if path could lead out of root. */
int cgroup_invocation_id(const char *root, const char *path, char ret[static INVOCATION_ID_LEN + 1]);

/* The path of a process in the default hierarchy; the caller frees it. -ESRCH if there is no such process,
 * -ENOENT if it is in no cgroup of that hierarchy. */
int cgroup_of_pid(uint32_t pid, char **ret_path);

/* The same out of the text of a /proc/PID/cgroup file. */
int cgroup_path_parse(FILE *f, char **ret_path);
