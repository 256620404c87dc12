/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "thresholds.h"

/* What is said about units, and what follows for one. No I/O in here. */

typedef struct ThresholdRule {
        char *unit;
        uint64_t sync_ns;
        uint64_t write_ns;
} ThresholdRule;

typedef struct ThresholdRules {
        uint64_t sync_ns; /* in general */
        uint64_t write_ns;
        void *units; /* of ThresholdRule, by name (tsearch) */
        size_t n_units;
        ThresholdRule *patterns[THRESHOLD_PATTERNS_MAX];
        size_t n_patterns;
        char *traced[THRESHOLD_TRACES_MAX]; /* units */
        uint64_t traced_ns[THRESHOLD_TRACES_MAX];
        size_t n_traced;
        uint64_t trace_all_ns; /* UINT64_MAX: nobody traces all units */
} ThresholdRules;

void threshold_rules_init(ThresholdRules *r);
void threshold_rules_done(ThresholdRules *r);

int threshold_rules_set_unit(ThresholdRules *r, const char *unit, uint64_t sync_ns, uint64_t write_ns);
int threshold_rules_set_traces(ThresholdRules *r, const ThresholdTrace *traces, size_t n);

/* Whether anything is said about single units. */
bool threshold_rules_any(const ThresholdRules *r);

/* Returns false if nothing is said about that unit: then *ret holds what is for all. */
bool threshold_rules_get(const ThresholdRules *r, const char *unit, const char *user_unit, struct owner_settings *ret);

/* The lowest of all limits that an operation of these owners can be measured by, the general ones among them, because a
 * unit can have a higher one; UINT64_MAX if there are no owners. */
uint64_t threshold_rules_floor(const ThresholdRules *r, const struct owner_settings *own, size_t n);
