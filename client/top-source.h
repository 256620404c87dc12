/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include <poll.h>

#include "query.h"

/* Where the screen of "top" gets its listings from. Never waits, never logs, and connects again by itself. */

typedef struct TopSource TopSource;

/* Takes over the query. */
int top_source_new(const Options *o, Query *q, TopSource **ret);
TopSource *top_source_free(TopSource *s);
DEFINE_CLEANUP_FUNC(TopSource, top_source_free)

/* Asks for a listing, unless one is on its way already. */
void top_source_start(TopSource *s);

bool top_source_is_busy(const TopSource *s);

/* What to wait for: sets fd (-1: nothing) and events, and lowers *until_ns (of now_ns()) if that is too long. */
void top_source_prepare(TopSource *s, struct pollfd *p, uint64_t *until_ns);

/* Does what can be done now. Returns true when a listing is complete, or has failed. */
bool top_source_process(TopSource *s);

/* The listing, sorted, and the properties of the manager; both are handed over. False if it has failed. */
bool top_source_take(TopSource *s, Rows *rows, ManagerInfo *info);

/* Why there is none, of any origin; NULL: all is well. */
const char *top_source_error(const TopSource *s);
