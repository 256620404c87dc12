/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "util.h"

enum {
        TIMESTAMP_FORMAT_MAX = 64, /* bytes that any formatted point in time fits into, with the NUL */
};

/* Parses a point in time as systemd.time(7) describes them: "2026-11-30 12:00:01.5", "2026-11-30", "12:00",
 * "yesterday", "now", "-1h", "+5min", "2 hours ago", "@1796040000", with a weekday before it if that is the right
 * one. It is local time unless it ends with "UTC", "Z" or an offset such as "+01:00". now_us and the result are
 * CLOCK_REALTIME. Returns 0, -EINVAL if it is none, -ERANGE if it lies before 1970 or is too large. */
int timestamp_parse(const char *s, uint64_t now_us, uint64_t *ret_us);

/* "Mon 2026-11-30 12:00:00 UTC", in local time and the same words in every locale, such that timestamp_parse() reads
 * the same second. "-" if it cannot be written as a date. Returns buf. */
char *timestamp_format(uint64_t us, char *buf, size_t size);
#define FORMAT_TIMESTAMP(us) timestamp_format(us, (char[TIMESTAMP_FORMAT_MAX]){}, TIMESTAMP_FORMAT_MAX)

/* As above, without weekday and zone: "2026-11-30 12:00:00". */
char *timestamp_format_short(uint64_t us, char *buf, size_t size);
#define FORMAT_TIMESTAMP_SHORT(us) \
        timestamp_format_short(us, (char[TIMESTAMP_FORMAT_MAX]){}, TIMESTAMP_FORMAT_MAX)

/* CLOCK_REALTIME, and when by that clock this machine was booted. */
uint64_t timestamp_now(void);
uint64_t timestamp_boot(void);
