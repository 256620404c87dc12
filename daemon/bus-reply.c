/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "bus-reply.h"
#include "bus-names.h"
#include "text-escape.h"
#include "util.h"

const char *quoted(const char *s, char buf[static QUOTED_MAX]) {
        return text_escape(s, /* controls= */ true, buf, QUOTED_MAX);
}

int no_such_unit(sd_bus_error *reterr_error, const char *unit) {
        char buf[QUOTED_MAX];

        return sd_bus_error_setf(reterr_error, BUS_ERROR_NO_SUCH_UNIT, "Nothing is known of unit %s.",
                                 quoted(unit, buf));
}

int reply_open(sd_bus_message *call, const char *contents, sd_bus_message **ret) {
        _cleanup_(sd_bus_message_unrefp) sd_bus_message *m = NULL;
        int r;

        r = sd_bus_message_new_method_return(call, &m);
        if (r < 0)
                return r;
        r = sd_bus_message_open_container(m, 'a', contents);
        if (r < 0)
                return r;

        *ret = TAKE_PTR(m);
        return 0;
}

int page_read(sd_bus_message *call, uint32_t max, BusPage *ret) {
        BusPage page = {};
        int r;

        r = sd_bus_message_read(call, "tu", &page.cursor, &page.limit);
        if (r < 0)
                return r;
        if (page.limit == 0 || page.limit > max)
                page.limit = max;
        *ret = page;

        return 0;
}

int page_send(sd_bus_message *m, const BusPage *page) {
        int r;

        r = sd_bus_message_close_container(m);
        if (r < 0)
                return r;
        r = sd_bus_message_append(m, "t", page->next);
        if (r < 0)
                return r;

        return sd_bus_send(NULL, m, NULL);
}

int reply_send(sd_bus_message *m) {
        int r;

        r = sd_bus_message_close_container(m);
        if (r < 0)
                return r;

        return sd_bus_send(NULL, m, NULL);
}
