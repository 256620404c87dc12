/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* What the sections [X-Iolat] of a unit's own files say. No I/O in here. */

#include "conf.h"
#include "util.h"

enum unit_key {
        UNIT_FSYNC_RECORD,
        UNIT_FSYNC_ALERT,
        UNIT_WRITE_RECORD,
        UNIT_WRITE_ALERT,
        _UNIT_TIME_MAX,
        UNIT_ALERT = _UNIT_TIME_MAX,
        _UNIT_KEY_MAX,
};

enum {
        UNIT_LINE_MAX = 1024, /* bytes of a line of ours, with what continues it */
};

typedef struct UnitSettings {
        uint8_t said; /* bit per key: is assigned, if only to take back what was said before */
        uint8_t set;  /* bit per key: has a value */
        bool alert;
        uint64_t ns[_UNIT_TIME_MAX]; /* TIMESPAN_INFINITY: never */
} UnitSettings;

/* Called for each line that cannot be used. The text is without control characters, and valid during the call. */
typedef void (*unit_problem_callback)(unsigned line, const char *text, void *userdata);

/* Goes through the text of a unit file or drop-in, and takes what its sections [X-Iolat] say; all else is skipped. The
 * text may be anything. Returns whether there is such a section. */
bool unit_settings_parse(const char *text, size_t size, UnitSettings *ret, unit_problem_callback problem,
                         void *userdata);

/* What a file says goes over what those before it said. */
void unit_settings_merge(UnitSettings *s, const UnitSettings *over);

bool unit_settings_equal(const UnitSettings *a, const UnitSettings *b);

/* What follows for a unit; s is NULL if nothing is said about it. What is alerted is recorded. */
typedef struct UnitLimits {
        uint64_t sync_record_ns;
        uint64_t sync_alert_ns;
        uint64_t write_record_ns;
        uint64_t write_alert_ns;
        bool alert;
} UnitLimits;
UnitLimits unit_settings_limits(const UnitSettings *s, const Config *c);
