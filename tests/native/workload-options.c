/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "workload.h"

static const char *const kind_table[_KIND_MAX] = {
        [KIND_FSYNC] = "fsync",
        [KIND_FDATASYNC] = "fdatasync",
        [KIND_MSYNC] = "msync",
        [KIND_OSYNC] = "osync",
        [KIND_ODSYNC] = "odsync",
        [KIND_RWF_DSYNC] = "rwf-dsync",
        [KIND_SYNCRANGE] = "syncrange",
        [KIND_FSYNC_DIR] = "fsync-dir",
        [KIND_SYNC] = "sync",
        [KIND_SYNCFS] = "syncfs",
        [KIND_DREAD] = "dread",
        [KIND_DWRITE] = "dwrite",
        [KIND_WRITE] = "write",
};

static const char *const engine_table[_ENGINE_MAX] = {
        [ENGINE_SYNC] = "sync",
        [ENGINE_URING] = "uring",
        [ENGINE_AIO] = "aio",
};

const char *kind_to_string(Kind k) {
        return kind_table[k];
}

const char *engine_to_string(Engine e) {
        return engine_table[e];
}

static int parse_number(const char *name, const char *s, uint64_t *ret) {
        static const char suffixes[] = "KMG";
        char *end;

        errno = 0;
        *ret = strtoull(s, &end, 10);
        for (size_t i = 0; *end && i < strlen(suffixes); i++)
                if (*end == suffixes[i] && !end[1]) {
                        *ret <<= 10 * (i + 1);
                        end++;
                        break;
                }
        if (errno != 0 || end == s || *end || *s == '-' || *ret > UINT32_MAX) {
                fprintf(stderr, "iolat-workload: %s: not a number in range: %s\n", name, s);
                return -EINVAL;
        }
        return 0;
}

static int lookup(const char *const *table, size_t n, const char *s) {
        for (size_t i = 0; i < n; i++)
                if (strcmp(table[i], s) == 0)
                        return (int) i;
        fprintf(stderr, "iolat-workload: unknown: %s\n", s);
        return -EINVAL;
}

static void usage(FILE *f) {
        fprintf(f,
                "iolat-workload [OPTION...] KIND PATH\n\n"
                "KIND is fsync, fdatasync, msync, osync, odsync, rwf-dsync, syncrange, dread, dwrite or write (PATH is a\n"
                "file, with several threads PATH.0, PATH.1 ...), fsync-dir, sync or syncfs (PATH is a directory).\n\n"
                "  --count=N           operations of each thread (1)\n"
                "  --threads=N         threads (1)\n"
                "  --engine=sync|uring|aio\n"
                "  --depth=N           operations in flight of a thread, if asynchronous (1)\n"
                "  --rate=N            operations a second of each thread (0: no limit)\n"
                "  --write=BYTES       written before each operation (0)\n"
                "  --clean             nothing is written before (the default)\n"
                "  --pattern=append|overwrite (overwrite)\n"
                "  --block=BYTES       size of an operation that itself transfers (4096)\n"
                "  --direct            O_DIRECT\n"
                "  --prepare=BYTES     fill the file first, before the cgroup is entered\n"
                "  --cgroup=DIR        move there before anything is opened\n"
                "  --barrier           say \"ready\", wait for a line on stdin\n"
                "  --ignore-errors     count operations that fail and go on\n");
}

int parse_options(int argc, char **argv, Options *o) {
        static const char *const names[] = { "count", "threads", "depth", "rate", "write", "block", "prepare" };
        static const struct option options[] = {
                { "count", required_argument, NULL, 0 },     { "threads", required_argument, NULL, 1 },
                { "depth", required_argument, NULL, 2 },     { "rate", required_argument, NULL, 3 },
                { "write", required_argument, NULL, 4 },     { "block", required_argument, NULL, 5 },
                { "prepare", required_argument, NULL, 6 },   { "engine", required_argument, NULL, 'e' },
                { "pattern", required_argument, NULL, 'p' }, { "cgroup", required_argument, NULL, 'c' },
                { "clean", no_argument, NULL, 'C' },         { "direct", no_argument, NULL, 'd' },
                { "barrier", no_argument, NULL, 'b' },       { "ignore-errors", no_argument, NULL, 'i' },
                { "help", no_argument, NULL, 'h' },          { NULL, 0, NULL, 0 },
        };
        uint64_t number[7] = { 1, 1, 1, 0, 0, 4096, 0 };
        int c, r;

        while ((c = getopt_long(argc, argv, "h", options, NULL)) >= 0)
                switch (c) {
                case 0 ... 6:
                        r = parse_number(names[c], optarg, &number[c]);
                        if (r < 0)
                                return r;
                        break;
                case 'e':
                        r = lookup(engine_table, _ENGINE_MAX, optarg);
                        if (r < 0)
                                return r;
                        o->engine = (Engine) r;
                        break;
                case 'p':
                        o->append = strcmp(optarg, "append") == 0;
                        if (!o->append && strcmp(optarg, "overwrite") != 0)
                                return lookup(NULL, 0, optarg);
                        break;
                case 'c':
                        o->cgroup = optarg;
                        break;
                case 'C':
                        number[4] = 0;
                        break;
                case 'd':
                        o->direct = true;
                        break;
                case 'b':
                        o->barrier = true;
                        break;
                case 'i':
                        o->ignore_errors = true;
                        break;
                case 'h':
                        usage(stdout);
                        exit(EXIT_SUCCESS);
                default:
                        return -EINVAL;
                }
        if (argc - optind != 2) {
                usage(stderr);
                return -EINVAL;
        }
        r = lookup(kind_table, _KIND_MAX, argv[optind]);
        if (r < 0)
                return r;

        o->kind = (Kind) r;
        o->path = argv[optind + 1];
        o->count = (unsigned) number[0];
        o->threads = (unsigned) number[1];
        o->depth = (unsigned) number[2];
        o->rate = (unsigned) number[3];
        o->write = number[4];
        o->block = number[5];
        o->prepare = number[6];
        if (o->threads == 0 || o->depth == 0 || o->block == 0) {
                fprintf(stderr, "iolat-workload: threads, depth and block must not be 0\n");
                return -EINVAL;
        }
        return 0;
}
