/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* What happened in one span of time: for each series that changed by how much, and who was to blame. */

#include "history-blame.h"
#include "history-dict.h"

typedef struct HistoryWindow {
        uint64_t start_us; /* CLOCK_REALTIME */
        uint64_t end_us;
        uint64_t seq; /* when it came, among all that is to be saved */
        bool coarse;
        uint8_t *data; /* entries by series' number, a series at most once */
        size_t size;
        uint8_t *blame;
        size_t blame_size;
} HistoryWindow;

typedef struct WindowEntry {
        uint64_t id; /* of the series */
        bool is_request;
        const uint8_t *numbers; /* encoded */
        size_t size;
} WindowEntry;

/* Walks a window's data; false at the end. */
bool window_next(Cursor *c, WindowEntry *ret);

/* Collects the entries of a window, in any order, each series at most once. */
typedef struct WindowBuilder {
        Buffer data;
        struct WindowPlace {
                uint64_t id;
                size_t offset;
                size_t size;
        } *places;
        size_t n;
        size_t n_allocated;
} WindowBuilder;

void window_builder_done(WindowBuilder *b);
/* Takes a reference to the series. */
int window_builder_add(WindowBuilder *b, HistorySeries *s, const uint8_t *numbers, size_t size);

/* Makes a window of what was collected, which is empty afterwards. References go over to the window. */
int window_new(HistoryWindow **ret, HistoryDict *d, WindowBuilder *b, BlameSet *blame);
/* Gives its references back. */
HistoryWindow *window_free(HistoryWindow *w, HistoryDict *d);

/* Adds another window, which is freed. On error both stay as they were. */
int window_merge(HistoryWindow *w, HistoryWindow *other, HistoryDict *d);

/* Bytes that it takes. */
size_t window_bytes(const HistoryWindow *w);
