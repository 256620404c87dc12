/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "abi.h"
#include "util.h"

/* What iolat's own programs add to what it measures: of each operation the run time of the programs between its two
 * time stamps, as far as it can be told whose they are. See iolat(7), WHAT MEASURING COSTS. */

typedef struct BiasProbe {
        uint64_t hits;
        bool is_function; /* attached to a function, not to a tracepoint */
        bool known;       /* the rest is */
        double enter_ns;  /* per hit */
        double exit_ns;
        double twin_ns;
        double run_ns; /* all of them, per run of the first */
} BiasProbe;

typedef struct BiasOp {
        uint64_t everything; /* operations, those of loop devices included */
        uint64_t everything_in_phase[_PHASE_MAX];
        /* Without them: */
        uint64_t count;
        uint64_t in_phase[_PHASE_MAX]; /* that spent time in it */
        uint64_t in_commit; /* that waited for a commit of jbd2 */
        uint64_t requests;
        uint64_t p50_ns;
} BiasOp;

typedef struct BiasRequest {
        uint64_t count;
        uint64_t p50_queue_ns;
        uint64_t p50_device_ns;
} BiasRequest;

typedef struct BiasInput {
        BiasProbe probe[_PROBE_MAX];
        BiasOp op[_OP_MAX];
        BiasRequest rq[_RQ_KIND_MAX];
        uint64_t journal_requests; /* of the journals' own */
} BiasInput;

typedef struct Bias {
        const char *op;    /* "fsync", "rq-write" */
        const char *phase; /* "total"; of requests "queue" or "device" */
        double added_ns;
        uint64_t p50_ns;
} Bias;

enum { BIAS_MAX = _OP_MAX + 2 * _RQ_KIND_MAX };

/* Returns how many. One for which too much is not known is left out. */
size_t bias_compute(const BiasInput *in, Bias ret[static BIAS_MAX]);
