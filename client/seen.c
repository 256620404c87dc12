/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <errno.h>

#include "seen.h"

/* The start is computed from two clocks whenever an operation is found, and differs a little each time. */
#define START_TOLERANCE_US (500 * USEC_PER_MSEC)

enum {
        SEEN_MAX = 4096, /* more than the daemon keeps */
};

typedef struct SeenStall {
        uint64_t id;
        uint64_t start_us;
        uint64_t who; /* what does not change when the daemon is started anew */
        bool in_progress;
        bool is_stale; /* the number is that of a daemon before */
        bool is_listed; /* in this look */
} SeenStall;

struct Seen {
        SeenStall stalls[SEEN_MAX];
        size_t n;
        size_t n_looks; /* that are over */
        bool restarted;
        uint64_t first_end_us; /* when the last of those ended that the first look found to have ended */
};

int seen_new(Seen **ret) {
        Seen *s;

        s = calloc(1, sizeof(Seen));
        if (!s)
                return -ENOMEM;
        *ret = s;

        return 0;
}

Seen *seen_free(Seen *s) {
        free(s);

        return NULL;
}

static uint64_t who(const StallRow *row) {
        const uint64_t parts[] = {
                hash_bytes(strempty(row->unit), strlen(strempty(row->unit))),
                hash_bytes(strempty(row->op), strlen(strempty(row->op))),
                STALL_HAS(row, thread) ? (uint32_t) row->thread : 0,
        };

        return hash_bytes(parts, sizeof(parts));
}

static uint64_t distance(uint64_t a, uint64_t b) {
        return a > b ? a - b : b - a;
}

static SeenStall *find(Seen *s, const StallRow *row) {
        for (size_t i = s->n; i > 0; i--)
                if (s->stalls[i - 1].id == row->id && s->stalls[i - 1].start_us == row->start_us)
                        return &s->stalls[i - 1];

        return NULL;
}

/* The one of before that this seems to be under another number. */
static SeenStall *find_stale(Seen *s, const StallRow *row) {
        uint64_t nearest = START_TOLERANCE_US, is = who(row);
        SeenStall *best = NULL;

        for (size_t i = 0; i < s->n; i++) {
                SeenStall *p = &s->stalls[i];

                if (!p->is_stale || p->who != is || distance(p->start_us, row->start_us) >= nearest)
                        continue;
                nearest = distance(p->start_us, row->start_us);
                best = p;
        }

        return best;
}

static SeenStall *add(Seen *s) {
        if (s->n >= SEEN_MAX) { /* the older half is not remembered by the daemon either */
                memmove(s->stalls, s->stalls + SEEN_MAX / 2, SEEN_MAX / 2 * sizeof(SeenStall));
                s->n = SEEN_MAX / 2;
        }

        return &s->stalls[s->n++];
}

static uint64_t end_us(const StallRow *row) {
        return row->start_us + row->total_ns / NSEC_PER_USEC;
}

/* One that had been forgotten when we began, and was in the history. */
static bool is_old(const Seen *s, const StallRow *row) {
        return s->restarted && !stall_is_in_progress(row) && end_us(row) <= s->first_end_us;
}

void seen_begin(Seen *s) {
        for (size_t i = 0; i < s->n; i++)
                s->stalls[i].is_listed = false;
}

bool seen_note(Seen *s, const StallRow *row) {
        SeenStall *known = find(s, row) ?: find_stale(s, row);
        bool news = known ? known->in_progress && !stall_is_in_progress(row) : !is_old(s, row);

        if (s->n_looks == 0 && !stall_is_in_progress(row))
                s->first_end_us = MAX(s->first_end_us, end_us(row));
        if (!known)
                known = add(s);
        *known = (SeenStall){
                .id = row->id,
                .start_us = row->start_us,
                .who = who(row),
                .in_progress = stall_is_in_progress(row),
                .is_listed = true,
        };

        return news;
}

void seen_end(Seen *s) {
        /* What is not there any more neither ends nor goes on. */
        for (size_t i = 0; i < s->n; i++)
                if (!s->stalls[i].is_listed && !s->stalls[i].is_stale)
                        s->stalls[i].in_progress = false;
        s->n_looks++;
}

bool seen_any_in_progress(const Seen *s) {
        for (size_t i = 0; i < s->n; i++)
                if (s->stalls[i].in_progress)
                        return true;

        return false;
}

void seen_restarted(Seen *s) {
        for (size_t i = 0; i < s->n; i++)
                s->stalls[i].is_stale = s->stalls[i].in_progress;
        s->restarted = true;
}

void seen_settled(Seen *s) {
        for (size_t i = 0; i < s->n; i++) {
                s->stalls[i].in_progress = s->stalls[i].in_progress && !s->stalls[i].is_stale;
                s->stalls[i].is_stale = false;
        }
}
