/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "maps.h"
#include "util.h"

/* Reading a pinned iterator program: it runs while its file is read, and writes records of one size. */

typedef int (*iter_callback)(const void *record, void *userdata);

/* Calls back for at most max records of the iterator pinned under that name, and reads no more than those. Returns
 * 0, 1 if there were more, a negative errno (-ENOENT: this kernel has it not), or what the callback returned if that
 * was negative. */
int iter_read(const Maps *maps, const char *name, size_t record_size, size_t max, iter_callback callback,
              void *userdata);
