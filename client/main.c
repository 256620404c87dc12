/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <errno.h>
#include <getopt.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>

#include "format.h"
#include "log.h"
#include "names.h"
#include "options.h"
#include "pager.h"
#include "rows.h"
#include "term.h"
#include "text.h"
#include "timespan.h"
#include "timestamp.h"

typedef enum VerbFlags {
        VERB_RANGE = 1 << 0,  /* takes --since= and --until= */
        VERB_FOLLOW = 1 << 1, /* takes --follow */
        VERB_LINES = 1 << 2,  /* takes --lines= or, which is the same, --iterations= */
} VerbFlags;

typedef struct Verb {
        const char *name;
        int min_args, max_args; /* without the verb itself */
        int (*run)(int argc, char **argv, const Options *o);
        VerbFlags flags;
} Verb;

static const Verb verbs[] = {
        { "status", 0, INT_MAX, verb_status, VERB_RANGE },
        { "list", 0, INT_MAX, verb_list, VERB_RANGE },
        { "histogram", 1, 1, verb_histogram },
        { "top", 0, 0, verb_top, VERB_LINES },
        { "stalls", 0, INT_MAX, verb_stalls, VERB_RANGE | VERB_FOLLOW | VERB_LINES },
        { "blame", 0, INT_MAX, verb_blame, VERB_RANGE | VERB_LINES },
        { "trace", 0, 1, verb_trace, VERB_LINES },
        { "probes", 0, 0, verb_probes },
        { "metrics", 0, 0, verb_metrics },
};

enum {
        ARG_VERSION = 0x100,
        ARG_JSON,
        ARG_BY,
        ARG_MIN,
        ARG_NO_LEGEND,
        ARG_NO_PAGER,
        ARG_SOCKET,
        ARG_OP,
        ARG_PHASE,
        ARG_DEVICE,
        ARG_BOOT,
        ARG_BATCH,
};

static void options_clear(Options *o) {
        o->ops = strv_free(o->ops);
        o->phases = strv_free(o->phases);
}

static void help(void) {
        printf("%s [OPTIONS...] COMMAND ...\n"
               "\n"
               "%sShow which service is waiting for storage, in which layer, and for how long.%s\n"
               "\n"
               "%sCommands:%s\n"
               "  status [UNIT|PID...]   Show a summary, or the waits of units (default)\n"
               "  list [PATTERN...]      List what was measured, by unit and operation\n"
               "  histogram UNIT         Show how the waits of a unit are distributed\n"
               "  top                    Show who waits most, again and again\n"
               "  stalls [UNIT...]       List operations that took long, or still do\n"
               "  blame [UNIT...]        Show who made units wait\n"
               "  trace [UNIT]           Show operations as they end, and where their time went\n"
               "  probes                 Show what is measured on this host, and what is not\n"
               "  metrics                Print everything as Prometheus reads it\n"
               "\n"
               "%sOptions:%s\n"
               "  -h --help              Show this help\n"
               "     --version           Show package version\n"
               "     --no-pager          Do not pipe output into a pager\n"
               "     --no-legend         Do not show headers and footers\n"
               "  -S --since=TIME        Show what is not older than this time\n"
               "  -U --until=TIME        Show what is not newer than this time\n"
               "  -b --boot              Show what is of this boot\n"
               "  -H --host=[USER@]HOST  Operate on remote host\n"
               "  -M --machine=CONTAINER Operate on local container\n"
               "     --socket=PATH       Connect to this socket of iolatd\n"
               "     --json=MODE         Output as JSON (pretty, short, off)\n"
               "  -j                     Same as --json=pretty on a terminal, --json=short\n"
               "                         otherwise\n"
               "  -a --all               Show all phases and columns, or all buckets\n"
               "     --by=device         List requests by disk and unit\n"
               "     --op=NAME[,NAME...] Show only these operations\n"
               "     --phase=NAME[,NAME...]\n"
               "                         Show only these phases\n"
               "     --device=MAJ:MIN    Show the histogram of this device only\n"
               "     --min=TIME          Show operations that took at least that long\n"
               "  -f --follow            Go on showing stalls as they come\n"
               "  -n --lines=N           Number of stalls, of rows of blame, or of traced\n"
               "                         operations to show\n"
               "  -b --batch             Let top print lines instead of filling the screen\n"
               "  -n --iterations=N      Number of iterations of top\n"
               "  -d --delay=TIME        Time between iterations of top\n"
               "\n"
               "See the iolatctl(1) man page for details.\n",
               program_invocation_short_name, term_bold(), term_normal(), term_underline(), term_normal(),
               term_underline(), term_normal());
}

static void version(void) {
        puts("iolat " IOLAT_VERSION);
}

