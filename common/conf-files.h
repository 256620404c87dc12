/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "util.h"

enum {
        CONF_DROPINS_MAX = 1024, /* drop-ins of one configuration; more are refused */
};

/* The directories that configuration is looked for in, the most important first; NULL-terminated. */
extern const char *const conf_dirs[];

/* A list of paths, each to be freed; freed as a whole by conf_files_done(). */
typedef struct ConfFiles {
        char **paths;
        size_t n;
} ConfFiles;
void conf_files_done(ConfFiles *f);

/* Lists the files that make up the configuration "name" ("iolat/iolatd.conf") in the order in which they are to be
 * read, later ones overriding: the main file, which is the first of that name in dirs, then the drop-ins of all
 * name.d/ by file name, where one in an earlier directory takes the place of those of the same name in later ones.
 * What is a link to /dev/null hides the others all the same, and is not in the list. Returns 0 or -ENOMEM,
 * -E2BIG; what cannot be looked at does not exist. */
int conf_files_list(const char *const *dirs, const char *name, ConfFiles *ret);
