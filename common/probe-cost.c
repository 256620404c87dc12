/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "probe-cost.h"

bool probe_cost_is_of(const struct probe_cost *c, uint64_t build, unsigned attached) {
        return c->build != 0 && c->build == build && c->attached == attached && c->hits > 0 && c->runs > 0;
}

bool probe_cost_update(struct probe_cost *c, const struct probe_cost *measured) {
        if (measured->hits < COST_HITS_MIN || measured->runs < COST_HITS_MIN)
                return false;
        *c = *measured;

        return true;
}

double probe_cost_ns_per_hit(const struct probe_cost *c) {
        if (c->hits == 0)
                return 0;

        return ((double) c->enter_ns + (double) c->exit_ns + (double) c->twin_ns) / (double) c->hits;
}
