/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* Settings by name of unit, and by shell pattern of names. No I/O in here. */

#include "unit-settings.h"

enum {
        UNIT_RULES_MAX = 4096,
        UNIT_RULE_PATTERNS_MAX = 64,
        UNIT_RULE_NAME_MAX = 255, /* bytes of a name or pattern */
};

typedef struct UnitRule {
        char *name;
        UnitSettings settings; /* none are set: the unit is not what a pattern says */
} UnitRule;

typedef struct UnitRules {
        void *units; /* of UnitRule, by name (tsearch) */
        size_t n_units;
        UnitRule patterns[UNIT_RULE_PATTERNS_MAX]; /* the longest first, which is about the fewest units */
        size_t n_patterns;
} UnitRules;

void unit_rules_done(UnitRules *r);

/* Replaces what was said under that name. -ENOBUFS if there are too many, -EINVAL if the name is too long or empty. */
int unit_rules_add(UnitRules *r, const char *name, const UnitSettings *settings);

/* A name goes before patterns, of which the longest that fits goes first; NULL if nothing is said. */
const UnitSettings *unit_rules_get(const UnitRules *r, const char *unit);

/* The same, by patterns alone, of those that are not the name itself. */
const UnitSettings *unit_rules_match(const UnitRules *r, const char *unit);

/* The name or pattern that goes for the unit, NULL if there is none, or if it is a pattern of all units of a type. */
const char *unit_rules_name(const UnitRules *r, const char *unit);

/* First the names, in their order, then the patterns as they go. */
typedef int (*unit_rule_callback)(const char *name, const UnitSettings *settings, void *userdata);
int unit_rules_foreach(const UnitRules *r, unit_rule_callback callback, void *userdata);
