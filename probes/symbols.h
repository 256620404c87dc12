/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "util.h"

/* The kernel's functions by name, modules included, from /proc/kallsyms. The kernel tells addresses to whoever has
 * opened that file with CAP_SYSLOG, even if it is another one who reads. */

#define KALLSYMS_PATH "/proc/kallsyms"

typedef struct Symbol {
        const char *name; /* borrowed */
        bool data; /* of any kind, not just functions */
        bool found;
        uint64_t start;   /* 0 if the kernel does not tell addresses to this process */
        uint64_t end;     /* where the next symbol begins */
} Symbol;

/* Looks all of them up in one pass over the open file, from its beginning, or, if that is negative, over
 * KALLSYMS_PATH; the array is sorted by name on the way. */
int symbols_read(Symbol *symbols, size_t n, int fd);

/* Whether the kernel has told addresses. */
bool symbols_have_addresses(const Symbol *symbols, size_t n);

/* In an array that symbols_read() has sorted; NULL if the name is not in it. */
const Symbol *symbols_find(const Symbol *symbols, size_t n, const char *name);
