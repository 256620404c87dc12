/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "varlink-client.h"
#include "varlink-idl.h"

int varlink_stream_new(VarlinkClient *c, sd_varlink *link, sd_json_variant *parameters, varlink_stream_fill fill,
                       void (*free_state)(void *state), void *state) {
        VarlinkStream *s = calloc(1, sizeof(*s));

        if (!s) {
                free_state(state);
                return -ENOMEM;
        }
        *s = (VarlinkStream){
                .link = sd_varlink_ref(link),
                .parameters = sd_json_variant_ref(parameters),
                .fill = fill,
                .manager = c->manager,
                .privileged = c->uid == 0,
                .free_state = free_state,
                .state = state,
        };
        c->stream = s; /* a client has one call under way at a time */

        return 0;
}

VarlinkStream *varlink_stream_free(VarlinkStream *s) {
        if (!s)
                return NULL;
        s->free_state(s->state);
        sd_json_variant_unref(s->held);
        sd_json_variant_unref(s->parameters);
        sd_varlink_unref(s->link);
        free(s);

        return NULL;
}

int varlink_stream_add(VarlinkStream *s, sd_json_variant *reply) {
        int r = 0;

        if (s->held)
                r = sd_varlink_notify(s->link, s->held);
        sd_json_variant_unref(s->held);
        s->held = sd_json_variant_ref(reply);

        return r;
}

/* libsystemd before 261 cannot end a series of replies but with a reply. */
static int finish(VarlinkStream *s) {
        if (!s->held)
                return sd_varlink_error(s->link, VARLINK_ERROR_NO_ENTRIES, NULL);

        return sd_varlink_reply(s->link, s->held);
}

int varlink_stream_run(VarlinkStream *s) {
        int r;

        r = s->fill(s);
        if (r < 0) {
                (void) sd_varlink_error_errno(s->link, r);
                return 0;
        }
        if (r == 0) {
                r = finish(s);
                /* The error that is sent is the result of sd_varlink_error(). */
                return !s->held || r >= 0 ? 0 : r;
        }
        if (s->waiting && s->held) {
                r = sd_varlink_notify(s->link, s->held);
                s->held = sd_json_variant_unref(s->held);
        }

        return r < 0 ? r : 1;
}
