/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "conf.h"
#include "util.h"

/* Everything that needs BPF privileges. Used by iolat-probes, and by an iolatd that was started by hand. */

typedef struct LoaderOptions {
        const char *bpffs; /* where a bpf file system is mounted */
        const char *tier;  /* "auto", "tracepoint", "function" or "kprobe" */
        unsigned wanted;   /* OPTION_* of probe-table.h */
        bool force;        /* load a new generation even if the present one is this build's */
        bool symbols_from_stdin; /* standard input is /proc/kallsyms, opened by somebody who is told addresses */
} LoaderOptions;

#define DEFAULT_BPFFS "/sys/fs/bpf"

/* Loads, attaches and pins a generation and removes the others. Logs what goes wrong (one sentence) and returns a
 * negative errno; on failure what was there before is unharmed and goes on. Returns 1 if a new generation was made,
 * 0 if the present one is fine. */
int loader_load(const LoaderOptions *options);

/* Detaches and removes everything. Logs its errors. Returns 0 also if nothing was there. */
int loader_unload(const char *bpffs);

/* Prints what is attached to stdout. Logs its errors. */
int loader_show(const char *bpffs);

/* Says why a directory of pins could not be opened, and returns the error. */
int loader_log_open_error(const char *bpffs, int error);

/* What the configuration asks the loader for, as LoaderOptions.wanted. */
unsigned loader_wanted(const Config *config);
