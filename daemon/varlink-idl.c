/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "varlink-idl.h"

/* The words and keys are those of the bus and of iolatctl --json. */

#define FIELD(name, type, text) SD_VARLINK_FIELD_COMMENT(text), SD_VARLINK_DEFINE_FIELD(name, SD_VARLINK_##type, 0)
#define OPTIONAL(name, type, text) \
        SD_VARLINK_FIELD_COMMENT(text), SD_VARLINK_DEFINE_FIELD(name, SD_VARLINK_##type, SD_VARLINK_NULLABLE)
#define NUMBERS(name, flags, text) \
        SD_VARLINK_FIELD_COMMENT(text), SD_VARLINK_DEFINE_FIELD(name, SD_VARLINK_INT, SD_VARLINK_MAP | (flags))
#define INPUT(name, type, flags, text) \
        SD_VARLINK_FIELD_COMMENT(text), SD_VARLINK_DEFINE_INPUT(name, SD_VARLINK_##type, flags)

static SD_VARLINK_DEFINE_STRUCT_TYPE(
        Row,
        FIELD(unit, STRING, "The unit that did the operations or requests, or an owner in parentheses that is no unit"),
        OPTIONAL(userUnit, STRING, "The unit of a user's service manager inside it"),
        FIELD(op, STRING, "The operation (fsync, dwrite, ...) or kind of request (rq-read, rq-write, ...)"),
        FIELD(phase, STRING, "What was timed: total, a phase of an operation, or queue or device of a request"),
        OPTIONAL(device, STRING, "MAJOR:MINOR of the filesystem of an operation, of the disk of a request"),
        OPTIONAL(fsType, STRING, "The type of the filesystem"),
        OPTIONAL(mountPoint, STRING, "Where the filesystem is mounted"),
        OPTIONAL(origin, STRING, "On whose behalf: self (not told of operations), writeback, journal, loop, other"),
        FIELD(async, BOOL, "Whether the operations were completed by somebody else than the caller"),
        FIELD(count, INT, "How many took some time there"),
        FIELD(errors, INT, "How many failed"),
        OPTIONAL(bytes, INT, "Bytes of the requests"),
        OPTIONAL(untimed, INT, "Requests that ended without having been issued (empty flushes)"),
        OPTIONAL(inFlight, FLOAT, "How many requests the device had at a time, on average"),
        FIELD(sumNSec, INT, "Sum of the times"),
        FIELD(p50NSec, INT, "Median, off by at most 6.25%"),
        FIELD(p90NSec, INT, "90th percentile"),
        FIELD(p99NSec, INT, "99th percentile"),
        FIELD(maxNSec, INT, "The longest time"),
        NUMBERS(ownedBy, SD_VARLINK_NULLABLE, "Bytes of the requests by the method that told their owner"),
        SD_VARLINK_FIELD_COMMENT("The attach points that the numbers come from"),
        SD_VARLINK_DEFINE_FIELD(source, SD_VARLINK_STRING, SD_VARLINK_ARRAY | SD_VARLINK_NULLABLE));

static SD_VARLINK_DEFINE_STRUCT_TYPE(
        Bucket,
        OPTIONAL(upperNSec, INT, "The largest time that is counted here, null for the last bucket"),
        FIELD(count, INT, "How many took so long"));

static SD_VARLINK_DEFINE_STRUCT_TYPE(
        Owner,
        FIELD(unit, STRING, "A unit that has part in the transaction"),
        FIELD(share, FLOAT, "How large a part, 0 to 1"));

static SD_VARLINK_DEFINE_STRUCT_TYPE(
        Requests,
        FIELD(count, INT, "Requests that the operation has submitted"),
        OPTIONAL(bytes, INT, "Their size"),
        OPTIONAL(maxDeviceNSec, INT, "The longest that the device took for one"));

static SD_VARLINK_DEFINE_STRUCT_TYPE(
        Stall,
        OPTIONAL(id, INT, "The same for a stall in progress and for what it becomes"),
        FIELD(startRealtimeUSec, INT, "When the operation began"),
        FIELD(unit, STRING, "The unit that waits or waited"),
        FIELD(op, STRING, "The operation"),
        FIELD(state, STRING, "in-progress, done or failed"),
        OPTIONAL(error, STRING, "How it failed, as EIO"),
        FIELD(totalNSec, INT, "How long it took, or takes so far"),
        OPTIONAL(waitNSec, INT, "Of one in progress: how long it has been in its phase"),
        OPTIONAL(phase, STRING, "Where most of the time went; of one in progress: where it is"),
        NUMBERS(phases, 0, "Nanoseconds in each phase"),
        NUMBERS(steps, 0, "Nanoseconds in each step of the journal's commit"),
        SD_VARLINK_FIELD_COMMENT("What it made the disk do"),
        SD_VARLINK_DEFINE_FIELD_BY_TYPE(requests, Requests, SD_VARLINK_NULLABLE),
        OPTIONAL(device, STRING, "MAJOR:MINOR of the filesystem"),
        OPTIONAL(mountPoint, STRING, "Where the filesystem is mounted"),
        OPTIONAL(transaction, INT, "The transaction that was waited for"),
        SD_VARLINK_FIELD_COMMENT("Who is in that transaction, the largest first"),
        SD_VARLINK_DEFINE_FIELD_BY_TYPE(owners, Owner, SD_VARLINK_ARRAY),
        OPTIONAL(file, STRING, "The last components of the file's path; for root only"),
        OPTIONAL(pid, INT, "The process; for root only"),
        OPTIONAL(thread, INT, "The thread; for root only"),
        OPTIONAL(comm, STRING, "The name of the thread; for root only"));

static SD_VARLINK_DEFINE_STRUCT_TYPE(
        Blamed,
        FIELD(victim, STRING, "The unit that waited"),
        FIELD(culprit, STRING, "The unit that made it wait; can be the same"),
        FIELD(phase, STRING, "What it waited in"),
        OPTIONAL(step, STRING, "The step of the journal's commit"),
        OPTIONAL(device, STRING, "MAJOR:MINOR of the filesystem or disk"),
        OPTIONAL(mountPoint, STRING, "Where the filesystem is mounted"),
        OPTIONAL(weight, STRING, "By what the wait was divided among the culprits"),
        FIELD(sumNSec, INT, "The wait"),
        FIELD(estimated, BOOL, "Whether the culprits' shares are estimated"));

static SD_VARLINK_DEFINE_STRUCT_TYPE(
        Probe,
        FIELD(kind, STRING, "probe, loss (a counter of what was lost), blind (what cannot be seen here), floor (what "
                            "an empty program takes) or bias (what measuring adds to an operation or request)"),
        FIELD(probe, STRING, "Its name; of bias the operation or kind of request"),
        OPTIONAL(attached, STRING, "The attach point that was chosen"),
        OPTIONAL(reason, STRING, "Why it is absent or degraded, or what a blind spot is about"),
        OPTIONAL(state, STRING, "ok, degraded or absent"),
        OPTIONAL(hits, INT, "Events that were seen, or lost"),
        OPTIONAL(misses, INT, "Events that the kernel has skipped"),
        OPTIONAL(nsPerHit, INT, "What one costs, as the last calibration has measured"),
        OPTIONAL(sampledHits, INT, "How many it has measured"),
        OPTIONAL(hitsPerSec, FLOAT, "In the last interval of the daemon, about five seconds"),
        OPTIONAL(cpuShare, FLOAT, "The product of both, of one CPU"),
        OPTIONAL(phase, STRING, "Of bias: total, or the part of a request"),
        OPTIONAL(addedNSec, INT, "Of bias: what the programs add to it, estimated"),
        OPTIONAL(p50NSec, INT, "Of bias: the median that includes it, of all units"),
        OPTIONAL(share, FLOAT, "Of bias: addedNSec by p50NSec"));

static SD_VARLINK_DEFINE_METHOD(
        GetStatus,
        SD_VARLINK_FIELD_COMMENT("The version of the daemon"),
        SD_VARLINK_DEFINE_OUTPUT(version, SD_VARLINK_STRING, 0),
        SD_VARLINK_FIELD_COMMENT("The kind of attach points in use: tracepoint, function or kprobe"),
        SD_VARLINK_DEFINE_OUTPUT(tier, SD_VARLINK_STRING, 0),
        SD_VARLINK_FIELD_COMMENT("Whether something was lost, or a probe is not there that should be"),
        SD_VARLINK_DEFINE_OUTPUT(degraded, SD_VARLINK_BOOL, 0),
        SD_VARLINK_FIELD_COMMENT("Events that were lost"),
        SD_VARLINK_DEFINE_OUTPUT(lost, SD_VARLINK_INT, 0),
        SD_VARLINK_FIELD_COMMENT("Since when is counted, in microseconds since 1970"),
        SD_VARLINK_DEFINE_OUTPUT(sinceRealtimeUSec, SD_VARLINK_INT, 0),
        SD_VARLINK_FIELD_COMMENT("Where the history begins, null if there is none"),
        SD_VARLINK_DEFINE_OUTPUT(historySinceRealtimeUSec, SD_VARLINK_INT, SD_VARLINK_NULLABLE));

static SD_VARLINK_DEFINE_METHOD(
        ListUnits,
        SD_VARLINK_FIELD_COMMENT("The names, sorted"),
        SD_VARLINK_DEFINE_OUTPUT(units, SD_VARLINK_STRING, SD_VARLINK_ARRAY));

static SD_VARLINK_DEFINE_METHOD_FULL(
        List, SD_VARLINK_REQUIRES_MORE,
        INPUT(patterns, STRING, SD_VARLINK_ARRAY | SD_VARLINK_NULLABLE,
              "Only units, or units of users inside them, that match one of these shell patterns"),
        INPUT(ops, STRING, SD_VARLINK_ARRAY | SD_VARLINK_NULLABLE, "Only these operations or kinds of request"),
        INPUT(phases, STRING, SD_VARLINK_ARRAY | SD_VARLINK_NULLABLE, "Only these phases or parts"),
        INPUT(sinceRealtimeUSec, INT, SD_VARLINK_NULLABLE, "Only what was counted since, from the history"),
        INPUT(untilRealtimeUSec, INT, SD_VARLINK_NULLABLE, "Only what was counted until then, from the history"),
        INPUT(limit, INT, SD_VARLINK_NULLABLE, "At most so many rows"),
        SD_VARLINK_FIELD_COMMENT("One of the rows"),
        SD_VARLINK_DEFINE_OUTPUT_BY_TYPE(row, Row, 0),
        SD_VARLINK_FIELD_COMMENT("From the history: the part of time that all rows are about begins here"),
        SD_VARLINK_DEFINE_OUTPUT(firstRealtimeUSec, SD_VARLINK_INT, SD_VARLINK_NULLABLE),
        SD_VARLINK_FIELD_COMMENT("And where it ends"),
        SD_VARLINK_DEFINE_OUTPUT(lastRealtimeUSec, SD_VARLINK_INT, SD_VARLINK_NULLABLE));

static SD_VARLINK_DEFINE_METHOD(
        GetHistogram,
        INPUT(unit, STRING, 0, "The unit"),
        INPUT(op, STRING, 0, "The operation or kind of request"),
        INPUT(phase, STRING, SD_VARLINK_NULLABLE, "The phase, or the part of requests; total if not given"),
        INPUT(device, STRING, SD_VARLINK_NULLABLE, "MAJOR:MINOR; all devices together if not given"),
        SD_VARLINK_FIELD_COMMENT("The buckets that are not empty"),
        SD_VARLINK_DEFINE_OUTPUT_BY_TYPE(buckets, Bucket, SD_VARLINK_ARRAY));

static SD_VARLINK_DEFINE_METHOD_FULL(
        ListStalls, SD_VARLINK_REQUIRES_MORE,
        INPUT(sinceRealtimeUSec, INT, SD_VARLINK_NULLABLE, "Only those that began then or later"),
        INPUT(limit, INT, SD_VARLINK_NULLABLE, "At most so many, the first of them, not counting new ones; at most and "
              "by default 4096"),
        INPUT(follow, BOOL, SD_VARLINK_NULLABLE, "Go on with new ones, and those that come to an end"),
        SD_VARLINK_FIELD_COMMENT("One of the stalls"),
        SD_VARLINK_DEFINE_OUTPUT_BY_TYPE(stall, Stall, 0),
        SD_VARLINK_FIELD_COMMENT("New ones that were not sent since the last reply, because there were too many for us "
                                 "or for the client"),
        SD_VARLINK_DEFINE_OUTPUT(lost, SD_VARLINK_INT, SD_VARLINK_NULLABLE));

static SD_VARLINK_DEFINE_METHOD(
        GetBlame,
        INPUT(unit, STRING, SD_VARLINK_NULLABLE, "Only what this unit waited for"),
        INPUT(sinceRealtimeUSec, INT, SD_VARLINK_NULLABLE, "Only since then, from the history"),
        INPUT(untilRealtimeUSec, INT, SD_VARLINK_NULLABLE, "Only until then, from the history"),
        INPUT(limit, INT, SD_VARLINK_NULLABLE, "At most so many, at most and by default 1000"),
        SD_VARLINK_FIELD_COMMENT("The largest first"),
        SD_VARLINK_DEFINE_OUTPUT_BY_TYPE(rows, Blamed, SD_VARLINK_ARRAY));

static SD_VARLINK_DEFINE_METHOD(
        ListProbes,
        SD_VARLINK_FIELD_COMMENT("All of them"),
        SD_VARLINK_DEFINE_OUTPUT_BY_TYPE(probes, Probe, SD_VARLINK_ARRAY));

static SD_VARLINK_DEFINE_ERROR(
        NoSuchUnit,
        SD_VARLINK_FIELD_COMMENT("The name that was given"),
        SD_VARLINK_DEFINE_FIELD(unit, SD_VARLINK_STRING, 0));

static SD_VARLINK_DEFINE_ERROR(NoEntries);

SD_VARLINK_DEFINE_INTERFACE(
        org_iolat_Manager, VARLINK_INTERFACE,
        SD_VARLINK_INTERFACE_COMMENT("Which service waits for storage, in which layer, and who made it wait. "
                                     "See org.iolat1(5)."),
        SD_VARLINK_SYMBOL_COMMENT("What was counted and timed of one thing that a unit did"),
        &vl_type_Row,
        SD_VARLINK_SYMBOL_COMMENT("A bucket of a histogram"),
        &vl_type_Bucket,
        SD_VARLINK_SYMBOL_COMMENT("A unit's part in a transaction of a journal"),
        &vl_type_Owner,
        SD_VARLINK_SYMBOL_COMMENT("The requests of one operation"),
        &vl_type_Requests,
        SD_VARLINK_SYMBOL_COMMENT("An operation that took or takes too long, or a sync that failed"),
        &vl_type_Stall,
        SD_VARLINK_SYMBOL_COMMENT("How long one unit waited because of another"),
        &vl_type_Blamed,
        SD_VARLINK_SYMBOL_COMMENT("How something is measured, what was lost, or what cannot be measured"),
        &vl_type_Probe,
        SD_VARLINK_SYMBOL_COMMENT("How the daemon is"),
        &vl_method_GetStatus,
        SD_VARLINK_SYMBOL_COMMENT("Names all owners under which something was counted"),
        &vl_method_ListUnits,
        SD_VARLINK_SYMBOL_COMMENT("Lists what was counted, one row a reply"),
        &vl_method_List,
        SD_VARLINK_SYMBOL_COMMENT("Shows how the times of an operation or request are distributed"),
        &vl_method_GetHistogram,
        SD_VARLINK_SYMBOL_COMMENT("Lists the stalls in the order of their beginning, one a reply; if it follows, it "
                                  "ends only with the connection"),
        &vl_method_ListStalls,
        SD_VARLINK_SYMBOL_COMMENT("Tells who made whom wait"),
        &vl_method_GetBlame,
        SD_VARLINK_SYMBOL_COMMENT("Lists the probes, the counters of losses, and the blind spots"),
        &vl_method_ListProbes,
        SD_VARLINK_SYMBOL_COMMENT("Nothing is known of a unit of that name"),
        &vl_error_NoSuchUnit,
        SD_VARLINK_SYMBOL_COMMENT("There is nothing to list"),
        &vl_error_NoEntries);

/* As systemd defines it. libsystemd 257 has no type "any": the value is then declared to be an object, which is known
 * to be wrong, and ignored by all who read it. */
#if HAVE_VARLINK_ANY
#define TYPE_OF_VALUE SD_VARLINK_ANY
#else
#define TYPE_OF_VALUE SD_VARLINK_OBJECT
#endif

static SD_VARLINK_DEFINE_ENUM_TYPE(
        MetricFamilyType,
        SD_VARLINK_FIELD_COMMENT("A counter metric family type which is a monotonically increasing value"),
        SD_VARLINK_DEFINE_ENUM_VALUE(counter),
        SD_VARLINK_FIELD_COMMENT("A gauge metric family type which is a value that can go up and down"),
        SD_VARLINK_DEFINE_ENUM_VALUE(gauge),
        SD_VARLINK_FIELD_COMMENT("A string metric family type"),
        SD_VARLINK_DEFINE_ENUM_VALUE(string),
        SD_VARLINK_FIELD_COMMENT("An object metric family type"),
        SD_VARLINK_DEFINE_ENUM_VALUE(object));

static SD_VARLINK_DEFINE_METHOD_FULL(
        Describe, SD_VARLINK_REQUIRES_MORE,
        SD_VARLINK_FIELD_COMMENT("Metric family name"),
        SD_VARLINK_DEFINE_OUTPUT(name, SD_VARLINK_STRING, 0),
        SD_VARLINK_FIELD_COMMENT("Metric family description"),
        SD_VARLINK_DEFINE_OUTPUT(description, SD_VARLINK_STRING, 0),
        SD_VARLINK_FIELD_COMMENT("Metric family type"),
        SD_VARLINK_DEFINE_OUTPUT_BY_TYPE(type, MetricFamilyType, 0));

/* Two interfaces of one file cannot both have a vl_method_List. */
static const sd_varlink_symbol metrics_list = {
        .name = "List",
        .symbol_type = SD_VARLINK_METHOD,
        .symbol_flags = SD_VARLINK_REQUIRES_MORE,
        .fields = { SD_VARLINK_FIELD_COMMENT("Metric family name"),
                    SD_VARLINK_DEFINE_OUTPUT(name, SD_VARLINK_STRING, 0),
                    SD_VARLINK_FIELD_COMMENT("Metric object name"),
                    SD_VARLINK_DEFINE_OUTPUT(object, SD_VARLINK_STRING, SD_VARLINK_NULLABLE),
                    SD_VARLINK_FIELD_COMMENT("Metric fields"),
                    SD_VARLINK_DEFINE_OUTPUT(fields, SD_VARLINK_OBJECT, SD_VARLINK_NULLABLE),
                    SD_VARLINK_FIELD_COMMENT("Metric value"),
                    SD_VARLINK_DEFINE_OUTPUT(value, TYPE_OF_VALUE, 0),
                    {} },
};

static SD_VARLINK_DEFINE_ERROR(NoSuchMetric);

SD_VARLINK_DEFINE_INTERFACE(
        io_systemd_Metrics, "io.systemd.Metrics",
        SD_VARLINK_INTERFACE_COMMENT("Metrics APIs"),
        SD_VARLINK_SYMBOL_COMMENT("An enum representing various metric family types"),
        &vl_type_MetricFamilyType,
        SD_VARLINK_SYMBOL_COMMENT("Method to get a list of metrics and their values"),
        &metrics_list,
        SD_VARLINK_SYMBOL_COMMENT("Method to get the metric families"),
        &vl_method_Describe,
        SD_VARLINK_SYMBOL_COMMENT("No such metric found"),
        &vl_error_NoSuchMetric);
