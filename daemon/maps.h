/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "abi.h"
#include "util.h"

/* The pinned maps of the newest generation, as a process without any capability can read them. */
typedef struct Maps {
        const char *bpffs; /* borrowed */
        int root_fd;       /* BPFFS/iolat */
        int lock_fd;       /* tells a second daemon that we are here */
        unsigned generation;
        unsigned revision;
        int ops;
        int rqs;
        int names;
        int losses;
        int hits;
        int stalls;
        int settings;
        int meta;
        int probe_infos;
        int waits;
        int wait_head;
        int wait_tail;
        int blames;
        int handles;
        int ages;
        unsigned n_cpus; /* values in an element of hits */
        uint64_t *hits_buffer;
} Maps;

#define MAPS_NULL                                                                                                   \
        ((Maps){ .root_fd = -EBADF, .lock_fd = -EBADF, .ops = -EBADF, .rqs = -EBADF, .names = -EBADF,               \
                 .losses = -EBADF, .hits = -EBADF, .stalls = -EBADF, .settings = -EBADF, .meta = -EBADF,            \
                 .probe_infos = -EBADF, .waits = -EBADF, .wait_head = -EBADF, .wait_tail = -EBADF, .blames = -EBADF, .handles = -EBADF,                   \
                 .ages = -EBADF })

/* Opens everything and takes the daemon's lock. -ENOENT: nothing is loaded; -EBUSY: another daemon is there;
 * -EPROTO: what is loaded is of another ABI; else as pins_open(). */
int maps_open(Maps *m, const char *bpffs);

/* Opens the maps anew if there is a newer generation; returns 1 if so, or if probes have been added to the present one,
 * else 0. On error the old ones stay. */
int maps_refresh(Maps *m);

void maps_done(Maps *m);

/* Opens another map of the present generation; the caller closes it. */
int maps_open_more(const Maps *m, const char *name);

/* Calls back for each key that is in the map now, of any size up to 32 bytes; some may be seen twice if elements are
 * removed meanwhile. */
typedef int (*map_key_callback)(const void *key, void *userdata);
int maps_foreach_key(int fd, map_key_callback callback, void *userdata);

/* Hits of a probe on all CPUs. */
uint64_t maps_hits(Maps *m, enum probe probe);
uint64_t maps_loss(Maps *m, enum loss loss);

/* Events that the kernel skipped for a program of the generation, 0 if it is not there. Where the program has twins
 * only those can be lost that all of them missed: then it is an upper bound. */
uint64_t maps_misses(Maps *m, const char *program);
