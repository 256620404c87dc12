/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include <dirent.h>
#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define ELEMENTSOF(x) (sizeof(x) / sizeof((x)[0]))
#define STRLEN(x) (sizeof("" x "") - sizeof(typeof(x[0])))
#define MIN(a, b) ((a) < (b) ? (a) : (b))
#define MAX(a, b) ((a) > (b) ? (a) : (b))

#define NSEC_PER_USEC ((uint64_t) 1000)
#define NSEC_PER_MSEC ((uint64_t) 1000000)
#define NSEC_PER_SEC ((uint64_t) 1000000000)
#define USEC_PER_MSEC ((uint64_t) 1000)
#define USEC_PER_SEC ((uint64_t) 1000000)

#define _cleanup_(f) __attribute__((cleanup(f)))
#define _printf_(a, b) __attribute__((format(printf, a, b)))
#define _unused_ __attribute__((unused))
#define _pure_ __attribute__((pure))

/* Defines funcp(), for _cleanup_, out of a destructor that accepts and returns NULL. */
#define DEFINE_CLEANUP_FUNC(type, func)              \
        static inline _unused_ void func##p(type **p) { \
                if (*p)                              \
                        *p = func(*p);               \
        }

static inline void freep(void *p) {
        free(*(void **) p);
}

static inline void closep(int *fd) {
        if (*fd >= 0)
                close(*fd);
}

static inline void fclosep(FILE **f) {
        if (*f)
                fclose(*f);
}

static inline void closedirp(DIR **d) {
        if (*d)
                closedir(*d);
}

#define _cleanup_free_ _cleanup_(freep)
#define _cleanup_close_ _cleanup_(closep)
#define _cleanup_fclose_ _cleanup_(fclosep)
#define _cleanup_closedir_ _cleanup_(closedirp)

/* Hands a pointer (or fd) over and leaves NULL (or -EBADF) behind. */
#define TAKE_PTR(p)                    \
        ({                             \
                typeof(p) _taken = (p); \
                (p) = NULL;            \
                _taken;                \
        })
static inline int take_fd(int *fd) {
        int r = *fd;

        *fd = -EBADF;
        return r;
}

static inline bool streq(const char *a, const char *b) {
        return strcmp(a, b) == 0;
}

static inline bool isempty(const char *s) {
        return !s || !*s;
}

static inline const char *strempty(const char *s) {
        return s ?: "";
}

/* What follows the prefix, NULL if s does not start with it. */
static inline const char *startswith(const char *s, const char *prefix) {
        size_t n = strlen(prefix);

        return strncmp(s, prefix, n) == 0 ? s + n : NULL;
}

/* Where the suffix begins in s, NULL if s does not end with it. */
static inline const char *endswith(const char *s, const char *suffix) {
        size_t n = strlen(s), m = strlen(suffix);

        return n >= m && streq(s + n - m, suffix) ? s + n - m : NULL;
}

/* CLOCK_MONOTONIC, the clock of all time stamps of the BPF programs. */
static inline uint64_t now_ns(void) {
        struct timespec ts;

        (void) clock_gettime(CLOCK_MONOTONIC, &ts);
        return (uint64_t) ts.tv_sec * NSEC_PER_SEC + (uint64_t) ts.tv_nsec;
}

/* FNV-1a, for what has to be told apart and not to be protected. */
static inline uint64_t hash_bytes(const void *p, size_t n) {
        const unsigned char *c = p;
        uint64_t h = 0xcbf29ce484222325;

        for (; n > 0; n--, c++)
                h = (h ^ *c) * 0x100000001b3;

        return h;
}
/* Makes room for one more element in an array of n; doubles it when it is full. -ENOMEM. */
static inline int array_reserve(void **array, size_t *n_allocated, size_t n, size_t size) {
        size_t m = MAX(*n_allocated * 2, (size_t) 4);
        void *p;

        if (n < *n_allocated)
                return 0;
        p = reallocarray(*array, m, size);
        if (!p)
                return -ENOMEM;
        *array = p;
        *n_allocated = m;

        return 0;
}
