/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "choice.h"

/* The program that stays attached at jbd2_handle_stats, and calls the one that counts. */
#define HANDLE_STATS_STUB "handle_stats_stub"

/* One set of programs, links and maps, from opening the object to its pins. Needs the loaders' lock. */
typedef struct Generation {
        const char *bpffs; /* borrowed */
        Choice *choice;    /* borrowed; learns what the kernel refuses */
        unsigned current;  /* the one that is there, 0: none */
        unsigned number;   /* of this one */
        bool share_maps;   /* with the present one */
        bool extends;      /* it is the present one, to which programs are added */
        const struct probe_info *infos; /* then: of the present probes, by enum probe; borrowed */
        const char *wanted_tier;
        unsigned wanted_options;
        struct iolat_bpf *skel;
        struct iolat_bpf *twin[CHOICE_TWINS]; /* the same programs again, where the kernel skips events */
} Generation;

/* Once, before anything else that libbpf could speak of. */
void generation_setup(void);

void generation_done(Generation *g);

/* Opens and loads the object, without what the kernel refuses. Returns 0 or a negative errno, not logged. */
int generation_load(Generation *g);

/* Attaches the further sets of programs, where the kernel skips events. Going without is better than nothing: logs. */
void generation_attach_twins(Generation *g);

/* Loads, attaches and pins, and gives the pins their final name. Logs its errors, but for -EAGAIN: something did not
 * attach; once the unfinished pins are removed another try will do without it. */
int generation_make(Generation *g, int root_fd);

/* Tells builds of the BPF object apart. */
uint64_t generation_build_hash(void);

/* What a pinned generation says of itself; -EUCLEAN if it is not of this layout. */
int generation_read_meta(const char *bpffs, unsigned generation, struct meta *ret);
