/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "varlink-client.h"

/* Binds the methods of both interfaces. */
int varlink_bind_methods(sd_varlink_server *server);

/* Callbacks of sd-varlink; userdata is a VarlinkClient. */
int varlink_method_list_stalls(sd_varlink *link, sd_json_variant *parameters, sd_varlink_method_flags_t flags,
                               void *userdata);
int varlink_method_metrics_list(sd_varlink *link, sd_json_variant *parameters, sd_varlink_method_flags_t flags,
                                void *userdata);
int varlink_method_metrics_describe(sd_varlink *link, sd_json_variant *parameters, sd_varlink_method_flags_t flags,
                                    void *userdata);

/* Sends a stall, unless the listing that is under way will come to it; if not to be announced, counts that the client
 * missed it. */
int varlink_stalls_follow(VarlinkStream *s, const StallRow *stall, bool announce);
