/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "query.h"

/* Everything that "status UNIT" shows. */
typedef struct UnitStatus {
        UnitInfo info;
        uint64_t since_us;
        Rows current; /* of the present invocation */
        Rows total;   /* of all under this name */
} UnitStatus;

/* Logs failures but for the quiet errors of query.h. */
int unit_status_get(Query *q, const char *path, UnitStatus *ret);
void unit_status_clear(UnitStatus *s);

int unit_status_print(const UnitStatus *s, const Options *o);
int unit_status_print_json(const UnitStatus *s, const Options *o);

/* What a status begins with: is it there or not? */
const char *status_dot(bool alive);
