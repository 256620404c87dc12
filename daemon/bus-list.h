/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "bus-context.h"

/* List(), ListBuckets() and ListRange() of org.iolat1.Manager. */
int bus_method_list(sd_bus_message *call, void *userdata, sd_bus_error *reterr_error);
int bus_method_list_buckets(sd_bus_message *call, void *userdata, sd_bus_error *reterr_error);
int bus_method_list_range(sd_bus_message *call, void *userdata, sd_bus_error *reterr_error);

/* Whether there is an operation or kind of request, a phase or part of a request, of that name. */
bool bus_is_op(const char *s);
bool bus_is_phase(const char *s);
