/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include <systemd/sd-bus.h>

#include "util.h"

enum {
        UNIT_INFO_MAX = 4096,       /* units whose description is remembered */
        UNIT_INFO_PENDING_MAX = 64, /* questions under way at once */
        DESCRIPTION_MAX = 1024,     /* bytes; longer ones are cut */
};

/* What only the service manager knows of a unit. Asked for lazily, in the background, and remembered: the first
 * question about a unit has no answer yet, and without a bus or a manager none ever has. */
typedef struct UnitInfoTable UnitInfoTable;

int unit_info_table_new(UnitInfoTable **ret);
UnitInfoTable *unit_info_table_free(UnitInfoTable *t);
DEFINE_CLEANUP_FUNC(UnitInfoTable, unit_info_table_free)

/* The unit's description as far as it is known, else NULL. If bus is not NULL and the answer is missing or old, asks.
 * The string belongs to the table, until control returns to the event loop. */
const char *unit_info_description(UnitInfoTable *t, sd_bus *bus, const char *unit, uint64_t now_ns);
