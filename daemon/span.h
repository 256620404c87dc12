/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "abi.h"
#include "util.h"

enum { JOURNAL_SPANS_MAX = 6 };

/* A part of an operation's time, in ns from its start; never outside of 0..total, never empty. */
typedef struct Span {
        const char *name;
        uint64_t start_ns;
        uint64_t end_ns;
} Span;

/* Its waits, as far as they were kept apart. Inner ones lie inside outer ones. */
size_t spans_of_phases(const struct stall *s, Span ret[static INTERVALS_MAX]);

/* The steps of the commit that it waited for. */
size_t spans_of_journal(const struct stall *s, Span ret[static JOURNAL_SPANS_MAX]);
