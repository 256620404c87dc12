/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "query.h"

/* What the files of the query library share with each other. */

struct Query {
        sd_bus *bus;
        const char *destination; /* NULL: the daemon itself is at the other end */
        char *place;             /* for messages: where the daemon was looked for */
        const Options *options;
        sd_event *event;         /* NULL as long as nothing is watched */
        QueryWatch watch;
        sd_event_source *retry;
        bool away;               /* nothing can be asked, or only to find out whether it is back */
        bool retrying;
};

/* All log, but for the quiet errors of query.h. */
int query_request(Query *q, const char *path, const char *interface, const char *method, sd_bus_message **ret);
int query_call(Query *q, sd_bus_message *request, sd_bus_message **ret);
int query_call_simple(Query *q, const char *path, const char *interface, const char *method, sd_bus_message **ret,
                      const char *types, ...);

int query_log_unreachable(const Query *q, int error);

/* Connects to where the options say, and waits until the connection is set up, but not for longer. Does not log. */
int query_connect(Query *q, uint64_t timeout_us);
int query_wait_ready(Query *q, uint64_t timeout_us);

/* Something is watched, and it did not answer. Whether that is worth waiting for; if so, the answer is -ECONNRESET. */
bool query_can_come_back(const Query *q);
int query_went_away(Query *q);

/* The pieces of query_new(), query_rows() and query_manager_properties(), for those who do not wait for an answer. The
 * first does not log: it returns before the connection is set up. */
int query_start(const Options *o, Query **ret);

/* What a listing is to hold; range NULL: everything since counting began. */
typedef struct ListRequest {
        char **patterns, **ops, **phases;
        const Range *range;
        bool buckets;   /* not with a range */
        uint32_t limit; /* of rows in one page */
} ListRequest;

/* One page. Returns the cursor of the next one, 0 at the end, and, of a range, which part of it is covered. */
int query_list_request(Query *q, const ListRequest *l, uint64_t cursor, sd_bus_message **ret);
int query_list_decode(sd_bus_message *reply, const ListRequest *l, Rows *rows, uint64_t *ret_next, Range *ret_covered);

int query_manager_request(Query *q, sd_bus_message **ret);
int query_manager_decode(sd_bus_message *reply, ManagerInfo *ret);

/* Logs that a reply could not be read. */
int query_log_reply(int error);

/* The patterns as they are sent: names become patterns that match at least them, whatever the daemon thinks of
 * backslashes (which are frequent in names of units). query_rows_match() then drops what was not meant. */
int query_patterns_new(char **patterns, char ***ret);
void query_rows_match(char **patterns, Rows *rows);
