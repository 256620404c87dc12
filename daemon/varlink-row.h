/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include <systemd/sd-json.h>

#include "query.h"

/* Build JSON of what the queries tell, with the keys of the interface. */

int varlink_row(const Row *row, sd_json_variant **ret);
int varlink_blamed(const BlamedRow *row, sd_json_variant **ret);
int varlink_probe(const ProbeRow *probe, sd_json_variant **ret);

/* file, pid, thread and comm only if privileged. */
int varlink_stall(const StallRow *stall, bool privileged, sd_json_variant **ret);

/* A string made of text from outside, or null. */
int varlink_text(const char *s, sd_json_variant **ret);
