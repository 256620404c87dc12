/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "names.h"

#define DEFINE_TO_STRING(name, table)                                              \
        const char *name##_to_string(int i) {                                      \
                return i >= 0 && i < (int) ELEMENTSOF(table) ? table[i] : NULL;    \
        }

#define DEFINE_FROM_STRING(name, table)                                            \
        int name##_from_string(const char *s) {                                    \
                for (size_t i = 0; i < ELEMENTSOF(table); i++)                     \
                        if (table[i] && streq(table[i], s))                        \
                                return (int) i;                                    \
                return -EINVAL;                                                    \
        }

static const char *const op_table[_OP_MAX] = {
        [OP_FSYNC] = "fsync",
        [OP_FDATASYNC] = "fdatasync",
        [OP_SYNC] = "sync",
        [OP_SYNCFS] = "syncfs",
        [OP_SYNCRANGE] = "syncrange",
        [OP_MSYNC] = "msync",
        [OP_SYNCWRITE] = "syncwrite",
        [OP_DREAD] = "dread",
        [OP_DWRITE] = "dwrite",
        [OP_SLOWWRITE] = "slowwrite",
        [OP_SLOWREAD] = "slowread",
        [OP_SLOWFAULT] = "slowfault",
        [OP_META] = "meta",
        [OP_WRITE] = "write",
        [OP_READ] = "read",
};
DEFINE_TO_STRING(op, op_table)
DEFINE_FROM_STRING(op, op_table)

static const char *const phase_table[_PHASE_MAX] = {
        [PHASE_DATA] = "data",
        [PHASE_IO] = "io",
        [PHASE_THROTTLE] = "throttle",
        [PHASE_JOURNAL] = "journal",
        [PHASE_ADMISSION] = "admission",
        [PHASE_FLUSH] = "flush",
        [PHASE_LOCK] = "lock",
        [PHASE_FREEZE] = "freeze",
        [PHASE_RECLAIM] = "reclaim",
        [PHASE_FS] = "fs",
        [PHASE_OTHER] = "other",
        [PHASE_RUNQUEUE] = "runqueue",
};
DEFINE_TO_STRING(phase, phase_table)
DEFINE_FROM_STRING(phase, phase_table)

static const char *const journal_step_table[_STEP_MAX] = {
        [STEP_PREVIOUS] = "previous",
        [STEP_LOCKED] = "locked",
        [STEP_FLUSHING] = "flushing",
        [STEP_LOG] = "log",
        [STEP_RECORD] = "record",
        [STEP_CHECKPOINT] = "checkpoint",
};
DEFINE_TO_STRING(journal_step, journal_step_table)

static const char *const rq_kind_table[_RQ_KIND_MAX] = {
        [RQ_READ] = "rq-read",
        [RQ_WRITE] = "rq-write",
        [RQ_FLUSH] = "rq-flush",
        [RQ_DISCARD] = "rq-discard",
};
DEFINE_TO_STRING(rq_kind, rq_kind_table)
DEFINE_FROM_STRING(rq_kind, rq_kind_table)

static const char *const origin_table[_ORIGIN_MAX] = {
        [ORIGIN_SELF] = "self",
        [ORIGIN_WRITEBACK] = "writeback",
        [ORIGIN_JOURNAL] = "journal",
        [ORIGIN_LOOP] = "loop",
        [ORIGIN_OTHER] = "other",
};
DEFINE_TO_STRING(origin, origin_table)

static const char *const owned_by_table[_OWNED_BY_MAX] = {
        [OWNED_BY_TASK] = "task",
        [OWNED_BY_DIRTIER] = "dirtier",
        [OWNED_BY_PAGE] = "page",
        [OWNED_BY_INODE] = "inode",
        [OWNED_BY_BLKCG] = "blkcg",
        [OWNED_BY_NOBODY] = "kernel",
};
DEFINE_TO_STRING(owned_by, owned_by_table)

static const char *const loss_table[_LOSS_MAX] = {
        [LOSS_OP_MAP_FULL] = "op-map-full",
        [LOSS_RQ_MAP_FULL] = "request-map-full",
        [LOSS_INFLIGHT_RQ_FULL] = "inflight-request-full",
        [LOSS_INFLIGHT_DIO_FULL] = "inflight-dio-full",
        [LOSS_TASK_STORAGE] = "task-storage",
        [LOSS_EXIT_MISSED] = "exit-missed",
        [LOSS_COMPLETION_MISSED] = "completion-missed",
        [LOSS_NEGATIVE_TIME] = "negative-time",
        [LOSS_JOURNAL_MAP_FULL] = "journal-map-full",
        [LOSS_NAME_MAP_FULL] = "name-map-full",
        [LOSS_NAME_TRUNCATED] = "name-truncated",
        [LOSS_STALL_RING_FULL] = "stall-ring-full",
        [LOSS_HANDLE_SLOT_EMPTY] = "handle-slot-empty",
        [LOSS_HELD_BIOS] = "held-bios-full",
        [LOSS_WAIT_MAP_FULL] = "wait-map-full",
        [LOSS_BLAME_MAP_FULL] = "blame-map-full",
        [LOSS_AGE_MAP_FULL] = "age-map-full",
};
DEFINE_TO_STRING(loss, loss_table)

static const char *const rq_part_table[_RQ_PART_MAX] = {
        [RQ_PART_QUEUE] = "queue",
        [RQ_PART_DEVICE] = "device",
};
DEFINE_TO_STRING(rq_part, rq_part_table)
DEFINE_FROM_STRING(rq_part, rq_part_table)
