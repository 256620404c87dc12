/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "abi.h"
#include "util.h"

/* One BPF program: which logical probe it serves, where it attaches, and how it is chosen. Several programs of the
 * same logical probe and enum probe are candidates, best first. */
typedef struct ProbeDef {
        enum probe probe;
        const char *program;    /* name in the BPF object */
        const char *name;       /* logical probe, as "iolatctl probes" shows it */
        const char *tracepoint; /* kernel's name, as in btf_trace_NAME */
        unsigned n_args;        /* prototype that it needs; 0: any */
        bool expected;          /* absence on a kernel of the minimum version means degraded */
} ProbeDef;

extern const ProbeDef probe_table[];
extern const size_t probe_table_size;

/* First definition of the probe, NULL for a number that is none. */
const ProbeDef *probe_def_find(enum probe probe);
