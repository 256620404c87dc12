/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include <stdint.h>
#include <systemd/sd-bus.h>

/* What method handlers of several files answer with. */

enum { QUOTED_MAX = 64 }; /* bytes of a caller's own words in an error that is sent to it */

const char *quoted(const char *s, char buf[static QUOTED_MAX]);

int no_such_unit(sd_bus_error *reterr_error, const char *unit);

/* Method replies with one array: opened here, filled by a query, closed and sent by reply_send(). */
int reply_open(sd_bus_message *call, const char *contents, sd_bus_message **ret);
int reply_send(sd_bus_message *m);

/* Where a page begins and how many rows it may have, "tu" in a call: 0 and what is more than max are max. The reply ends
 * with the cursor of the next page, 0 if there is none. */
typedef struct BusPage {
        uint64_t cursor;
        uint32_t limit;
        uint64_t next;
} BusPage;
int page_read(sd_bus_message *call, uint32_t max, BusPage *ret);
int page_send(sd_bus_message *m, const BusPage *page);
