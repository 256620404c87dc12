/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <search.h>

#include "alert-limits.h"
#include "rate-limit.h"

#define TIDY_INTERVAL_NS NSEC_PER_SEC

typedef struct UnitLimit {
        char *unit; /* NULL: shared */
        RateLimit stalls;
        RateLimit failures;
        Suppressed suppressed;
} UnitLimit;

struct AlertLimits {
        void *tree; /* of UnitLimit, by unit (tsearch) */
        size_t n;
        size_t n_suppressed; /* units, with the shared one */
        uint64_t tidied_ns;
        UnitLimit shared;
};

static int compare_limit(const void *a, const void *b) {
        const UnitLimit *x = a, *y = b;

        return strcmp(x->unit, y->unit);
}

static void limit_free(void *p) {
        UnitLimit *u = p;

        free(u->unit);
        free(u);
}

int alert_limits_new(AlertLimits **ret) {
        *ret = calloc(1, sizeof(**ret));

        return *ret ? 0 : -ENOMEM;
}

AlertLimits *alert_limits_free(AlertLimits *l) {
        if (!l)
                return NULL;
        tdestroy(l->tree, limit_free);
        free(l);

        return NULL;
}

typedef struct Selection {
        UnitLimit *items[ALERT_LIMIT_UNITS_MAX];
        size_t n;
        uint64_t now_ns;
        bool (*wanted)(const UnitLimit *u, uint64_t now_ns);
} Selection;

static void select_node(const void *node, VISIT visit, void *closure) {
        UnitLimit *u = *(UnitLimit *const *) node;
        Selection *s = closure;

        if ((visit == postorder || visit == leaf) && s->n < ELEMENTSOF(s->items) && s->wanted(u, s->now_ns))
                s->items[s->n++] = u;
}

static bool is_full(const RateLimit *r, uint64_t now_ns) {
        return !r->used || now_ns >= r->last_ns + r->interval_ns;
}

static bool is_idle(const UnitLimit *u, uint64_t now_ns) {
        return u->suppressed.n == 0 && is_full(&u->stalls, now_ns) && is_full(&u->failures, now_ns);
}

/* A full bucket is as good as none. */
static void forget_idle(AlertLimits *l, uint64_t now_ns) {
        Selection s = { .now_ns = now_ns, .wanted = is_idle };

        if (l->tidied_ns && now_ns < l->tidied_ns + TIDY_INTERVAL_NS)
                return;
        l->tidied_ns = now_ns;
        twalk_r(l->tree, select_node, &s);
        for (size_t i = 0; i < s.n; i++) {
                tdelete(s.items[i], &l->tree, compare_limit);
                limit_free(s.items[i]);
                l->n--;
        }
}

static UnitLimit *limit_of(AlertLimits *l, const char *unit, uint64_t now_ns) {
        UnitLimit key = { .unit = (char *) unit }, **found, *u;

        found = tfind(&key, &l->tree, compare_limit);
        if (found)
                return *found;
        if (l->n >= ALERT_LIMIT_UNITS_MAX)
                forget_idle(l, now_ns);
        if (l->n >= ALERT_LIMIT_UNITS_MAX)
                return &l->shared;

        u = calloc(1, sizeof(*u));
        if (!u)
                return &l->shared;
        u->unit = strdup(unit);
        if (!u->unit || !tsearch(u, &l->tree, compare_limit)) {
                limit_free(u);
                return &l->shared;
        }
        l->n++;

        return u;
}

static bool is_worse(const AlertSubject *a, const AlertSubject *b) {
        if (a->failed != b->failed)
                return a->failed;

        return a->total_ns > b->total_ns;
}

static void note(AlertLimits *l, UnitLimit *u, const AlertSubject *about, uint64_t now_ns) {
        Suppressed *s = &u->suppressed;

        if (s->n == 0) {
                l->n_suppressed++;
                s->since_ns = now_ns;
        }
        if (s->n == 0 || is_worse(about, &s->worst))
                s->worst = *about;
        s->n++;
        s->n_failed += about->failed;
}

static void set_rate(RateLimit *r, AlertRate rate) {
        r->burst = (unsigned) rate.burst;
        r->interval_ns = rate.interval_ns;
}

bool alert_limits_allow(AlertLimits *l, const char *unit, const AlertSubject *about, uint64_t now_ns, AlertRate rate) {
        UnitLimit *u = limit_of(l, unit, now_ns);
        RateLimit *r = about->failed ? &u->failures : &u->stalls;

        set_rate(r, rate);
        if (rate_limit_allow(r, now_ns))
                return true;
        note(l, u, about, now_ns);

        return false;
}

void alert_limits_note(AlertLimits *l, const char *unit, const AlertSubject *about, uint64_t now_ns) {
        note(l, limit_of(l, unit, now_ns), about, now_ns);
}

static bool has_suppressed(const UnitLimit *u, uint64_t now_ns) {
        return u->suppressed.n > 0;
}

static void report(AlertLimits *l, UnitLimit *u, uint64_t now_ns, AlertRate rate, suppressed_callback callback,
                   void *userdata) {
        Suppressed *s = &u->suppressed;
        RateLimit before = u->stalls;

        if (s->n == 0)
                return;
        set_rate(&u->stalls, rate);
        if (!rate_limit_allow(&u->stalls, now_ns) && now_ns < s->since_ns + rate.interval_ns)
                return;
        if (!callback(u->unit, s, userdata)) {
                u->stalls = before;
                return;
        }
        *s = (Suppressed){};
        l->n_suppressed--;
}

void alert_limits_report(AlertLimits *l, uint64_t now_ns, AlertRate rate, suppressed_callback callback,
                         void *userdata) {
        Selection s = { .now_ns = now_ns, .wanted = has_suppressed };

        if (l->n_suppressed == 0)
                return;
        twalk_r(l->tree, select_node, &s);
        for (size_t i = 0; i < s.n; i++)
                report(l, s.items[i], now_ns, rate, callback, userdata);
        report(l, &l->shared, now_ns, rate, callback, userdata);
}
