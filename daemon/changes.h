/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "abi.h"
#include "maps.h"

/* What was counted since the last time, without reading all counters: iterators pinned beside the maps hand out those
 * that changed. To be read once a tick, after settings.tick was raised by one. */
typedef struct Changes Changes;

int changes_new(Changes **ret, Maps *maps);
Changes *changes_free(Changes *c);
DEFINE_CLEANUP_FUNC(Changes, changes_free)

/* Reads all counters as the point to count from; settings.tick must be 0 meanwhile, for which all of them are new.
 * Without an earlier call of this the first changes_read() sees only counters that change then, and none of their
 * differences. Returns -ENOENT if the iterators are not there. */
int changes_start(Changes *c);

/* By how much the numbers under a key grew; nothing if they did not. Numbers that the daemon itself added up for units
 * that are gone are left out. Calls back for all operations, then for all requests. */
typedef int (*changed_op_callback)(const struct changed_op *difference, void *userdata);
typedef int (*changed_rq_callback)(const struct changed_rq *difference, void *userdata);
int changes_read(Changes *c, changed_op_callback op, changed_rq_callback rq, void *userdata);

/* Forgets counters that are gone. To be called after some were removed; until then they take room for nothing. */
int changes_forget_gone(Changes *c);

/* For tests, and the heart of it: the numbers of one element as they are now. Returns 1 if they grew. */
int changes_note_op(Changes *c, const struct changed_op *now, struct changed_op *ret_difference);
int changes_note_rq(Changes *c, const struct changed_rq *now, struct changed_rq *ret_difference);
