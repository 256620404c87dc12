/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "bus-blame.h"
#include "bus-context.h"
#include "bus-names.h"
#include "bus-reply.h"
#include "bus-row.h"

static int append_blamed(const BlamedRow *row, void *userdata) {
        return bus_append_blamed(userdata, row);
}

int bus_method_get_blame(sd_bus_message *call, void *userdata, sd_bus_error *reterr_error) {
        _cleanup_(sd_bus_message_unrefp) sd_bus_message *reply = NULL;
        BusContext *c = userdata;
        uint64_t since, until;
        UnitSummary summary;
        const char *unit;
        int r;

        r = sd_bus_message_read(call, "stt", &unit, &since, &until);
        if (r < 0)
                return r;
        if (since > until)
                return sd_bus_error_set(reterr_error, BUS_ERROR_BAD_RANGE, "The end lies before the beginning.");
        if (!isempty(unit)) { /* empty: all of them */
                r = query_unit(c->manager, unit, &summary);
                if (r == -ENOENT)
                        return no_such_unit(reterr_error, unit);
                if (r < 0)
                        return r;
        }

        r = reply_open(call, "a{sv}", &reply);
        if (r < 0)
                return r;
        r = query_blame(c->manager, unit, since, until, BLAME_REPLY_MAX, append_blamed, reply);
        if (r < 0)
                return r;

        return reply_send(reply);
}
