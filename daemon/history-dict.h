/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* Names and series, each under a number that is never used again, as long as somebody refers to them. Numbers grow,
 * so that everything can be walked in the order in which it came. */

#include "history-codec.h"
#include "util.h"

enum {
        HISTORY_NAME_MAX = 512, /* bytes of a unit's name, with the NUL */
        ALLOCATION_OVERHEAD = 16, /* bytes that an allocation takes beyond its size */
};

typedef struct SeriesKey {
        const char *unit;
        const char *user_unit; /* NULL: none */
        bool is_request;
        bool async;
        uint8_t op; /* or kind of request */
        uint8_t origin;
        uint32_t dev;
} SeriesKey;

typedef struct HistoryName {
        uint64_t id;  /* from 1 */
        uint64_t seq; /* when it came, among all that is to be saved */
        uint64_t refs;
        char text[];
} HistoryName;

typedef struct HistorySeries {
        uint64_t id; /* from 1 */
        uint64_t seq;
        uint64_t refs; /* from windows */
        HistoryName *unit;
        HistoryName *user_unit; /* NULL: none */
        bool is_request;
        bool async;
        uint8_t op;
        uint8_t origin;
        uint32_t dev;
        bool present;          /* seen since the last history_drop_absent() */
        uint32_t baseline_size;
        uint8_t *baseline;     /* encoded numbers at the last tick; NULL: not known */
        uint64_t baseline_seq; /* when it was set other than by adding a window */
} HistorySeries;

typedef struct HistoryDict {
        void *names_by_text; /* tsearch */
        void *series_by_key;
        HistoryName **names; /* by id */
        HistorySeries **series;
        size_t n_names;
        size_t n_names_allocated;
        size_t n_series;
        size_t n_series_allocated;
        uint64_t last_name_id;
        uint64_t last_series_id;
        size_t bytes;          /* of everything */
        size_t baseline_bytes; /* of series that have a baseline, with them */
        uint64_t *seq;         /* borrowed counter, raised for each thing that is new */
} HistoryDict;

void history_dict_done(HistoryDict *d);

/* Finds or makes it, and adds a reference. */
int history_dict_name(HistoryDict *d, const char *text, HistoryName **ret);
void history_name_unref(HistoryName *n);

HistorySeries *history_dict_find(HistoryDict *d, const SeriesKey *key);
/* Without a reference: to be used before the next history_dict_collect(). */
int history_dict_series(HistoryDict *d, const SeriesKey *key, HistorySeries **ret);
SeriesKey history_series_key(const HistorySeries *s);

/* By number, NULL if there is none. */
HistorySeries *history_dict_series_by_id(HistoryDict *d, uint64_t id);
HistoryName *history_dict_name_by_id(HistoryDict *d, uint64_t id);
/* Position of the first series with a number of at least that. */
size_t history_dict_series_position(HistoryDict *d, uint64_t id);

/* Copies the bytes; NULL: forgets what was there. */
int history_series_set_baseline(HistoryDict *d, HistorySeries *s, const uint8_t *data, size_t size);

/* Bytes that a series takes, with its baseline. */
size_t history_series_bytes(const HistorySeries *s);

/* Frees what nobody refers to: series without windows and baseline, and names. */
void history_dict_collect(HistoryDict *d);
