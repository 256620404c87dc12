/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "util.h"

enum {
        ALERT_LIMIT_UNITS_MAX = 1024, /* units with a bucket of their own; beyond, they share one */
};

/* Alerts are limited per unit, so that one unit's storm does not hide another one's first stall. */
typedef struct AlertLimits AlertLimits;

int alert_limits_new(AlertLimits **ret);
AlertLimits *alert_limits_free(AlertLimits *l);
DEFINE_CLEANUP_FUNC(AlertLimits, alert_limits_free)

/* Whether the unit may alert now; counts what it may not. */
bool alert_limits_allow(AlertLimits *l, const char *unit, uint64_t now_ns, unsigned burst, uint64_t interval_ns);
