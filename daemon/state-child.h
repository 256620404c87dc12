/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* Work on a disk, done by a child process, so that only that one hangs when the disk does. One at a time: as long as
 * a child is there, even if it does not die when it is killed, no other is started. */

#include <systemd/sd-event.h>

#include "util.h"

typedef struct StateChild StateChild;

typedef struct StateChildCallbacks {
        /* In the child, which has nothing open but fd. Returns 0 or a negative errno, no smaller than -120. */
        int (*work)(int fd, void *userdata);
        /* In the daemon: something of what the child wrote to fd. */
        void (*data)(const void *data, size_t size, void *userdata);
        /* The child is gone, and all its data has been handed over. What it returned; -ETIMEDOUT if it was killed
         * because it took too long, -ECANCELED if it died otherwise. */
        void (*done)(int result, void *userdata);
        /* It takes too long: it was killed, and may or may not die now. */
        void (*late)(void *userdata);
} StateChildCallbacks;

/* SIGCHLD must be blocked. */
int state_child_new(StateChild **ret, sd_event *e, uint64_t limit_us);
/* A child that is still there is killed, and not waited for. */
StateChild *state_child_free(StateChild *c);
DEFINE_CLEANUP_FUNC(StateChild, state_child_free)

bool state_child_busy(const StateChild *c);

/* Returns -EBUSY if one is there already. The callbacks must live as long as it does. */
int state_child_start(StateChild *c, const StateChildCallbacks *callbacks, void *userdata);

/* Waits outside of the event loop until it is done, not past the deadline (CLOCK_MONOTONIC). -ETIMEDOUT if it is
 * not done by then. */
int state_child_wait(StateChild *c, uint64_t deadline_ns);
