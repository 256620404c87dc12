/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "util.h"

typedef enum OutputMode {
        OUTPUT_TABLE,
        OUTPUT_JSON_SHORT,
        OUTPUT_JSON_PRETTY,
} OutputMode;

/* What the command line asked for. NULL and empty lists: not given. */
typedef struct Options {
        OutputMode output;
        bool legend;
        bool pager;
        bool all;
        bool by_device;
        bool batch;
        const char *host;
        const char *machine;
        const char *socket;
        char **ops;
        char **phases;
        const char *device;
        bool follow;
        bool boot;
        bool has_range;    /* --since= or --until= was given */
        uint64_t since_us; /* 0: not given */
        uint64_t until_us; /* UINT64_MAX: not given */
        uint64_t min_ns;   /* 0: not given */
        uint64_t lines;    /* or iterations; UINT64_MAX: not given */
        uint64_t delay_ns;
} Options;

/* Exit codes, those of "systemctl status" where it has the case. */
enum {
        EXIT_NO_SUCH_UNIT = 4,
};

/* The verbs. argv[0] is the verb's name. They log what goes wrong and return the exit code, or a negative
 * errno. */
int verb_status(int argc, char **argv, const Options *o);
int verb_list(int argc, char **argv, const Options *o);
int verb_histogram(int argc, char **argv, const Options *o);
int verb_top(int argc, char **argv, const Options *o);
int verb_stalls(int argc, char **argv, const Options *o);
int verb_blame(int argc, char **argv, const Options *o);
int verb_trace(int argc, char **argv, const Options *o);
int verb_probes(int argc, char **argv, const Options *o);
int verb_metrics(int argc, char **argv, const Options *o);
