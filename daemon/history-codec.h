/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* The compact form of numbers, in memory and in the state file: variable-length integers, and of histograms only
 * the buckets that are not empty. Pure; everything that is decoded may come from a file that somebody damaged.
 *
 * What is encoded outlives the daemon: numbers of buckets, phases and steps must keep their meaning, or
 * STATE_FILE_VERSION has to change. More phases, steps and methods at the end are no problem. */

#include "abi.h"
#include "util.h"

enum {
        VARINT_MAX = 10,               /* bytes */
        ENCODED_VALUE_MAX = 12 * 1024, /* bytes of an encoded op_value or rq_value, at most */
};

/* Grows as needed. After the first failure to do so nothing more is added, and error is set. */
typedef struct Buffer {
        uint8_t *data;
        size_t size;
        size_t n_allocated;
        int error; /* 0 or -ENOMEM */
} Buffer;

void buffer_done(Buffer *b);
void buffer_put(Buffer *b, const void *data, size_t size);
void buffer_put_varint(Buffer *b, uint64_t v);
/* A length and that many bytes. */
void buffer_put_string(Buffer *b, const char *s);

/* Reads on from p, never beyond end. After the first thing that is wrong everything is 0, and error is set. */
typedef struct Cursor {
        const uint8_t *p;
        const uint8_t *end;
        int error; /* 0 or -EBADMSG */
} Cursor;

static inline Cursor cursor(const uint8_t *data, size_t size) {
        return (Cursor){ .p = data, .end = data ? data + size : NULL };
}

int cursor_fail(Cursor *c);
uint64_t cursor_varint(Cursor *c);
/* A number that must not be above max. */
uint64_t cursor_number(Cursor *c, uint64_t max);
/* What the next size bytes are, NULL if there are not that many. */
const uint8_t *cursor_bytes(Cursor *c, size_t size);
/* Copies a string into buf; it is an error if it does not fit or holds a NUL. */
void cursor_string(Cursor *c, char *buf, size_t size);

void op_value_encode(Buffer *b, const struct op_value *v);
void rq_value_encode(Buffer *b, const struct rq_value *v);

/* Add what is encoded to *v, as op_value_add() and rq_value_add() do. Return -EBADMSG, with *v in no certain state, if
 * the bytes are not exactly one value. */
int op_value_decode_add(const uint8_t *data, size_t size, struct op_value *v);
int rq_value_decode_add(const uint8_t *data, size_t size, struct rq_value *v);

/* What came since *before. The largest time of what came is exact if it is the largest ever; else it is the upper
 * edge of the highest bucket that grew, but not above the largest ever. Return false if a number went down: then
 * *now is not a continuation of *before. */
bool op_value_diff(const struct op_value *now, const struct op_value *before, struct op_value *ret);
bool rq_value_diff(const struct rq_value *now, const struct rq_value *before, struct rq_value *ret);
