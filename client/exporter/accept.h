/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "openmetrics.h"

/* The format that a client prefers, by its header "Accept" (NULL: it sent none), which can be anything. */
MetricFormat accept_negotiate(const char *accept);
