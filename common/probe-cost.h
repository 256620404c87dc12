/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "abi.h"
#include "util.h"

enum { COST_HITS_MIN = 10 }; /* fewer say nothing */

/* Whether the figures are of programs of that build, attached that way. */
bool probe_cost_is_of(const struct probe_cost *c, uint64_t build, unsigned attached);

/* Puts a new measurement in place of an older one, if it is good enough. */
bool probe_cost_update(struct probe_cost *c, const struct probe_cost *measured);

/* All its programs, those runs included that were no hit. */
double probe_cost_ns_per_hit(const struct probe_cost *c);
