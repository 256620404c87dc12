/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "bus-list.h"
#include "bus-manager.h"
#include "bus-names.h"
#include "bus-reply.h"
#include "bus-row.h"
#include "names.h"

bool bus_is_op(const char *s) {
        return op_from_string(s) >= 0 || rq_kind_from_string(s) >= 0 || streq(s, OP_WRITEBACK);
}

bool bus_is_phase(const char *s) {
        return streq(s, "total") || phase_from_string(s) >= 0 || rq_part_from_string(s) >= 0 ||
                streq(s, PHASE_DIRTY_AGE);
}

/* Reads an array of strings into ret, which is NULL-terminated by being one longer than the limit. The strings
 * belong to the message. */
static int read_filter(sd_bus_message *call, const char *what, bool (*valid)(const char *),
                       const char *ret[static LIST_FILTER_MAX + 1], sd_bus_error *reterr_error) {
        char buf[QUOTED_MAX];
        const char *s;
        size_t n = 0;
        int r;

        r = sd_bus_message_enter_container(call, 'a', "s");
        if (r < 0)
                return r;
        while ((r = sd_bus_message_read_basic(call, 's', &s)) > 0) {
                if (n >= LIST_FILTER_MAX)
                        return sd_bus_error_setf(reterr_error, BUS_ERROR_TOO_MANY,
                                                 "More than %d %ss in one request.", LIST_FILTER_MAX, what);
                if (strlen(s) > LIST_PATTERN_MAX)
                        return sd_bus_error_setf(reterr_error, BUS_ERROR_BAD_RANGE,
                                                 "A %s is longer than %d bytes.", what, LIST_PATTERN_MAX);
                if (valid && !valid(s))
                        return sd_bus_error_setf(reterr_error, BUS_ERROR_BAD_RANGE, "There is no %s \"%s\".",
                                                 what, quoted(s, buf));
                ret[n++] = s;
        }
        if (r < 0)
                return r;
        ret[n] = NULL;

        return sd_bus_message_exit_container(call);
}

static int append_row(const Row *row, void *userdata) {
        return bus_append_row(userdata, row);
}

static int append_row_with_buckets(const Row *row, void *userdata) {
        return bus_append_row_with_buckets(userdata, row);
}

/* The three arrays of List() and ListRange(). */
typedef struct ListFilter {
        const char *units[LIST_FILTER_MAX + 1];
        const char *ops[LIST_FILTER_MAX + 1];
        const char *phases[LIST_FILTER_MAX + 1];
        RowFilter filter;
} ListFilter;

static int read_filters(sd_bus_message *call, ListFilter *ret, sd_bus_error *reterr_error) {
        int r;

        r = read_filter(call, "unit pattern", NULL, ret->units, reterr_error);
        if (r < 0)
                return r;
        r = read_filter(call, "operation", bus_is_op, ret->ops, reterr_error);
        if (r < 0)
                return r;
        ret->filter = (RowFilter){
                .units = (char **) ret->units,
                .ops = (char **) ret->ops,
                .phases = (char **) ret->phases,
        };

        return read_filter(call, "phase", bus_is_phase, ret->phases, reterr_error);
}

static int list(sd_bus_message *call, const BusContext *c, row_callback append, sd_bus_error *reterr_error) {
        _cleanup_(sd_bus_message_unrefp) sd_bus_message *reply = NULL;
        BusPage page;
        ListFilter f;
        int r;

        r = read_filters(call, &f, reterr_error);
        if (r < 0)
                return r;
        r = page_read(call, LIST_ROWS_MAX, &page);
        if (r < 0)
                return r;

        r = reply_open(call, "a{sv}", &reply);
        if (r < 0)
                return r;
        r = query_rows(c->manager, &f.filter, page.cursor, page.limit, append, reply, &page.next);
        if (r < 0)
                return r;

        return page_send(reply, &page);
}

int bus_method_list(sd_bus_message *call, void *userdata, sd_bus_error *reterr_error) {
        return list(call, userdata, append_row, reterr_error);
}

int bus_method_list_buckets(sd_bus_message *call, void *userdata, sd_bus_error *reterr_error) {
        return list(call, userdata, append_row_with_buckets, reterr_error);
}

int bus_method_list_range(sd_bus_message *call, void *userdata, sd_bus_error *reterr_error) {
        _cleanup_(sd_bus_message_unrefp) sd_bus_message *reply = NULL;
        BusContext *c = userdata;
        uint64_t since, until;
        RangeResult result;
        ListFilter f;
        BusPage page;
        int r;

        r = read_filters(call, &f, reterr_error);
        if (r < 0)
                return r;
        r = sd_bus_message_read(call, "tt", &since, &until);
        if (r < 0)
                return r;
        r = page_read(call, LIST_ROWS_MAX, &page);
        if (r < 0)
                return r;
        if (since > until)
                return sd_bus_error_set(reterr_error, BUS_ERROR_BAD_RANGE, "The end lies before the beginning.");

        r = reply_open(call, "a{sv}", &reply);
        if (r < 0)
                return r;
        r = query_range(c->manager, &f.filter, since, until, page.cursor, page.limit, append_row, reply, &result);
        if (r < 0)
                return r;
        r = sd_bus_message_close_container(reply);
        if (r < 0)
                return r;
        r = sd_bus_message_append(reply, "ttt", result.next, result.first_us, result.last_us);
        if (r < 0)
                return r;

        return sd_bus_send(NULL, reply, NULL);
}
