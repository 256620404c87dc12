/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <errno.h>
#include <getopt.h>
#include <signal.h>
#include <sys/socket.h>
#include <systemd/sd-daemon.h>

#include "format.h"
#include "http.h"
#include "log.h"

#define EXIT_IDLE_DEFAULT (5 * 60 * USEC_PER_SEC)

enum {
        ARG_VERSION = 0x100,
        ARG_SOCKET,
        ARG_EXIT_IDLE_TIME,
};

typedef struct Arguments {
        Options options;
        uint64_t idle_us;
} Arguments;

static void help(void) {
        printf("%s [OPTIONS...]\n"
               "\n"
               "Serves the numbers of iolatd to Prometheus, on the sockets that systemd passes.\n"
               "\n"
               "  -h --help                  Show this help\n"
               "     --version               Show package version\n"
               "     --socket=PATH           Connect to this socket of iolatd\n"
               "     --exit-idle-time=TIME   Exit when nobody was connected for so long (default: 5min,\n"
               "                             \"infinity\": never)\n"
               "\n"
               "See the iolat-exporter section of the iolatd(8) man page for details.\n",
               program_invocation_short_name);
}

static int parse_idle_time(const char *value, uint64_t *ret) {
        uint64_t ns;

        if (streq(value, "infinity")) {
                *ret = UINT64_MAX;
                return 0;
        }
        if (parse_nsec(value, &ns) < 0 || ns < NSEC_PER_USEC) {
                log_error("The argument of --exit-idle-time= must be a time span above 0 or \"infinity\".");
                return -EINVAL;
        }
        *ret = ns / NSEC_PER_USEC;

        return 0;
}

/* Returns 0 if there is nothing more to do. */
static int parse_argv(int argc, char **argv, Arguments *a) {
        static const struct option options[] = {
                { "help", no_argument, NULL, 'h' },
                { "version", no_argument, NULL, ARG_VERSION },
                { "socket", required_argument, NULL, ARG_SOCKET },
                { "exit-idle-time", required_argument, NULL, ARG_EXIT_IDLE_TIME },
                {},
        };
        int c, r;

        while ((c = getopt_long(argc, argv, "h", options, NULL)) >= 0)
                switch (c) {
                case 'h':
                        help();
                        return 0;
                case ARG_VERSION:
                        puts("iolat " IOLAT_VERSION);
                        return 0;
                case ARG_SOCKET:
                        a->options.socket = optarg;
                        break;
                case ARG_EXIT_IDLE_TIME:
                        r = parse_idle_time(optarg, &a->idle_us);
                        if (r < 0)
                                return r;
                        break;
                default:
                        return -EINVAL;
                }
        if (optind < argc) {
                log_error("No arguments are expected.");
                return -EINVAL;
        }

        return 1;
}

static int take_sockets(int fds[static HTTP_SOCKETS_MAX]) {
        int n;

        n = sd_listen_fds(/* unset_environment= */ true);
        if (n < 0)
                return log_error_errno(n, "Cannot take the sockets that were passed: %m");
        if (n == 0) {
                log_error("No socket was passed: start iolat-exporter.socket, or use systemd-socket-activate.");
                return -ENOTCONN;
        }
        if (n > HTTP_SOCKETS_MAX) {
                log_error("More than %d sockets were passed.", HTTP_SOCKETS_MAX);
                return -E2BIG;
        }
        for (int i = 0; i < n; i++) {
                fds[i] = SD_LISTEN_FDS_START + i;
                if (sd_is_socket(fds[i], AF_UNSPEC, SOCK_STREAM, /* listening= */ 1) <= 0) {
                        log_error("What was passed is not a stream socket that listens (Accept= must be off).");
                        return -ENOTSOCK;
                }
        }

        return n;
}

static int setup_signals(sd_event *e) {
        sigset_t mask;
        int r;

        (void) signal(SIGPIPE, SIG_IGN);
        sigemptyset(&mask);
        sigaddset(&mask, SIGTERM);
        sigaddset(&mask, SIGINT);
        if (sigprocmask(SIG_BLOCK, &mask, NULL) < 0)
                return -errno;
        r = sd_event_add_signal(e, NULL, SIGTERM, NULL, NULL);

        return r < 0 ? r : sd_event_add_signal(e, NULL, SIGINT, NULL, NULL);
}

static int run(const Arguments *a) {
        _cleanup_(sd_event_unrefp) sd_event *e = NULL;
        _cleanup_(http_server_freep) HttpServer *server = NULL;
        int fds[HTTP_SOCKETS_MAX], n, r;

        n = take_sockets(fds);
        if (n < 0)
                return n;
        r = sd_event_new(&e);
        if (r >= 0)
                r = setup_signals(e);
        if (r < 0)
                return log_error_errno(r, "Cannot set up the event loop: %m");
        r = http_server_new(&server, e, fds, (size_t) n, &a->options, a->idle_us);
        if (r < 0)
                return r;

        (void) sd_notify(false, "READY=1");
        r = sd_event_loop(e);
        (void) sd_notify(false, "STOPPING=1");

        return r;
}

int main(int argc, char **argv) {
        Arguments a = { .idle_us = EXIT_IDLE_DEFAULT };
        int r;

        log_setup("iolat-exporter", LOG_INFO);
        r = parse_argv(argc, argv, &a);
        if (r > 0)
                r = run(&a);

        return r < 0 ? EXIT_FAILURE : r;
}
