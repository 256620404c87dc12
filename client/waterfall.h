/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "fields.h"

/* One line of a waterfall: a span and where its bar goes. */
typedef struct WaterfallLine {
        const Span *span; /* of the input */
        unsigned depth;   /* 0: inside no other */
        unsigned from;    /* columns, of width; at least one between them */
        unsigned to;
        uint64_t ns;      /* how much of it lies inside the operation */
} WaterfallLine;

enum {
        WATERFALL_DEPTH_MAX = 8, /* what is nested deeper is not indented further */
};

/* Lays out spans of an operation of total_ns to bars of so many columns: by start, outer ones before those inside
 * them. What lies outside of the operation is cut off, or left out if nothing remains. lines has room for n.
 * Returns how many there are. */
size_t waterfall_layout(const Span *spans, size_t n, uint64_t total_ns, unsigned width, WaterfallLine *lines);

/* The bar of a line. NULL if out of memory. */
char *waterfall_bar(const WaterfallLine *line, unsigned width);
