/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "series.h"

/* So many in one go, so that queries do not have to wait. */
enum { FOLD_OWNERS_MAX = 512 };

/* How long a cgroup has to be dead: late writeback must have ended before its elements are removed. */
#define FOLD_AFTER_NS (120 * NSEC_PER_SEC)

/* Keeps the maps small: the numbers of cgroups that died after_ns ago or longer move to one element per unit, and those of units that died
 * longest ago to "(exited)" when there are more than max_units. Each number is moved exactly once, also if the
 * process is killed at any point: the target remembers from whom it took last. The series must be fresh. Returns the
 * number of owners moved, or a negative errno. */
int fold_dead(SeriesTable *series, OwnerTable *owners, Maps *maps, uint64_t now_ns, uint64_t after_ns,
              uint64_t max_units);

/* Finishes a move that a killed daemon left in the middle. To be called once, before the first fold_dead(), with
 * fresh series. */
int fold_recover(SeriesTable *series, Maps *maps);
