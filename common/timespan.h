/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "util.h"

#define TIMESPAN_INFINITY UINT64_MAX

enum {
        TIMESPAN_FORMAT_MAX = 96, /* bytes that any formatted time span fits into, with the NUL */
};

/* Parses a time span as systemd writes them: "1s 500ms", "2min", "1.5h", "infinity"; a number without a unit is
 * seconds. Fractions below 1 ns are cut off. Returns 0 and ns, -EINVAL if it is none, -ERANGE if it is negative or
 * too long for 64 bits. */
int timespan_parse(const char *s, uint64_t *ret_ns);

/* Writes ns such that timespan_parse() reads exactly that back: "1s 500ms", "0", "infinity". Returns buf, which is
 * cut off if it is shorter than TIMESPAN_FORMAT_MAX. */
char *timespan_format(uint64_t ns, char *buf, size_t size);
