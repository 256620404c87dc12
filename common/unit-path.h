/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "util.h"

enum {
        UNIT_NAME_MAX = 255,  /* bytes of a unit name, without the NUL */
        UNIT_PATH_MAX = 4095, /* bytes of a cgroup path that is looked at at all */
};

/* Whether s names a unit that can run: plain or instantiated, not a template. */
bool unit_name_is_valid(const char *s);

/* Finds out to which unit a cgroup belongs, by systemd's rules. The path starts with "/" and is relative to the
 * root of the hierarchy, which is "-.slice"; it may hold any bytes.
 *
 *   *ret_unit       the outermost unit; if the path leads to none, the innermost slice above it. Never NULL.
 *   *ret_user_unit  below user@UID.service, capsule@NAME.service and session-ID.scope: the unit (or slice) of that
 *                   inner manager, else NULL
 *   *ret_subgroup   what follows the innermost of the two, without "/" at either end, any bytes; NULL if nothing does
 *
 * Any of the three may be NULL if it is of no interest; the caller frees what it gets. Returns 0, -EINVAL for
 * something that is no normalized path of bounded length, or -ENOMEM. */
int unit_path_decode(const char *path, char **ret_unit, char **ret_user_unit, char **ret_subgroup);

/* The prefix of path that is the own cgroup of the unit which unit_path_decode() returns as *ret_unit ("/" for
 * "-.slice"), where systemd keeps the unit's extended attributes. The caller frees it. Errors as above. */
int unit_path_of_unit(const char *path, char **ret);
