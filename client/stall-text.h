/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "query.h"

/* What is told of a stall in words. Nothing in it is escaped. All return NULL if out of memory. */

/* "journal", or while it is in progress "journal for 3.2s"; "-" if that is not known. */
char *stall_phase_text(const StallRow *row);

/* "/var (8:1)"; "" if neither is known. */
char *stall_place_text(const char *mount_point, const char *device);

/* "fsync on /var (8:1) took 4s, most of it journal", "fsync on /var (8:1) has not returned for 4s, in journal for
 * 3.2s". */
char *stall_sentence(const StallRow *row);

/* The one that says most about the present: the newest of those in progress, else the newest. NULL if there is
 * none. unit NULL: of any. */
const StallRow *stall_newest(const StallRows *rows, const char *unit);
