/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "abi.h"
#include "maps.h"

/* What was counted since the last time, without reading all counters: iterators pinned beside the maps hand out those
 * that changed. To be read once a tick, after settings.tick was raised by one, for all who want to know. */
typedef struct Changes Changes;

int changes_new(Changes **ret, Maps *maps);
Changes *changes_free(Changes *c);
DEFINE_CLEANUP_FUNC(Changes, changes_free)

/* Reads all counters as the point to count from; settings.tick must be 0 meanwhile, for which all of them are new.
 * Without an earlier call of this the first changes_read() sees only counters that change then, and none of their
 * differences. Returns -ENOENT if the iterators are not there. */
int changes_start(Changes *c);

/* Finds out by how much the numbers under each key grew, if they did. Numbers that the daemon itself added up for units
 * that are gone are left out. What was read goes if there was an error, too, but is not all then. */
int changes_read(Changes *c);

/* Those differences, until they are read again or dropped. */
const struct changed_op *changes_ops(const Changes *c, size_t *ret_n);
const struct changed_rq *changes_rqs(const Changes *c, size_t *ret_n);
bool changes_complete(const Changes *c);
void changes_drop(Changes *c);

/* Forgets counters that are gone. To be called after some were removed; until then they take room for nothing. */
int changes_forget_gone(Changes *c);

/* For tests, and the heart of it: the numbers of one element as they are now. Returns 1 if they grew. */
int changes_note_op(Changes *c, const struct changed_op *now, struct changed_op *ret_difference);
int changes_note_rq(Changes *c, const struct changed_rq *now, struct changed_rq *ret_difference);
