/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include <systemd/sd-event.h>

#include "options.h"
#include "util.h"

enum {
        HTTP_SOCKETS_MAX = 4,      /* to listen on */
        HTTP_CONNECTIONS_MAX = 32, /* at once, on each of them; others wait */
        HTTP_REQUEST_SEC = 5,      /* from the connection to the end of the request */
        HTTP_RESPONSE_SEC = 30,    /* to take the response */
        HTTP_MEMORY_MAX = 16384,   /* bytes of one request */
};

/* Serves GET /metrics, one request a connection. */
typedef struct HttpServer HttpServer;

/* Listens on sockets that are bound already. The options, which say where the daemon is, are borrowed. The event
 * loop is ended when nobody was connected for so long (UINT64_MAX: never). Logs its errors. */
int http_server_new(HttpServer **ret, sd_event *e, const int *fds, size_t n_fds, const Options *o, uint64_t idle_us);
HttpServer *http_server_free(HttpServer *s);
DEFINE_CLEANUP_FUNC(HttpServer, http_server_free)
