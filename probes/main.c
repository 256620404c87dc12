/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <ctype.h>
#include <getopt.h>

#include "calibrate.h"
#include "loader.h"
#include "log.h"

static int help(void) {
        printf("iolat-probes [OPTIONS...] load|unload|show|calibrate\n\n"
               "Load, attach and pin the BPF programs of iolat.\n\n"
               "Commands:\n"
               "  load               Load the programs, or replace older ones without a gap\n"
               "  unload             Detach and remove everything\n"
               "  show               Show what is attached\n"
               "  calibrate          Measure for a few seconds what the programs cost\n\n"
               "Options:\n"
               "  -h --help          Show this help\n"
               "     --version       Show the version\n"
               "     --bpffs=DIR     Where a bpf file system is mounted (default: " DEFAULT_BPFFS ")\n"
               "     --config=FILE   Read this configuration file only\n"
               "     --tier=TIER     auto, tracepoint, function or kprobe (default: as configured)\n"
               "     --force         Replace programs of this same build, too\n"
               "     --seconds=N     Calibrate for so long (default: 5)\n"
               "     --symbols-from-stdin\n"
               "                     Take what is open as standard input for /proc/kallsyms\n"
               "     --debug         Log more\n\n"
               "See the iolat-probes(8) man page for details.\n");

        return 0;
}

static int load(LoaderOptions *o, const char *config_file) {
        Config config;
        int r;

        r = config_load(&config, NULL, config_file);
        if (r < 0)
                return log_error_errno(r, "Cannot read the configuration%s%s: %m", config_file ? " " : "",
                                       strempty(config_file));
        if (!o->tier)
                o->tier = config_tier_to_string(config.tier);
        o->wanted = loader_wanted(&config);

        return loader_load(o);
}

static int parse_seconds(const char *s, unsigned *ret) {
        unsigned long n;
        char *end;

        if (!isdigit((unsigned char) s[0]))
                return -EINVAL;
        errno = 0;
        n = strtoul(s, &end, 10);
        if (errno != 0 || *end != 0 || n < 1 || n > CALIBRATE_SECONDS_MAX)
                return -EINVAL;
        *ret = n;

        return 0;
}

int main(int argc, char *argv[]) {
        enum { ARG_VERSION = 0x100, ARG_BPFFS, ARG_CONFIG, ARG_TIER, ARG_FORCE, ARG_SECONDS, ARG_SYMBOLS, ARG_DEBUG };
        static const struct option options[] = {
                { "help", no_argument, NULL, 'h' },
                { "version", no_argument, NULL, ARG_VERSION },
                { "bpffs", required_argument, NULL, ARG_BPFFS },
                { "config", required_argument, NULL, ARG_CONFIG },
                { "tier", required_argument, NULL, ARG_TIER },
                { "force", no_argument, NULL, ARG_FORCE },
                { "seconds", required_argument, NULL, ARG_SECONDS },
                { "symbols-from-stdin", no_argument, NULL, ARG_SYMBOLS },
                { "debug", no_argument, NULL, ARG_DEBUG },
                {},
        };
        LoaderOptions o = { .bpffs = DEFAULT_BPFFS };
        unsigned seconds = CALIBRATE_SECONDS_DEFAULT;
        const char *verb, *config_file = NULL;
        int c, r;

        log_setup("iolat-probes", LOG_INFO);
        while ((c = getopt_long(argc, argv, "h", options, NULL)) >= 0)
                switch (c) {
                case 'h':
                        return help();
                case ARG_VERSION:
                        printf("iolat %s\n", IOLAT_VERSION);
                        return 0;
                case ARG_BPFFS:
                        o.bpffs = optarg;
                        break;
                case ARG_CONFIG:
                        config_file = optarg;
                        break;
                case ARG_TIER:
                        o.tier = optarg;
                        break;
                case ARG_FORCE:
                        o.force = true;
                        break;
                case ARG_SECONDS:
                        if (parse_seconds(optarg, &seconds) < 0) {
                                log_error("--seconds= wants a number from 1 to %d, not '%s'.", CALIBRATE_SECONDS_MAX,
                                          optarg);
                                return EXIT_FAILURE;
                        }
                        break;
                case ARG_SYMBOLS:
                        o.symbols_from_stdin = true;
                        break;
                case ARG_DEBUG:
                        log_set_max_level(LOG_DEBUG);
                        break;
                default:
                        return EXIT_FAILURE;
                }

        if (optind + 1 != argc) {
                log_error("Exactly one command is needed: load, unload, show or calibrate.");
                return EXIT_FAILURE;
        }
        verb = argv[optind];
        if (streq(verb, "load"))
                r = load(&o, config_file);
        else if (streq(verb, "unload"))
                r = loader_unload(o.bpffs);
        else if (streq(verb, "show"))
                r = loader_show(o.bpffs);
        else if (streq(verb, "calibrate"))
                r = loader_calibrate(o.bpffs, seconds);
        else {
                log_error("Unknown command '%s': load, unload, show or calibrate.", verb);
                return EXIT_FAILURE;
        }

        return r < 0 ? EXIT_FAILURE : EXIT_SUCCESS;
}
