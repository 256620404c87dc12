/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <getopt.h>
#include <malloc.h>
#include <sys/mman.h>

#include "bus-names.h"
#include "loader.h"
#include "log.h"
#include "manager.h"

enum {
        LARGE_ALLOCATION = 128 * 1024, /* bytes */
};

static int help(void) {
        printf("iolatd [OPTIONS...]\n\n"
               "Tell which service waits for storage, and in which layer.\n\n"
               "  -h --help             Show this help\n"
               "     --version          Show the version\n"
               "     --runtime-dir=DIR  Where to put the socket (default: $RUNTIME_DIRECTORY, " DEFAULT_RUNTIME_DIR ")\n"
               "     --state-dir=DIR    Where to keep the history (default: $STATE_DIRECTORY, " DEFAULT_STATE_DIR ")\n"
               "     --bpffs=DIR        Where a bpf file system is mounted (default: " DEFAULT_BPFFS ")\n"
               "     --config=FILE      Read this configuration file only\n"
               "     --tier=TIER        auto, tracepoint, function or kprobe (default: as configured)\n"
               "     --no-bus           Stay away from the system bus\n"
               "     --debug            Log more\n\n"
               "See the iolatd(8) man page for details.\n");

        return 0;
}

/* Returns 1 to go on, 0 if all is done. */
static int parse_argv(int argc, char *argv[], ManagerOptions *o) {
        enum { ARG_VERSION = 0x100, ARG_RUNTIME_DIR, ARG_STATE_DIR, ARG_BPFFS, ARG_CONFIG, ARG_TIER, ARG_NO_BUS,
               ARG_DEBUG };
        static const struct option options[] = {
                { "help", no_argument, NULL, 'h' },
                { "version", no_argument, NULL, ARG_VERSION },
                { "runtime-dir", required_argument, NULL, ARG_RUNTIME_DIR },
                { "state-dir", required_argument, NULL, ARG_STATE_DIR },
                { "bpffs", required_argument, NULL, ARG_BPFFS },
                { "config", required_argument, NULL, ARG_CONFIG },
                { "tier", required_argument, NULL, ARG_TIER },
                { "no-bus", no_argument, NULL, ARG_NO_BUS },
                { "debug", no_argument, NULL, ARG_DEBUG },
                {},
        };
        int c;

        while ((c = getopt_long(argc, argv, "h", options, NULL)) >= 0)
                switch (c) {
                case 'h':
                        return help();
                case ARG_VERSION:
                        printf("iolat %s\n", IOLAT_VERSION);
                        return 0;
                case ARG_RUNTIME_DIR:
                        o->runtime_dir = optarg;
                        break;
                case ARG_STATE_DIR:
                        o->state_dir = optarg;
                        break;
                case ARG_BPFFS:
                        o->bpffs = optarg;
                        break;
                case ARG_CONFIG:
                        o->config_file = optarg;
                        break;
                case ARG_TIER:
                        o->tier = optarg;
                        break;
                case ARG_NO_BUS:
                        o->no_bus = true;
                        break;
                case ARG_DEBUG:
                        log_set_max_level(LOG_DEBUG);
                        break;
                default:
                        return -EINVAL; /* getopt_long() has said it */
                }

        if (optind < argc)
                return log_error_errno(EINVAL, "This program takes no arguments, only options.");

        return 1;
}

int main(int argc, char *argv[]) {
        _cleanup_(manager_freep) Manager *m = NULL;
        ManagerOptions o = { .bpffs = DEFAULT_BPFFS };
        int r;

        log_setup("iolatd", LOG_INFO);
        /* Replies are large and rare: give their memory back, rather than keep it for the next one. */
        (void) mallopt(M_MMAP_THRESHOLD, LARGE_ALLOCATION);
        r = parse_argv(argc, argv, &o);
        if (r <= 0)
                return r < 0 ? EXIT_FAILURE : EXIT_SUCCESS;
        if (!o.runtime_dir)
                o.runtime_dir = secure_getenv("RUNTIME_DIRECTORY") ?: DEFAULT_RUNTIME_DIR;
        if (!o.state_dir)
                o.state_dir = secure_getenv("STATE_DIRECTORY") ?: DEFAULT_STATE_DIR;

        r = manager_new(&m, &o);
        if (r < 0)
                return EXIT_FAILURE;

        /* What the loop needs must not have to come from a disk that is stuck. */
        if (mlockall(MCL_CURRENT | MCL_FUTURE | MCL_ONFAULT) < 0)
                log_debug_errno(errno, "Cannot lock memory, ignoring: %m");
        r = manager_run(m);

        return r < 0 ? EXIT_FAILURE : EXIT_SUCCESS;
}