static int log_bad_value(const char *what, const char *value) {
        _cleanup_free_ char *escaped = NULL;

        escaped = text_escape(value);
        log_error("%s: \"%s\".", what, strempty(escaped));

        return -EINVAL;
}

static bool is_op(const char *s) {
        return op_from_string(s) >= 0 || rq_kind_from_string(s) >= 0 || streq(s, OP_WRITEBACK);
}

static bool is_phase(const char *s) {
        return streq(s, "total") || phase_from_string(s) >= 0 || rq_part_from_string(s) >= 0 ||
                streq(s, PHASE_DIRTY_AGE);
}

/* Replaces the list by the comma-separated one. */
static int parse_names(const char *what, const char *value, bool (*is_known)(const char *s), char ***list) {
        _cleanup_(strv_freep) char **names = NULL;
        size_t n = 0;

        /* There cannot be more names than characters. */
        names = calloc(strlen(value) + 2, sizeof(char *));
        if (!names)
                return log_oom();
        for (const char *s = value;;) {
                size_t length = strcspn(s, ",");

                names[n] = strndup(s, length);
                if (!names[n])
                        return log_oom();
                if (!is_known(names[n]))
                        return log_bad_value(what, names[n]);
                n++;
                if (!s[length])
                        break;
                s += length + 1;
        }
        strv_free(*list);
        *list = TAKE_PTR(names);

        return 0;
}

static int parse_json(const char *value, Options *o) {
        if (streq(value, "short"))
                o->output = OUTPUT_JSON_SHORT;
        else if (streq(value, "pretty"))
                o->output = OUTPUT_JSON_PRETTY;
        else if (streq(value, "off"))
                o->output = OUTPUT_TABLE;
        else
                return log_bad_value("The argument of --json= is not \"pretty\", \"short\" or \"off\"", value);

        return 0;
}

static int parse_place(const char *what, const char *value, const char **place) {
        if (isempty(value))
                return log_bad_value(what, value);
        *place = value;

        return 0;
}

static int parse_time(const char *what, const char *value, uint64_t *ret_us) {
        if (timestamp_parse(value, timestamp_now(), ret_us) < 0)
                return log_bad_value(what, value);

        return 0;
}

static int parse_option(int c, const char *value, Options *o) {
        switch (c) {
        case 'H':
                return parse_place("This is not the name of a host", value, &o->host);
        case 'M':
                return parse_place("This is not the name of a machine", value, &o->machine);
        case ARG_SOCKET:
                return parse_place("This is not the path of a socket", value, &o->socket);
        case 'j':
                o->output = term_is_terminal() ? OUTPUT_JSON_PRETTY : OUTPUT_JSON_SHORT;
                return 0;
        case 'a':
                o->all = true;
                return 0;
        case 'b': /* which of them depends on the command */
                o->boot = o->batch = true;
                return 0;
        case ARG_BOOT:
                o->boot = true;
                return 0;
        case ARG_BATCH:
                o->batch = true;
                return 0;
        case 'S':
                o->has_range = true;
                return parse_time("The argument of --since= is not a time", value, &o->since_us);
        case 'U':
                o->has_range = true;
                return parse_time("The argument of --until= is not a time", value, &o->until_us);
        case 'f':
                o->follow = true;
                return 0;
        case ARG_MIN:
                if (timespan_parse(value, &o->min_ns) < 0 || o->min_ns == TIMESPAN_INFINITY)
                        return log_bad_value("The argument of --min= is not a time span", value);
                return 0;
        case 'n':
                if (parse_count(value, UINT64_MAX - 1, &o->lines) < 0)
                        return log_bad_value("The argument of --lines= or --iterations= is not a number", value);
                return 0;
        case 'd':
                if (parse_nsec(value, &o->delay_ns) < 0 || o->delay_ns == 0)
                        return log_bad_value("The delay must be a time span above 0", value);
                return 0;
        case ARG_JSON:
                return parse_json(value, o);
        case ARG_BY:
                if (!streq(value, "device"))
                        return log_bad_value("Only --by=device is known, not", value);
                o->by_device = true;
                return 0;
        case ARG_NO_LEGEND:
                o->legend = false;
                return 0;
        case ARG_NO_PAGER:
                o->pager = false;
                return 0;
        case ARG_OP:
                return parse_names("Unknown operation", value, is_op, &o->ops);
        case ARG_PHASE:
                return parse_names("Unknown phase", value, is_phase, &o->phases);
        case ARG_DEVICE:
                if (parse_device(value) < 0)
                        return log_bad_value("A device is given as MAJOR:MINOR, not", value);
                o->device = value;
                return 0;
        default:
                return -EINVAL;
        }
}

