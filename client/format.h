/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "util.h"

enum {
        FORMAT_MAX = 64,
};

/* A time span with about four digits: "512ns", "1.234ms", "20ms", "1min 2s". */
const char *format_nsec(char buf[static FORMAT_MAX], uint64_t ns);
#define FORMAT_NSEC(ns) format_nsec((char[FORMAT_MAX]){}, ns)

/* Bytes with base 1024: "0B", "1.2M". */
const char *format_bytes(char buf[static FORMAT_MAX], uint64_t bytes);
#define FORMAT_BYTES(n) format_bytes((char[FORMAT_MAX]){}, n)

/* A point in time and how long ago that is: "Mon 2025-01-06 12:00:00 UTC; 2h 3min ago". */
const char *format_since(char buf[static FORMAT_MAX], uint64_t realtime_us);
#define FORMAT_SINCE(us) format_since((char[FORMAT_MAX]){}, us)

/* Part of a whole in percent, rounded. */
unsigned percent(uint64_t part, uint64_t whole);

/* All return -EINVAL for what they do not understand and -ERANGE for what is too large. */
int parse_count(const char *s, uint64_t max, uint64_t *ret);
int parse_nsec(const char *s, uint64_t *ret); /* "2", "1.5s", "500ms", "1min": seconds if there is no unit */
int parse_device(const char *s);              /* checks "MAJ:MIN" */
