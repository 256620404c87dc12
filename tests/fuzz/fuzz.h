/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "util.h"

/* What libFuzzer calls. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerInitialize(int *argc, char ***argv);
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned seed);
size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t max_size);

/* What must hold whatever the input is. */
#define fuzz_check(x)                                                                               \
        do {                                                                                        \
                if (!(x)) {                                                                         \
                        fprintf(stderr, "%s:%d: does not hold: %s\n", __FILE__, __LINE__, #x);      \
                        abort();                                                                    \
                }                                                                                   \
        } while (false)

/* The input as a string, cut at the first NUL, in a block of exactly its size. */
static inline _unused_ char *fuzz_string(const uint8_t *data, size_t size) {
        char *s = strndup((const char *) data ?: "", size);

        fuzz_check(s);
        return s;
}

/* Reads on; zeroes behind the end. */
typedef struct FuzzInput {
        const uint8_t *p;
        size_t size;
} FuzzInput;

static inline _unused_ uint64_t fuzz_number(FuzzInput *in, size_t bytes) {
        uint64_t v = 0;

        for (size_t i = 0; i < bytes && in->size > 0; i++, in->p++, in->size--)
                v |= (uint64_t) *in->p << (8 * i);

        return v;
}

static inline _unused_ FuzzInput fuzz_take(FuzzInput *in, size_t size) {
        FuzzInput part = { in->p, MIN(size, in->size) };

        in->p += part.size;
        in->size -= part.size;

        return part;
}
