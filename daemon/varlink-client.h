/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include <sys/types.h>
#include <systemd/sd-json.h>
#include <systemd/sd-varlink.h>

#include "query.h"
#include "util.h"

/* A method call that is answered with many replies: a few at a time, and no more until the client has taken them, so
 * that a slow client holds next to nothing of ours. */
typedef struct VarlinkStream VarlinkStream;

/* Gives varlink_stream_add() the next few replies. Returns more than 0 if there may be more, 0 if that was all. */
typedef int (*varlink_stream_fill)(VarlinkStream *s);

struct VarlinkStream {
        sd_varlink *link;
        sd_json_variant *parameters; /* of the call: strings in state may be theirs */
        sd_json_variant *held;       /* the last reply, until it is known whether it is the final one */
        varlink_stream_fill fill;
        Manager *manager;
        bool privileged;
        bool follow;  /* it is told of new stalls */
        bool waiting; /* nothing to do until there is one */
        void (*free_state)(void *state);
        void *state;
};

/* One connection: the userdata of its sd_varlink, and so of all method callbacks. */
typedef struct VarlinkClient {
        Manager *manager;
        uid_t uid;
        VarlinkStream *stream; /* under way */
} VarlinkClient;

/* To be called by a method callback, which then returns 0; the state is taken over in any case. */
int varlink_stream_new(VarlinkClient *c, sd_varlink *link, sd_json_variant *parameters, varlink_stream_fill fill,
                       void (*free_state)(void *state), void *state);
VarlinkStream *varlink_stream_free(VarlinkStream *s);

/* Adds a reply. */
int varlink_stream_add(VarlinkStream *s, sd_json_variant *reply);

/* Sends the next few replies. Returns 0 if that was all: then the call has been answered. */
int varlink_stream_run(VarlinkStream *s);

/* Replies that a stream sends at a time. */
enum { VARLINK_SLICE = 32 };
