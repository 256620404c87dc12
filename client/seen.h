/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "query.h"

/* Which stalls were shown, so that each is shown once, and once more when it ends, also if the daemon that tells of
 * them is started anew meanwhile. No I/O in here. */
typedef struct Seen Seen;

int seen_new(Seen **ret);
Seen *seen_free(Seen *s);
DEFINE_CLEANUP_FUNC(Seen, seen_free)

/* A look at all stalls that the daemon knows consists of these: begin; for each row, oldest first, note, which returns
 * whether that is news; end. */
void seen_begin(Seen *s);
bool seen_note(Seen *s, const StallRow *row);
void seen_end(Seen *s);

bool seen_any_in_progress(const Seen *s);

/* The daemon was started anew. What was in progress has other numbers from now on and need not be in the list yet, and
 * older ones than before can be in the list. Settled: all that is to come is there. */
void seen_restarted(Seen *s);
void seen_settled(Seen *s);
