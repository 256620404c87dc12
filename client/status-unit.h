/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "query.h"

/* Everything that "status UNIT" shows. */
typedef struct UnitStatus {
        UnitInfo info;
        uint64_t since_us;
        Rows current; /* of the present invocation; none if has_range */
        Rows total;   /* of all under this name, if has_range in that time */
        BlameRows blame;
        StallRows stalls;
        bool has_range;
        Range covered;
} UnitStatus;

/* path NULL: only the history may know the unit of that name. range NULL: everything since counting began. Logs
 * failures but for the quiet errors of query.h. */
int unit_status_get(Query *q, const char *path, const char *name, const Range *range, UnitStatus *ret);
void unit_status_clear(UnitStatus *s);

int unit_status_print(const UnitStatus *s, const Options *o);
int unit_status_print_json(const UnitStatus *s, const Options *o);

/* What a status begins with: is it there or not? */
const char *status_dot(bool alive);

/* "        Key: value", the value of any origin; nothing if it is NULL. */
int status_print_key(const char *key, const char *value);

/* "coveredSinceRealtimeUSec" and "coveredUntilRealtimeUSec", "newestStall", "blame" of a status. */
int status_add_covered(json_object *o, const Range *covered);
int status_add_stall(json_object *o, const StallRow *stall);
int status_add_blame(json_object *o, const BlameRow *const *rows, size_t n);
