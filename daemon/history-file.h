/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* The history as records of the state file. Pure. */

#include "history.h"
#include "state-file.h"

enum {
        /* Numbers are part of the format. */
        RECORD_NAME = 1,
        RECORD_SERIES = 2,
        RECORD_WINDOW = 3,  /* some of a window's entries */
        RECORD_BLAME = 4,   /* a window's blame */
        RECORD_NUMBERS = 5, /* from here on it is known where series count from */
        RECORD_BASELINE = 6, /* of one series; empty: none */
        RECORD_INCOMPLETE = 7,
        RECORD_TICK = 8, /* end of what was written in one go */
        RECORD_STALL = 9,

        FLAG_REQUEST = 1 << 0,
        FLAG_ASYNC = 1 << 1,
};

/* Called with pieces of what is to be written. */
typedef int (*history_sink)(const void *data, size_t size, void *userdata);

/* Writes either all, beginning with the file's header, or what came after h->saved_seq. The epoch names the counters
 * that the numbers were read from: only with the same ones can be counted on. */
int history_export(const History *h, uint64_t epoch, bool all, history_sink sink, void *userdata);

typedef struct HistoryIds {
        struct {
                uint64_t in_file;
                uint64_t here;
        } *ids; /* by the number in the file */
        size_t n;
        size_t n_allocated;
} HistoryIds;

/* Reading goes record by record, and takes whatever it is given. */
typedef struct HistoryImport {
        History *h;
        uint64_t epoch;
        bool late;           /* the history has gone on already: what is read goes before that */
        bool same_epoch;     /* what the file says about numbers holds for us */
        bool counting;       /* past the list of numbers: windows add to them */
        bool complete;       /* the list was there as a whole */
        HistoryIds names;
        HistoryIds series;
        size_t n_live;       /* windows that were there before */
} HistoryImport;

void history_import_begin(HistoryImport *im, History *h, uint64_t epoch);

/* Returns -EBADMSG if the record makes no sense, -E2BIG if there is much more than the maximum; then the rest should
 * not be read. */
int history_import_record(HistoryImport *im, const uint8_t *contents, size_t size);

/* Frees what the import needed, settles the history. Returns whether the numbers of all series at the last tick are
 * known: then a series that is not is one that came later. */
bool history_import_end(HistoryImport *im, uint64_t now_us);
