/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <errno.h>

#include "log.h"
#include "range.h"
#include "timestamp.h"

int range_from_options(const Options *o, Range *ret) {
        Range range = { .since_us = o->since_us, .until_us = o->until_us };

        if (o->boot) {
                if (o->host) {
                        log_error("When another host was booted is not known here: use --since= instead of --boot.");
                        return -EINVAL;
                }
                range.since_us = MAX(range.since_us, timestamp_boot());
        }
        if (range.since_us >= range.until_us) {
                log_error("--until= is before this boot.");
                return -EINVAL;
        }
        *ret = range;

        return 0;
}

bool range_is_covered(const Range *covered) {
        return covered->until_us > covered->since_us;
}

int range_log_nothing(Query *q) {
        _cleanup_(manager_info_clear) ManagerInfo info = {};
        int r;

        r = query_manager(q, &info);
        if (r < 0)
                return r;
        if (info.history_since_us == 0)
                log_error("iolatd keeps no history yet, so there is nothing to show of that time.");
        else
                log_error("Nothing is known of that time: the history begins %s.",
                          FORMAT_TIMESTAMP(info.history_since_us));

        return EXIT_FAILURE;
}

static const char *edge(uint64_t us, char buf[static TIMESTAMP_FORMAT_MAX]) {
        if (us == 0)
                return "the beginning";

        return us == UINT64_MAX ? "now" : timestamp_format(us, buf, TIMESTAMP_FORMAT_MAX);
}

void range_print_covered(const Range *asked, const Range *covered, const Options *o) {
        char since[TIMESTAMP_FORMAT_MAX], until[TIMESTAMP_FORMAT_MAX];
        bool all;

        /* Windows of the history are not cut, so more than was asked for can be covered as well as less. */
        all = covered->since_us <= asked->since_us && (asked->until_us == UINT64_MAX ||
                                                       covered->until_us >= asked->until_us);
        if (o->output != OUTPUT_TABLE) {
                if (!all && (asked->since_us != 0 || asked->until_us != UINT64_MAX))
                        log_notice("Covered is only %s to %s.", FORMAT_TIMESTAMP(covered->since_us),
                                   FORMAT_TIMESTAMP(covered->until_us));
                return;
        }
        if (!o->legend)
                return;
        printf("Covers %s to %s", FORMAT_TIMESTAMP(covered->since_us), FORMAT_TIMESTAMP(covered->until_us));
        if (asked->since_us != 0 || asked->until_us != UINT64_MAX)
                printf(",\nasked for was %s to %s", edge(asked->since_us, since), edge(asked->until_us, until));
        fputs(".\n", stdout);
}