/* Returns 0 if there is nothing more to do. getopt_long() itself says what it does not like. */
static int parse_argv(int argc, char **argv, Options *o) {
        static const struct option options[] = {
                { "help", no_argument, NULL, 'h' },
                { "version", no_argument, NULL, ARG_VERSION },
                { "json", required_argument, NULL, ARG_JSON },
                { "by", required_argument, NULL, ARG_BY },
                { "boot", no_argument, NULL, ARG_BOOT },
                { "since", required_argument, NULL, 'S' },
                { "until", required_argument, NULL, 'U' },
                { "min", required_argument, NULL, ARG_MIN },
                { "follow", no_argument, NULL, 'f' },
                { "lines", required_argument, NULL, 'n' },
                { "batch", no_argument, NULL, ARG_BATCH },
                { "iterations", required_argument, NULL, 'n' },
                { "delay", required_argument, NULL, 'd' },
                { "no-legend", no_argument, NULL, ARG_NO_LEGEND },
                { "no-pager", no_argument, NULL, ARG_NO_PAGER },
                { "host", required_argument, NULL, 'H' },
                { "machine", required_argument, NULL, 'M' },
                { "socket", required_argument, NULL, ARG_SOCKET },
                { "all", no_argument, NULL, 'a' },
                { "op", required_argument, NULL, ARG_OP },
                { "phase", required_argument, NULL, ARG_PHASE },
                { "device", required_argument, NULL, ARG_DEVICE },
                {},
        };
        int c, r;

        while ((c = getopt_long(argc, argv, "hjabfH:M:S:U:n:d:", options, NULL)) >= 0) {
                if (c == 'h' || c == ARG_VERSION) {
                        (c == 'h' ? help : version)();
                        return 0;
                }
                r = parse_option(c, optarg, o);
                if (r < 0)
                        return r;
        }
        if ((o->host != NULL) + (o->machine != NULL) + (o->socket != NULL) > 1) {
                log_error("Only one of --host=, --machine= and --socket= can be used.");
                return -EINVAL;
        }
        if (o->since_us >= o->until_us) {
                log_error("--since= must be before --until=.");
                return -EINVAL;
        }

        return 1;
}

static const Verb *find_verb(const char *name) {
        for (size_t i = 0; i < ELEMENTSOF(verbs); i++)
                if (streq(verbs[i].name, name))
                        return &verbs[i];

        return NULL;
}

static int run_verb(int argc, char **argv, const Options *o) {
        char *default_argv[] = { (char[]){ "status" }, NULL };
        const Verb *verb;

        if (argc == 0) {
                argv = default_argv;
                argc = 1;
        }
        verb = find_verb(argv[0]);
        if (!verb)
                return log_bad_value("Unknown command", argv[0]);
        if (argc - 1 < verb->min_args) {
                log_error("Too few arguments for \"%s\".", verb->name);
                return -EINVAL;
        }
        if (argc - 1 > verb->max_args) {
                log_error("Too many arguments for \"%s\".", verb->name);
                return -EINVAL;
        }
        if (o->has_range && !(verb->flags & VERB_RANGE)) {
                log_error("--since= and --until= cannot be used with \"%s\".", verb->name);
                return -EINVAL;
        }
        if (o->follow && !(verb->flags & VERB_FOLLOW)) {
                log_error("--follow cannot be used with \"%s\".", verb->name);
                return -EINVAL;
        }
        if (o->lines != UINT64_MAX && !(verb->flags & VERB_LINES)) {
                log_error("--lines= and --iterations= cannot be used with \"%s\".", verb->name);
                return -EINVAL;
        }

        return verb->run(argc, argv, o);
}

/* Why stdout has failed: stdio remembers that it has, but not the reason if that was some writes ago. */
static int output_error(void) {
        struct pollfd p = { .fd = STDOUT_FILENO, .events = POLLOUT };

        errno = 0;
        if (fflush(stdout) != 0 && errno > 0)
                return errno;
        if (!ferror(stdout))
                return 0;

        return poll(&p, 1, 0) > 0 && p.revents & POLLERR ? EPIPE : EIO;
}

static int finish_output(int result) {
        int error = output_error();

        pager_close();
        /* A reader that has gone away has seen what it wanted. */
        if (error != 0 && error != EPIPE) {
                log_error_errno(error, "Failed to write output: %m");
                return EXIT_FAILURE;
        }

        return result;
}

int main(int argc, char **argv) {
        _cleanup_(options_clear) Options o = {
                .legend = true,
                .pager = true,
                .until_us = UINT64_MAX,
                .lines = UINT64_MAX,
                .delay_ns = NSEC_PER_SEC,
        };
        int r;

        term_init();
        log_setup("iolatctl", LOG_INFO);
        (void) signal(SIGPIPE, SIG_IGN);

        r = parse_argv(argc, argv, &o);
        if (r > 0)
                r = run_verb(argc - optind, argv + optind, &o);

        return finish_output(r < 0 ? EXIT_FAILURE : r);
}
