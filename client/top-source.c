/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <errno.h>

#include "bus-names.h"
#include "query-internal.h"
#include "text.h"
#include "top-source.h"

#define ANSWER_TIMEOUT_NS (5 * NSEC_PER_SEC)

enum {
        PAGES_MAX = 100000, /* of List(): a daemon that never comes to an end is not believed */
        STEPS_MAX = 256,    /* at once: keys are looked at in between */
};

struct TopSource {
        const Options *options;
        ListRequest listing;
        Query *query; /* NULL: not connected */
        sd_bus_slot *slot;

        bool busy;   /* a listing is on its way */
        bool done;   /* ... and has come to an end */
        uint64_t deadline_ns;
        size_t pages;
        ManagerInfo info;
        Rows rows;

        bool broken; /* the connection is of no use any more */
        char *error;
};

int top_source_new(const Options *o, Query *q, TopSource **ret) {
        TopSource *s;

        s = calloc(1, sizeof(TopSource));
        if (!s)
                return -ENOMEM;
        s->options = o;
        s->listing = (ListRequest){ .ops = o->ops, .buckets = true, .limit = LIST_ROWS_MAX };
        s->query = q;
        *ret = s;

        return 0;
}

static void forget_listing(TopSource *s) {
        s->slot = sd_bus_slot_unref(s->slot);
        manager_info_clear(&s->info);
        s->info = (ManagerInfo){};
        rows_clear(&s->rows);
        s->pages = 0;
}

TopSource *top_source_free(TopSource *s) {
        if (!s)
                return NULL;
        forget_listing(s);
        query_free(s->query);
        free(s->error);
        free(s);

        return NULL;
}

/* The text is taken over; NULL: out of memory. */
static void fail(TopSource *s, char *text) {
        free(s->error);
        s->error = text ?: strdup("Out of memory");
        s->done = true;
}

static void fail_errno(TopSource *s, int error) {
        char *text;

        if (asprintf(&text, "Cannot reach iolatd: %s", strerror(abs(error))) < 0)
                text = NULL;
        fail(s, text);
}

static void fail_decode(TopSource *s, int error) {
        char *text;

        if (asprintf(&text, "Cannot make sense of the answer of iolatd (%s)", strerror(abs(error))) < 0)
                text = NULL;
        fail(s, text);
        s->broken = true;
}

/* Whether the reply is an error, which then is the end of the listing. */
static bool is_error(TopSource *s, sd_bus_message *reply) {
        const sd_bus_error *e = sd_bus_message_get_error(reply);
        char *text;

        if (!e)
                return false;
        if (asprintf(&text, "No answer from iolatd: %s", isempty(e->message) ? strempty(e->name) : e->message) < 0)
                text = NULL;
        fail(s, text);

        return true;
}

static void request(TopSource *s, sd_bus_message *m, sd_bus_message_handler_t handler) {
        int r;

        s->slot = sd_bus_slot_unref(s->slot);
        r = sd_bus_call_async(s->query->bus, &s->slot, m, handler, s, 0);
        if (r < 0)
                fail_errno(s, r);
}

static void request_page(TopSource *s, uint64_t cursor);

static int on_page(sd_bus_message *reply, void *userdata, sd_bus_error *error) {
        TopSource *s = userdata;
        uint64_t next;
        int r;

        if (is_error(s, reply))
                return 0;
        r = query_list_decode(reply, &s->listing, &s->rows, &next, NULL);
        if (r < 0) {
                fail_decode(s, r);
                return 0;
        }
        if (next == 0) {
                rows_sort(&s->rows);
                free(s->error);
                s->error = NULL;
                s->done = true;
        } else if (++s->pages >= PAGES_MAX)
                fail_decode(s, -EBADMSG);
        else
                request_page(s, next);

        return 0;
}

static void request_page(TopSource *s, uint64_t cursor) {
        _cleanup_(sd_bus_message_unrefp) sd_bus_message *m = NULL;
        int r;

        r = query_list_request(s->query, &s->listing, cursor, &m);
        if (r < 0)
                fail_errno(s, r);
        else
                request(s, m, on_page);
}

static int on_manager(sd_bus_message *reply, void *userdata, sd_bus_error *error) {
        TopSource *s = userdata;
        int r;

        if (is_error(s, reply))
                return 0;
        r = query_manager_decode(reply, &s->info);
        if (r < 0)
                fail_decode(s, r);
        else
                request_page(s, 0);

        return 0;
}

void top_source_start(TopSource *s) {
        _cleanup_(sd_bus_message_unrefp) sd_bus_message *m = NULL;
        int r;

        if (s->busy)
                return;
        s->busy = true;
        s->done = false;
        s->deadline_ns = now_ns() + ANSWER_TIMEOUT_NS;
        if (!s->query) {
                r = query_start(s->options, &s->query);
                if (r < 0) {
                        fail_errno(s, r);
                        return;
                }
        }
        r = query_manager_request(s->query, &m);
        if (r < 0) {
                s->broken = true;
                fail_errno(s, r);
        } else
                request(s, m, on_manager);
}

bool top_source_is_busy(const TopSource *s) {
        return s->busy;
}

void top_source_prepare(TopSource *s, struct pollfd *p, uint64_t *until_ns) {
        uint64_t timeout_us;
        int events;

        *p = (struct pollfd){ .fd = -1 };
        if (s->done)
                *until_ns = 0;
        if (!s->query)
                return;
        if (s->busy)
                *until_ns = MIN(*until_ns, s->deadline_ns);
        p->fd = sd_bus_get_fd(s->query->bus);
        events = sd_bus_get_events(s->query->bus);
        if (p->fd < 0 || events < 0) {
                *until_ns = 0; /* closed: process() tells */
                *p = (struct pollfd){ .fd = -1 };
                return;
        }
        p->events = (short) events;
        /* Absolute, of the same clock */
        if (sd_bus_get_timeout(s->query->bus, &timeout_us) >= 0 && timeout_us < UINT64_MAX / NSEC_PER_USEC)
                *until_ns = MIN(*until_ns, timeout_us * NSEC_PER_USEC);
}

static void process_bus(TopSource *s) {
        int r = 1;

        for (unsigned i = 0; i < STEPS_MAX && r > 0 && !s->done; i++)
                r = sd_bus_process(s->query->bus, NULL);
        if (r < 0 || sd_bus_is_open(s->query->bus) <= 0) {
                s->broken = true;
                fail_errno(s, r < 0 ? r : -ECONNRESET);
        } else if (s->busy && !s->done && now_ns() >= s->deadline_ns) {
                s->broken = true; /* what comes later would be of this listing */
                fail_errno(s, -ETIMEDOUT);
        }
}

bool top_source_process(TopSource *s) {
        if (s->query && !s->done)
                process_bus(s);

        return s->done;
}

bool top_source_take(TopSource *s, Rows *rows, ManagerInfo *info) {
        bool good = s->done && !s->error;

        if (good) {
                *rows = s->rows;
                *info = s->info;
                s->rows = (Rows){};
                s->info = (ManagerInfo){};
        }
        forget_listing(s);
        if (s->broken)
                s->query = query_free(s->query);
        s->broken = s->done = s->busy = false;

        return good;
}

const char *top_source_error(const TopSource *s) {
        return s->error;
}
