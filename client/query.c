/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <errno.h>
#include <time.h>

#include "bus-names.h"
#include "log.h"
#include "query.h"
#include "query-internal.h"
#include "text.h"

#define CALL_TIMEOUT_US (10 * USEC_PER_SEC)
#define DEFAULT_SOCKET DEFAULT_RUNTIME_DIR "/" PEER_SOCKET_NAME

enum {
        PAGES_MAX = 100000, /* of List(): a daemon that never comes to an end is not believed */
};

Query *query_free(Query *q) {
        if (!q)
                return NULL;
        sd_event_source_disable_unref(q->retry);
        sd_bus_close_unref(q->bus);
        sd_event_unref(q->event);
        free(q->place);
        free(q);

        return NULL;
}

/* An address may hold only few characters as they are, everything else is %NN. */
static char *escape_address(const char *path) {
        static const char plain[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_/.";
        char *escaped, *t;

        escaped = t = malloc(strlen(path) * STRLEN("%NN") + 1);
        if (!escaped)
                return NULL;
        for (; *path; path++)
                if (strchr(plain, *path))
                        *t++ = *path;
                else
                        t += sprintf(t, "%%%02x", (unsigned char) *path);
        *t = 0;

        return escaped;
}

static uint64_t now_us(void) {
        struct timespec ts;

        (void) clock_gettime(CLOCK_MONOTONIC, &ts);

        return (uint64_t) ts.tv_sec * USEC_PER_SEC + (uint64_t) ts.tv_nsec / NSEC_PER_USEC;
}

/* Calls would wait for that, too, but for as long as it takes. */
int query_wait_ready(Query *q, uint64_t timeout_us) {
        uint64_t end = now_us() + timeout_us, now;
        int r;

        while ((r = sd_bus_is_ready(q->bus)) == 0) {
                r = sd_bus_process(q->bus, NULL);
                if (r < 0)
                        return r;
                if (r > 0)
                        continue;
                now = now_us();
                if (now >= end)
                        return -ETIMEDOUT;
                r = sd_bus_wait(q->bus, end - now);
                if (r < 0)
                        return r;
        }

        return r < 0 ? r : 0;
}

static int open_peer(const char *path, sd_bus **ret) {
        _cleanup_(sd_bus_unrefp) sd_bus *bus = NULL;
        _cleanup_free_ char *address = NULL, *escaped = NULL;
        int r;

        escaped = escape_address(path);
        if (!escaped || asprintf(&address, "unix:path=%s", escaped) < 0) {
                address = NULL;
                return -ENOMEM;
        }
        r = sd_bus_new(&bus);
        if (r < 0)
                return r;
        r = sd_bus_set_address(bus, address);
        if (r < 0)
                return r;
        r = sd_bus_start(bus);
        if (r < 0)
                return r;
        *ret = TAKE_PTR(bus);

        return 0;
}

static int open_bus(Query *q) {
        const Options *o = q->options;
        const char *socket;
        int r;

        free(q->place);
        if (o->host || o->machine) {
                q->destination = BUS_NAME;
                q->place = strdup(o->host ?: o->machine);
                r = o->host ? sd_bus_open_system_remote(&q->bus, o->host) :
                              sd_bus_open_system_machine(&q->bus, o->machine);
        } else {
                socket = o->socket ?: getenv("IOLAT_SOCKET");
                if (isempty(socket))
                        socket = DEFAULT_SOCKET;
                q->place = strdup(socket);
                r = open_peer(socket, &q->bus);
        }
        if (r < 0)
                return r;

        return sd_bus_set_method_call_timeout(q->bus, CALL_TIMEOUT_US);
}

int query_log_unreachable(const Query *q, int error) {
        _cleanup_free_ char *place = NULL;

        place = text_escape(strempty(q->place));

        return log_error_errno(error, "Cannot reach iolatd at %s: %m. Is iolatd running%s?", strempty(place),
                               q->destination ? " there" : " (systemctl start iolatd)");
}

int query_connect(Query *q, uint64_t timeout_us) {
        int r;

        q->bus = sd_bus_close_unref(q->bus);
        r = open_bus(q);
        if (r < 0)
                return r;

        return query_wait_ready(q, timeout_us);
}

int query_new(const Options *o, Query **ret) {
        _cleanup_(query_freep) Query *q = NULL;
        int r;

        q = calloc(1, sizeof(Query));
        if (!q)
                return log_oom();
        q->options = o;
        r = query_connect(q, CALL_TIMEOUT_US);
        if (r < 0)
                return query_log_unreachable(q, r);
        *ret = TAKE_PTR(q);

        return 0;
}

int query_start(const Options *o, Query **ret) {
        _cleanup_(query_freep) Query *q = NULL;
        int r;

        q = calloc(1, sizeof(Query));
        if (!q)
                return -ENOMEM;
        q->options = o;
        r = open_bus(q);
        if (r < 0)
                return r;
        *ret = TAKE_PTR(q);

        return 0;
}

int query_log_reply(int error) {
        if (error == -ENOMEM)
                return log_oom();

        return log_error_errno(error, "Cannot make sense of the answer of iolatd (%m). "
                               "Are iolatctl and iolatd of the same version?");
}

static bool is_unreachable(int error, const sd_bus_error *e) {
        return sd_bus_error_has_name(e, SD_BUS_ERROR_SERVICE_UNKNOWN) ||
                sd_bus_error_has_name(e, SD_BUS_ERROR_NAME_HAS_NO_OWNER) || error == -ECONNRESET ||
                error == -ENOTCONN;
}

static bool is_late(int error, const sd_bus_error *e) {
        return sd_bus_error_has_name(e, SD_BUS_ERROR_NO_REPLY) || error == -ETIMEDOUT;
}

/* Turns an error reply into one of the quiet errors, or logs it. */
static int handle_error(Query *q, int error, const sd_bus_error *e) {
        _cleanup_free_ char *text = NULL;

        if (sd_bus_error_has_name(e, BUS_ERROR_NO_SUCH_UNIT) ||
            sd_bus_error_has_name(e, SD_BUS_ERROR_UNKNOWN_OBJECT))
                return -ENOENT;
        if (sd_bus_error_has_name(e, BUS_ERROR_NO_SUCH_PROCESS))
                return -ESRCH;
        if ((is_unreachable(error, e) || is_late(error, e)) && query_can_come_back(q))
                return query_went_away(q);
        if (is_unreachable(error, e))
                return query_log_unreachable(q, error);
        if (is_late(error, e))
                return log_error_errno(ETIMEDOUT, "iolatd did not answer in time.");

        if (sd_bus_error_has_name(e, SD_BUS_ERROR_UNKNOWN_METHOD))
                return log_error_errno(EOPNOTSUPP, "iolatd cannot tell that. Is it older than iolatctl?");

        text = text_escape(sd_bus_error_is_set(e) && e->message ? e->message : strerror(abs(error)));
        (void) log_error_errno(error, "iolatd refused the request: %s", strempty(text));
        /* Not to be taken for one of the quiet ones */
        return error == -ENOENT || error == -ESRCH ? -EIO : error;
}

int query_call(Query *q, sd_bus_message *request, sd_bus_message **ret) {
        _cleanup_(sd_bus_error_free) sd_bus_error e = SD_BUS_ERROR_NULL;
        int r;

        if (q->away && !q->retrying)
                return -ECONNRESET;
        r = sd_bus_call(q->bus, request, 0, &e, ret);
        if (r < 0)
                return handle_error(q, r, &e);

        return 0;
}

int query_request(Query *q, const char *path, const char *interface, const char *method, sd_bus_message **ret) {
        int r;

        if (q->away && !q->retrying)
                return -ECONNRESET;
        r = sd_bus_message_new_method_call(q->bus, ret, q->destination, path, interface, method);
        if (r == -ENOTCONN && query_can_come_back(q))
                return query_went_away(q);
        /* Who stops the daemon does not want that we start it. */
        if (r >= 0 && q->event)
                r = sd_bus_message_set_auto_start(*ret, false);
        if (r < 0)
                return log_error_errno(r, "Cannot make a request to iolatd: %m");

        return 0;
}

/* Calls a method whose arguments are basic types. */
int query_call_simple(Query *q, const char *path, const char *interface, const char *method, sd_bus_message **ret,
                      const char *types, ...) {
        _cleanup_(sd_bus_message_unrefp) sd_bus_message *m = NULL;
        va_list ap;
        int r;

        r = query_request(q, path, interface, method, &m);
        if (r < 0)
                return r;
        if (!isempty(types)) {
                va_start(ap, types);
                r = sd_bus_message_appendv(m, types, ap);
                va_end(ap);
                if (r < 0)
                        return log_error_errno(r, "Cannot send that to iolatd: %m");
        }

        return query_call(q, m, ret);
}

static int append_lists(sd_bus_message *m, char **patterns, char **ops, char **phases) {
        char **lists[] = { patterns, ops, phases };
        char *none[] = { NULL };
        int r = 0;

        for (size_t i = 0; i < ELEMENTSOF(lists) && r >= 0; i++)
                r = sd_bus_message_append_strv(m, lists[i] ?: none);

        return r;
}

int query_list_request(Query *q, const ListRequest *l, uint64_t cursor, sd_bus_message **ret) {
        _cleanup_(sd_bus_message_unrefp) sd_bus_message *m = NULL;
        int r;

        r = query_request(q, BUS_PATH, BUS_INTERFACE_MANAGER, l->range ? "ListRange" : l->buckets ? "ListBuckets" : "List", &m);
        if (r < 0)
                return r;
        r = append_lists(m, l->patterns, l->ops, l->phases);
        if (r >= 0 && l->range)
                r = sd_bus_message_append(m, "tt", l->range->since_us, l->range->until_us);
        if (r >= 0)
                r = sd_bus_message_append(m, "tu", cursor, l->limit);
        if (r < 0)
                return log_error_errno(r, "Cannot send that to iolatd: %m");
        *ret = TAKE_PTR(m);

        return 0;
}

int query_list_decode(sd_bus_message *reply, const ListRequest *l, Rows *rows, uint64_t *ret_next, Range *ret_covered) {
        int r;

        r = rows_append(rows, reply);
        if (r >= 0)
                r = sd_bus_message_read(reply, "t", ret_next);
        if (r >= 0 && l->range)
                r = sd_bus_message_read(reply, "tt", &ret_covered->since_us, &ret_covered->until_us);
        if (r < 0)
                return query_log_reply(r);

        return 0;
}

static int list_page(Query *q, const ListRequest *l, uint64_t cursor, Rows *rows, uint64_t *ret_next,
                     Range *ret_covered) {
        _cleanup_(sd_bus_message_unrefp) sd_bus_message *m = NULL, *reply = NULL;
        int r;

        r = query_list_request(q, l, cursor, &m);
        if (r < 0)
                return r;
        r = query_call(q, m, &reply);
        if (r < 0)
                return r;

        return query_list_decode(reply, l, rows, ret_next, ret_covered);
}

/* The patterns of the request are not used. */
static int list_all(Query *q, char **patterns, ListRequest l, Rows *ret, Range *ret_covered) {
        _cleanup_(rows_clear) Rows rows = {};
        _cleanup_(strv_freep) char **sent = NULL;
        uint64_t cursor = 0, next;
        Range covered = {};
        int r;

        r = query_patterns_new(patterns, &sent);
        if (r < 0)
                return log_oom();
        l.patterns = sent;
        l.limit = LIST_ROWS_MAX;

        for (size_t page = 0;; page++) {
                /* Only what the first page says counts: the history goes on meanwhile. */
                r = list_page(q, &l, cursor, &rows, &next, page == 0 ? &covered : &(Range){});
                if (r < 0)
                        return r;
                if (next == 0)
                        break;
                if (next == cursor || page >= PAGES_MAX)
                        return query_log_reply(-EBADMSG);
                cursor = next;
        }

        query_rows_match(patterns, &rows);
        rows_sort(&rows);
        *ret = rows;
        rows = (Rows){};
        if (ret_covered)
                *ret_covered = covered;

        return 0;
}

int query_rows(Query *q, char **patterns, char **ops, char **phases, Rows *ret) {
        return list_all(q, patterns, (ListRequest){ .ops = ops, .phases = phases }, ret, NULL);
}

int query_rows_with_buckets(Query *q, char **ops, Rows *ret) {
        return list_all(q, NULL, (ListRequest){ .ops = ops, .buckets = true }, ret, NULL);
}

int query_rows_range(Query *q, char **patterns, char **ops, char **phases, const Range *range, Rows *ret,
                     Range *ret_covered) {
        const ListRequest l = { .ops = ops, .phases = phases, .range = range };

        return list_all(q, patterns, l, ret, ret_covered);
}

int query_covered(Query *q, const Range *range, Range *ret_covered) {
        _cleanup_(rows_clear) Rows rows = {};
        ListRequest l = { .range = range, .limit = 1 };
        uint64_t next;
        Range covered;
        int r;

        r = list_page(q, &l, 0, &rows, &next, &covered);
        if (r < 0)
                return r;
        *ret_covered = covered;

        return 0;
}
