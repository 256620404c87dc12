/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* The test workload: what all its files share. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum Engine {
        ENGINE_SYNC,
        ENGINE_URING,
        ENGINE_AIO,
        _ENGINE_MAX,
} Engine;

typedef enum Kind {
        KIND_FSYNC,
        KIND_FDATASYNC,
        KIND_MSYNC,
        KIND_OSYNC,
        KIND_ODSYNC,
        KIND_RWF_DSYNC,
        KIND_SYNCRANGE,
        KIND_FSYNC_DIR,
        KIND_SYNC,
        KIND_SYNCFS,
        KIND_DREAD,
        KIND_DWRITE,
        KIND_WRITE,
        _KIND_MAX,
} Kind;

typedef struct Options {
        Kind kind;
        Engine engine;
        const char *path;
        const char *cgroup;
        unsigned count;   /* operations of each thread */
        unsigned threads;
        unsigned depth;   /* operations in flight of a thread, for the asynchronous engines */
        unsigned rate;    /* operations a second of each thread, 0: as fast as possible */
        size_t write;     /* bytes written before each operation, 0: none */
        size_t block;     /* bytes of an operation that itself reads or writes */
        size_t prepare;   /* the file is filled with that much, and synced, before the cgroup is entered */
        bool append;
        bool direct;
        bool barrier;
        bool ignore_errors; /* count the operations that fail and go on */
} Options;

typedef struct Worker {
        const Options *options;
        unsigned index;
        int fd;            /* what is operated on */
        int write_fd;      /* what --write= writes to */
        char *buffer;      /* aligned; MAX(block, write) bytes */
        void *map;         /* for msync */
        uint64_t position; /* of the next write */
        uint64_t file_size;
        uint64_t *samples; /* nanoseconds of each operation */
        unsigned n_samples;
        unsigned errors;
        void *engine;
} Worker;

uint64_t now_nsec(void);
const char *kind_to_string(Kind k);
const char *engine_to_string(Engine e);
int parse_options(int argc, char **argv, Options *o);

/* One operation of the chosen engine or, where it can do that, up to n of them at once. Returns how many were
 * done, or a negative errno if the engine itself failed. Results of single operations go to record(). */
int engine_open(Worker *w);
int engine_step(Worker *w, unsigned n);
void engine_close(Worker *w);

/* Takes the result (negative: errno) and duration of one operation. */
int record(Worker *w, uint64_t start, uint64_t end, int64_t result);

/* Where the next operation reads or writes. */
uint64_t next_offset(Worker *w, size_t size);
