/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "maps.h"
#include "util.h"

enum { SOURCE_NAMES_MAX = 8 };

/* By which attach points numbers were obtained, on this host: "tp_btf:NAME", "fentry:NAME" or "kprobe:NAME" measured
 * there; "derived:NAME" an edge taken from there by the rule in iolat(7); "planned:NAME" announced rather than
 * measured. */
typedef struct Sources {
        enum tier tier;
        char label[_PROBE_MAX][64]; /* empty if the probe is not attached */
} Sources;

/* Reads what the present generation has attached. */
int sources_read(Sources *s, Maps *maps);

/* Fill a NULL-terminated array of strings that belong to s or are static. */
void sources_of_total(const Sources *s, int op, const char *ret[static SOURCE_NAMES_MAX]);
void sources_of_phase(const Sources *s, int phase, const char *ret[static SOURCE_NAMES_MAX]);
void sources_of_request(const Sources *s, int part, const char *ret[static SOURCE_NAMES_MAX]);
void sources_of_age(const Sources *s, const char *ret[static SOURCE_NAMES_MAX]);

/* What a tier cannot see, unless there is a probe for it. */
typedef struct BlindSpot {
        unsigned tiers; /* 1 << enum tier */
        signed short unless; /* -1, or the probe that sees it where it could be attached */
        const char *title;
        const char *text;
} BlindSpot;
extern const BlindSpot blind_spots[];
extern const size_t blind_spots_size;

/* Whether it is a blind spot on this host. */
bool source_is_blind(const Sources *s, const BlindSpot *b);
