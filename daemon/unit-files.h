/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* Finds the sections [X-Iolat] in unit files and their drop-ins, as systemd would read them. This is I/O on disks, for
 * a child process. */

#include "unit-rules.h"

enum {
        UNIT_FILE_SIZE_MAX = 1024 * 1024, /* bytes; larger files are not read */
        UNIT_DROPINS_MAX = 256,           /* for one unit */
        UNIT_PROBLEMS_MAX = 64,           /* told of */
};

/* Something that cannot be used: file, line and reason, without control characters. */
typedef void (*unit_files_problem)(const char *text, void *userdata);

/* Goes through the directories, which need not be there. What cannot be used is told of, and the rest is used; a
 * negative errno means that there is no result. */
int unit_files_read(const char *const *dirs, UnitRules *ret, unit_files_problem problem, void *userdata);
