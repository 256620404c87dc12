/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "abi.h"
#include "util.h"

enum {
        FOR_TRACEPOINT = 1 << TIER_TRACEPOINT,
        FOR_FUNCTION = 1 << TIER_FUNCTION,
        FOR_BOTH = FOR_TRACEPOINT | FOR_FUNCTION,
};

/* What has to be asked for. */
enum {
        OPTION_WRITE = 1 << 0, /* Operations=write */
        OPTION_READ = 1 << 1,  /* Operations=read */
        OPTION_DIRTY = 1 << 2, /* DirtyTracking=yes */
};

/* How much a probe is missed. */
enum need {
        OPTIONAL, /* kernels differ, or the filesystem is not there */
        EXPECTED, /* without it iolat is degraded */
        CORE,     /* without it there is no function tier */
};

/* One candidate for a logical probe: where it attaches, with which BPF programs, and when it is chosen. Candidates for
 * the same enum probe follow one another, best first. */
typedef struct ProbeDef {
        enum probe probe;
        const char *name; /* logical probe, as "iolatctl probes" shows it */
        enum attach_kind kind;
        const char *target;       /* tracepoint (as in btf_trace_NAME) or function */
        const char *program;      /* name in the BPF object */
        const char *exit_program; /* at the function's return; NULL for tracepoints */
        unsigned n_args;          /* prototype that a tracepoint must have; 0: any */
        enum need need;
        unsigned tiers;
        unsigned option; /* 0: always */
} ProbeDef;

extern const ProbeDef probe_table[];
extern const size_t probe_table_size;

/* First candidate for the probe that is of this kind, of any kind if ATTACH_NONE; NULL if there is none. */
const ProbeDef *probe_def_find(enum probe probe, enum attach_kind kind);

/* "tp_btf", "fentry", "kprobe" */
const char *attach_kind_to_string(int kind);
