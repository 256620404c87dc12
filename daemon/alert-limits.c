/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <search.h>

#include "alert-limits.h"
#include "rate-limit.h"

typedef struct UnitLimit {
        char *unit;
        RateLimit limit;
} UnitLimit;

struct AlertLimits {
        void *tree; /* of UnitLimit, by unit (tsearch) */
        size_t n;
        RateLimit shared;
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

static RateLimit *limit_of(AlertLimits *l, const char *unit) {
        UnitLimit key = { .unit = (char *) unit }, **found, *u;

        found = tfind(&key, &l->tree, compare_limit);
        if (found)
                return &(*found)->limit;
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

        return &u->limit;
}

bool alert_limits_allow(AlertLimits *l, const char *unit, uint64_t now_ns, unsigned burst, uint64_t interval_ns) {
        RateLimit *r = limit_of(l, unit);

        r->burst = burst;
        r->interval_ns = interval_ns;

        return rate_limit_allow(r, now_ns);
}
