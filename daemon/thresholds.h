/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "maps.h"
#include "owner.h"

/* From how long on operations make a record: in general, by unit, and for those who trace. Turns what is said about
 * units into what the programs know, which are control groups: those that are there, and those that come. */

/* The unit has no threshold of its own, but that of all. */
#define THRESHOLD_GENERAL (UINT64_MAX - 1)

enum {
        THRESHOLD_UNITS_MAX = 4096,   /* units with thresholds of their own */
        THRESHOLD_PATTERNS_MAX = 64,  /* likewise for patterns */
        THRESHOLD_TRACES_MAX = 16,
};

typedef struct Thresholds Thresholds;

/* Both are borrowed. Forgets what a daemon before has told the programs about units. */
int thresholds_new(Thresholds **ret, Maps *maps, OwnerTable *owners);
Thresholds *thresholds_free(Thresholds *t);
DEFINE_CLEANUP_FUNC(Thresholds, thresholds_free)

void thresholds_set_general(Thresholds *t, uint64_t sync_ns, uint64_t write_ns);

/* For a unit's name, or a shell pattern of names; names go before patterns, and patterns in the order in which they were
 * set. Units of users' managers can have the same names, and are not meant. Both THRESHOLD_GENERAL: forget it. Returns
 * -ENOBUFS if there are too many. */
int thresholds_set_unit(Thresholds *t, const char *unit, uint64_t sync_ns, uint64_t write_ns);

/* Everything that is traced from now on: at least so long operations of that unit, of all units if it is "". */
typedef struct ThresholdTrace {
        const char *unit;
        uint64_t min_ns;
} ThresholdTrace;
int thresholds_set_traces(Thresholds *t, const ThresholdTrace *traces, size_t n);

/* What the programs mark with what changes from now on: see struct settings. Tells them that and the time, at once. */
int thresholds_set_tick(Thresholds *t, uint64_t tick);

/* Tells the programs what has changed, and which control groups have come and gone as far as the table of owners knows
 * it. To be called at each tick and after the functions above. */
int thresholds_apply(Thresholds *t);

/* From how long on an operation of that kind is a stall. */
uint64_t thresholds_record_ns(Thresholds *t, const Owner *o, int op);
