/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include <systemd/sd-json.h>

/* Dispatchers of sd_json_dispatch() for parameters that may be null, which is as if they were not there. Those of
 * libsystemd 257 refuse that. */
int varlink_dispatch_number(const char *name, sd_json_variant *v, sd_json_dispatch_flags_t flags, void *userdata);
int varlink_dispatch_bool(const char *name, sd_json_variant *v, sd_json_dispatch_flags_t flags, void *userdata);
