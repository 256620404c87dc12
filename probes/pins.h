/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "util.h"

/* Where things are pinned: DIR/iolat/GENERATION/{maps,progs,links}/NAME, DIR being a bpf file system. A generation
 * is made as GENERATION-new and renamed when it is complete. All functions return 0 or a negative errno. */

enum { PIN_PATH_MAX = 512 };

/* Appended to the name of a program's and a link's twins, with their number. */
#define PIN_TWIN "_twin%u"

/* Opens DIR/iolat, making it if create. -ENOENT: it does not exist; -EMEDIUMTYPE: DIR is no bpf file system;
 * -EACCES, -EPERM: not for this user. */
int pins_open(const char *bpffs, bool create, int *ret_fd);

/* Takes the lock of loaders, released when *ret_fd is closed. Waits for another loader for at most that long, then
 * returns -EBUSY. */
int pins_lock(int root_fd, unsigned timeout_ms, int *ret_fd);

/* Number of the newest complete generation, 0 if there is none. */
int pins_current(int root_fd, unsigned *ret_generation);

/* Removes everything but generation keep (0: all), unfinished ones included: links first, which detaches. */
int pins_clean(int root_fd, unsigned keep);

/* Makes the directories of an unfinished generation. */
int pins_begin(int root_fd, unsigned generation);

/* Renames the unfinished generation to its final name. */
int pins_finish(int root_fd, unsigned generation);

/* "BPFFS/iolat/GENERATION[-new]/KIND/NAME" */
int pins_path(char ret[PIN_PATH_MAX], const char *bpffs, unsigned generation, bool unfinished, const char *kind,
              const char *name);
