/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "timespan.h"
#include "util.h"

enum config_tier {
        CONFIG_TIER_AUTO,
        CONFIG_TIER_TRACEPOINT,
        CONFIG_TIER_FUNCTION,
        CONFIG_TIER_KPROBE,
        _CONFIG_TIER_MAX,
};
const char *config_tier_to_string(int tier); /* NULL if it is none */
int config_tier_from_string(const char *s);  /* -EINVAL if it is none */

/* The contents of iolatd.conf. Times in ns; TIMESPAN_INFINITY where a threshold is switched off. */
typedef struct Config {
        /* [Daemon] */
        enum config_tier tier;
        bool op_write;       /* Operations= */
        bool op_read;
        bool dirty_tracking;
        uint64_t max_units; /* units that are kept apart; the rest is (others) and (exited) */
        uint64_t history_max_bytes;
        /* [Stall] */
        uint64_t fsync_record_ns; /* never above the threshold of the alert: what is alerted is recorded */
        uint64_t fsync_alert_ns;
        uint64_t write_record_ns;
        uint64_t write_alert_ns;
        uint64_t alert_burst; /* alerts within an interval */
        uint64_t alert_interval_ns;
        /* [Metrics] */
        uint64_t max_series; /* time series that an exporter may make of the numbers */
} Config;

void config_init(Config *c);

/* Reads the configuration over the defaults. With a file, that one alone, which must exist; else main file and
 * drop-ins below dirs (NULL-terminated, the most important first; NULL: the usual places). What is wrong inside
 * of a file, or a file that cannot be read, is logged as a warning with its place, and the rest is used.
 * Returns a negative errno, not logged, if there is no configuration: the given file cannot be read, or out of
 * memory. *c is complete in any case. */
int config_load(Config *c, const char *const *dirs, const char *file);

/* A boolean, and a threshold of [Stall], as they are written there. -EINVAL if it is none, -ERANGE if it is not within
 * 1us to 1d or infinity. */
int config_parse_bool(const char *s, bool *ret);
int config_parse_threshold(const char *s, uint64_t *ret_ns);
