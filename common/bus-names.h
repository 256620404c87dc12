/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#define BUS_NAME "org.iolat1"
#define BUS_PATH "/org/iolat1"
#define BUS_UNIT_PREFIX "/org/iolat1/unit"
#define BUS_INTERFACE_MANAGER "org.iolat1.Manager"
#define BUS_INTERFACE_UNIT "org.iolat1.Unit"

#define BUS_ERROR_NO_SUCH_UNIT "org.iolat1.Error.NoSuchUnit"
#define BUS_ERROR_NO_SUCH_PROCESS "org.iolat1.Error.NoSuchProcess"
#define BUS_ERROR_BAD_RANGE "org.iolat1.Error.BadRange"
#define BUS_ERROR_TOO_MANY "org.iolat1.Error.TooMany"

/* An element of ListHistograms(): unit, operation or kind, device, origin, errors, bytes, histograms. Each of these:
 * phase or part, sum in ns, buckets. */
#define BUS_METRIC_HISTOGRAM "stat"
#define BUS_METRIC_SERIES "sssstta(" BUS_METRIC_HISTOGRAM ")"

#define DEFAULT_RUNTIME_DIR "/run/iolat"
#define DEFAULT_STATE_DIR "/var/lib/iolat"
#define PEER_SOCKET_NAME "bus"

#define VARLINK_INTERFACE "org.iolat.Manager"
#define VARLINK_SOCKET_NAME VARLINK_INTERFACE
#define VARLINK_METRICS_PREFIX "org.iolat."

/* Of sockets that the service manager passes. */
#define VARLINK_FD_NAME "varlink"
#define VARLINK_METRICS_FD_NAME "varlink-metrics"

enum {
        LIST_ROWS_MAX = 1000, /* rows in one reply of List(), whatever the caller asks for */
};
