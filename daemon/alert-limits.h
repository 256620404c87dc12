/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "util.h"

enum {
        ALERT_LIMIT_UNITS_MAX = 1024, /* units with a bucket of their own; beyond, they share one */
};

/* Alerts are limited per unit, so that one unit's storm does not hide another one's first stall; and failed syncs have
 * a bucket of their own, so that stalls do not hide them. What is left out is told of later. No I/O in here. */
typedef struct AlertLimits AlertLimits;

int alert_limits_new(AlertLimits **ret);
AlertLimits *alert_limits_free(AlertLimits *l);
DEFINE_CLEANUP_FUNC(AlertLimits, alert_limits_free)

typedef struct AlertRate {
        uint64_t burst;
        uint64_t interval_ns;
} AlertRate;

/* What an alert would be about. */
typedef struct AlertSubject {
        bool failed; /* a sync, with an error */
        uint64_t total_ns;
        int op;
        int phase;
        uint32_t dev;
} AlertSubject;

/* Alerts of a unit that were left out. */
typedef struct Suppressed {
        uint64_t n;
        uint64_t n_failed;  /* of these */
        uint64_t since_ns;  /* the first one */
        AlertSubject worst; /* one that failed if there is any, of those the longest */
} Suppressed;

/* Whether the unit may alert now. If not, it is noted. */
bool alert_limits_allow(AlertLimits *l, const char *unit, const AlertSubject *about, uint64_t now_ns, AlertRate rate);

/* It was allowed, but the journal did not take it. */
void alert_limits_note(AlertLimits *l, const char *unit, const AlertSubject *about, uint64_t now_ns);

/* Calls back for each unit of which something was left out and whose bucket has room again, which the callback's alert
 * takes, or of which the first was left out an interval ago. The name is NULL for units without a bucket of their own.
 * If the callback returns false, it is called again with the same next time. */
typedef bool (*suppressed_callback)(const char *unit, const Suppressed *s, void *userdata);
void alert_limits_report(AlertLimits *l, uint64_t now_ns, AlertRate rate, suppressed_callback callback,
                         void *userdata);
