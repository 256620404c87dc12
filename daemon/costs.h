/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "bias.h"
#include "maps.h"
#include "series.h"

/* How often each probe is hit, what that costs, and what it adds to what is measured. */
typedef struct Costs Costs;

int costs_new(Costs **ret, Maps *maps);
Costs *costs_free(Costs *c);
DEFINE_CLEANUP_FUNC(Costs, costs_free)

/* Once a second. How often probes are hit is looked up every few of these, whoever asks for it meanwhile. */
void costs_tick(Costs *c, uint64_t now_ns);

typedef struct ProbeCosts {
        bool has_ns; /* somebody has measured that, of these programs */
        double ns_per_hit;
        uint64_t sampled_hits; /* by so many hits */
        bool has_rate;
        double hits_per_sec;
} ProbeCosts;

/* attached: enum attach_kind of the probe. */
void costs_get(Costs *c, enum probe probe, unsigned attached, ProbeCosts *ret);

/* What an empty program takes, measured the same way. Returns false if nobody did. */
bool costs_get_floor(Costs *c, double *ret_ns);

/* What the programs add to each kind of operation and request, of all that was counted since the beginning. The rows
 * are valid until the next call; they are computed at most once a second. */
typedef const char *(*fs_type_callback)(uint32_t dev, void *userdata);
int costs_bias(Costs *c, SeriesTable *series, fs_type_callback fs_type, void *userdata, const Bias **ret,
               size_t *ret_n);
