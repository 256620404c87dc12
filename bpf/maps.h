/* SPDX-License-Identifier: GPL-2.0-only */
#pragma once

#include "abi.h"
#include "compat.h"

/* Sizes are limits, not memory: hash maps allocate what is used. */
enum {
        OPS_MAX = 32768,
        RQS_MAX = 65536,
        INFLIGHT_RQ_BITS = 15,  /* places for requests that are on their way at the same time */
        INFLIGHT_RQ_PROBES = 8, /* places where one can be */
        INFLIGHT_DIO_MAX = 65536,
        HELD_BIOS_MAX = 65536,
        HELD_OPS_MAX = 16384,
        JOURNALS_MAX = 1024,
        HANDLES_MAX = 16384, /* a power of two */
        WAITS_MAX = 16384,
        BLAMES_MAX = 4096,
        AGES_MAX = 8192,
        OWNER_SETTINGS_MAX = 8192,
        OP_SLOTS = 4096,
        NAMES_MAX = 32768,
        GRAVES_MAX = 4096, /* dead cgroups that never were counted, kept for late writeback */
        MAPPING_SLOTS = 16384,
        ANCESTORS_MAX = 32,
        DIRTIERS_MAX = 16384,
        FRAMES_MAX = 8, /* a power of two */
        STALL_RING_BYTES = 512 * 1024,
};

/* --- what is counted --- */

struct {
        __uint(type, BPF_MAP_TYPE_HASH);
        __uint(max_entries, OPS_MAX);
        __uint(map_flags, BPF_F_NO_PREALLOC);
        __type(key, struct op_key);
        __type(value, struct op_value);
} ops SEC(".maps");

struct {
        __uint(type, BPF_MAP_TYPE_HASH);
        __uint(max_entries, RQS_MAX);
        __uint(map_flags, BPF_F_NO_PREALLOC);
        __type(key, struct rq_key);
        __type(value, struct rq_value);
} rqs SEC(".maps");

/* cgroup id -> path */
struct {
        __uint(type, BPF_MAP_TYPE_HASH);
        __uint(max_entries, NAMES_MAX);
        __uint(map_flags, BPF_F_NO_PREALLOC);
        __type(key, u64);
        __type(value, struct cgroup_name);
} names SEC(".maps");

/* A ring, in which each task remembers its own place: an element for each transaction made and removed in a hash cost as
 * much as all the rest of an fsync. handle_head is the next place. */
struct {
        __uint(type, BPF_MAP_TYPE_ARRAY);
        __uint(max_entries, HANDLES_MAX);
        __type(key, u32);
        __type(value, struct handle_slot);
} handles SEC(".maps");

struct {
        __uint(type, BPF_MAP_TYPE_ARRAY);
        __uint(max_entries, 1);
        __type(key, u32);
        __type(value, u64);
} handle_head SEC(".maps");

/* A ring, too: wait_head is the next place, wait_tail the first that the daemon, which takes them out every second, has
 * still to read. */
struct {
        __uint(type, BPF_MAP_TYPE_ARRAY);
        __uint(max_entries, WAITS_MAX);
        __type(key, u32);
        __type(value, struct wait_slot);
} waits SEC(".maps");

struct {
        __uint(type, BPF_MAP_TYPE_ARRAY);
        __uint(max_entries, 1);
        __type(key, u32);
        __type(value, u64);
} wait_head SEC(".maps");

struct {
        __uint(type, BPF_MAP_TYPE_ARRAY);
        __uint(max_entries, 1);
        __type(key, u32);
        __type(value, u64);
} wait_tail SEC(".maps");

/* Taken out by the daemon as well. */

struct {
        __uint(type, BPF_MAP_TYPE_HASH);
        __uint(max_entries, BLAMES_MAX);
        __uint(map_flags, BPF_F_NO_PREALLOC);
        __type(key, struct blame_key);
        __type(value, u64); /* ns */
} blames SEC(".maps");

struct {
        __uint(type, BPF_MAP_TYPE_HASH);
        __uint(max_entries, AGES_MAX);
        __uint(map_flags, BPF_F_NO_PREALLOC);
        __type(key, struct age_key);
        __type(value, struct age_value);
} ages SEC(".maps");

struct {
        __uint(type, BPF_MAP_TYPE_HASH);
        __uint(max_entries, JOURNALS_MAX);
        __uint(map_flags, BPF_F_NO_PREALLOC);
        __type(key, u64); /* address of the journal_t */
        __type(value, struct journal_value);
} journals SEC(".maps");

struct {
        __uint(type, BPF_MAP_TYPE_ARRAY);
        __uint(max_entries, LOSS_SLOTS);
        __type(key, u32);
        __type(value, u64);
} losses SEC(".maps");

struct {
        __uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
        __uint(max_entries, PROBE_SLOTS);
        __type(key, u32);
        __type(value, u64);
} hits SEC(".maps");

struct {
        __uint(type, BPF_MAP_TYPE_RINGBUF);
        __uint(max_entries, STALL_RING_BYTES);
} stalls SEC(".maps");

/* --- what user space tells --- */

struct {
        __uint(type, BPF_MAP_TYPE_ARRAY);
        __uint(max_entries, 1);
        __type(key, u32);
        __type(value, struct settings);
} settings SEC(".maps");

struct {
        __uint(type, BPF_MAP_TYPE_HASH);
        __uint(max_entries, OWNER_SETTINGS_MAX);
        __uint(map_flags, BPF_F_NO_PREALLOC);
        __type(key, u64);
        __type(value, struct owner_settings);
} owner_settings SEC(".maps");

struct {
        __uint(type, BPF_MAP_TYPE_ARRAY);
        __uint(max_entries, 1);
        __type(key, u32);
        __type(value, struct meta);
} meta SEC(".maps");

struct {
        __uint(type, BPF_MAP_TYPE_ARRAY);
        __uint(max_entries, PROBE_SLOTS);
        __type(key, u32);
        __type(value, struct probe_info);
} probe_infos SEC(".maps");

struct {
        __uint(type, BPF_MAP_TYPE_ARRAY);
        __uint(max_entries, COST_SLOTS);
        __type(key, u32);
        __type(value, struct probe_cost);
} costs SEC(".maps");

/* --- what is in flight --- */

/* A wait, or a part of the kernel that the task is in, until its end is seen. */
struct frame {
        u64 id; /* address of a lock, or what else tells its end */
        u64 start_ns;
        u64 nested_ns; /* of that, in frames inside this one */
        u32 phase;
        u32 dev; /* of a wait that can be an operation by itself */
};

/* What has opened the operation; from OPENER_FUNCTION on it is a function: its enum probe added. */
enum opener { OPENER_NONE, OPENER_SYNC, OPENER_DIO, OPENER_FUNCTION = 0x100 };

/* Times of the edges of a sync: begin, end of data, start of journal, end of journal, end. */
enum edge { EDGE_BEGIN, EDGE_DATA, EDGE_JOURNAL_START, EDGE_JOURNAL_END, EDGE_END, _EDGE_MAX };

struct task_op {
        bool is_journal_thread;
        bool sync_open; /* inside the filesystem's sync function */
        bool sync_done; /* edges are valid */
        bool has_held_bios;
        bool datasync; /* as the filesystem was told */
        bool held;      /* a sync that belongs to a direct write still to complete in this task */
        u32 opener;
        u32 seen; /* programs that saw the opening event, see me() */
        struct op_key key;
        u64 start_ns;
        u64 run_delay_ns;
        u64 identity; /* inode or kiocb */
        u64 dentry;   /* of the file, 0: not known */
        u64 stack;    /* where the opening function's frame was on the kernel stack */
        u64 ino;
        u64 mapping;
        u64 writepages_ns;
        u64 flush_ns;
        u64 edge[_EDGE_MAX];
        u64 step_ns[_STEP_MAX];
        u64 phase_ns[_PHASE_MAX];
        u32 journal_dev; /* of tx, as in handle_key */
        struct tx tx;    /* the transaction waited for last; tid 0: none */
        u64 lock_owner;  /* who held the lock that this task waits for, 0: not known */
        u64 fast_owner;  /* whose fast commit this task waits for */
        u64 rq_bytes;    /* requests submitted by this task */
        u32 rq_count;
        u32 n_frames;
        u32 n_intervals;
        u32 throttle_seen;
        u64 throttle_start;
        bool alone;     /* waits outside of all operations, and is counted as in flight */
        u64 lock_inode; /* whose lock this task waited for, before an operation could open */
        u64 lock_start_ns;
        u64 lock_end_ns;
        u64 completing; /* the struct iomap_dio that this task completes */
        u64 synced_file; /* that it has synced in doing so */
        u64 synced_inside; /* it does so again, which does not count */
        u64 last_exit_ns; /* when a function or wait inside the operation ended last */
        u64 data_wait_ns;     /* journal's thread: waited for ordered data from here */
        u64 data_wait_end_ns; /* to here */
        u64 superblock_ns; /* journal's thread: wrote the superblock on the way to a commit */
        bool throttled; /* balance_dirty_pages() decided to sleep */
        u64 journal;    /* that this task waits for, or is the thread of */
        u32 journal_tid;
        u64 journal_started; /* journal's thread: when the transaction began that it commits, as in handle_value */
        bool fast_commit; /* runs one itself */
        u32 wait_tid;     /* the transaction in whose way this task stands for a handle, or for space */
        u32 wait_dev;
        u64 ordered_ns;   /* journal's thread: waits for one file's ordered data from here */
        u64 handle_owner; /* of the kworker's next journal handle */
        u32 handle_slot;  /* 1 + place in the ring of handles that the task has added to last */
        struct frame frame[FRAMES_MAX];
        struct interval interval[INTERVALS_MAX];
};

struct {
        __uint(type, BPF_MAP_TYPE_TASK_STORAGE);
        __uint(map_flags, BPF_F_NO_PREALLOC);
        __type(key, int);
        __type(value, struct task_op);
} tasks SEC(".maps");

/* How many operations are in flight, by CPU: only the sum means something. */
struct {
        __uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
        __uint(max_entries, 1);
        __type(key, u32);
        __type(value, s64);
} flights SEC(".maps");

/* Asynchronous direct I/O, by kiocb. */
struct dio {
        struct op_key key;
        u64 start_ns;
        u64 ino;
        u64 phase_ns[_PHASE_MAX]; /* what the submitter waited for in the submit call */
        s64 run_delay_ns;
        u64 dentry;
        int pid;
        int thread;
        u32 nowait;
        u32 rq_count;
        char comm[COMM_LEN];
};

struct {
        __uint(type, BPF_MAP_TYPE_HASH);
        __uint(max_entries, INFLIGHT_DIO_MAX);
        __uint(map_flags, BPF_F_NO_PREALLOC);
        __type(key, u64);
        __type(value, struct dio);
} dios SEC(".maps");

/* Bios that blk-throttle (io.max) holds back, by address, and for each operation how long any of its bios was. */
struct {
        __uint(type, BPF_MAP_TYPE_HASH);
        __uint(max_entries, HELD_BIOS_MAX);
        __uint(map_flags, BPF_F_NO_PREALLOC);
        __type(key, u64);
        __type(value, u64); /* operation, see op_id() */
} held_bios SEC(".maps");

struct held {
        u64 since_ns;
        u64 total_ns;
        u32 n; /* bios held back now */
        u32 pad;
};

struct {
        __uint(type, BPF_MAP_TYPE_HASH);
        __uint(max_entries, HELD_OPS_MAX);
        __uint(map_flags, BPF_F_NO_PREALLOC);
        __type(key, u64);
        __type(value, struct held);
} held_ops SEC(".maps");

struct inflight_rq {
        u64 rq; /* address of the request, 0: free */
        u64 created_ns; /* 0: not seen */
        u64 issued_ns;  /* 0: not with the driver */
        u64 owner;
        u64 op; /* op_id() of the operation whose task submitted it, 0: none */
        u32 dev;
        u8 kind;
        u8 origin;
        u8 owned_by;
        u8 timed; /* the data part of a flush sequence was sampled already */
        u32 issue_seen;
        u32 complete_seen;
        u32 complete_len;
        u32 complete_bytes;
};

/* A hash table of our own, in an array: three look-ups for each request are most of what there is to do, and the program
 * of an array is a tenth of that of a hash map. A place is kept until another request needs it. */
struct {
        __uint(type, BPF_MAP_TYPE_ARRAY);
        __uint(max_entries, 1 << INFLIGHT_RQ_BITS);
        __type(key, u32);
        __type(value, struct inflight_rq);
} inflight_rqs SEC(".maps");

/* Files with a sync in flight and the last completion of one of their writes. Direct mapped: of two files in the same
 * slot at the same time the older one loses its edge and falls back to its own writepages_result. */
struct mapping_slot {
        u64 mapping;
        u64 completed_ns;
};

struct {
        __uint(type, BPF_MAP_TYPE_ARRAY);
        __uint(max_entries, MAPPING_SLOTS);
        __type(key, u32);
        __type(value, struct mapping_slot);
} mappings SEC(".maps");

/* The longest time that a request of an operation was with the device. Direct mapped like the one before. */
struct op_slot {
        u64 op;
        u64 max_device_ns;
};

struct {
        __uint(type, BPF_MAP_TYPE_ARRAY);
        __uint(max_entries, OP_SLOTS);
        __type(key, u32);
        __type(value, struct op_slot);
} op_slots SEC(".maps");

/* Who dirtied a file last, by the address of its inode; files that nobody writes to fall out by themselves. */
struct dirtier {
        u64 ino;
        u64 owner;
};

struct {
        __uint(type, BPF_MAP_TYPE_LRU_HASH);
        __uint(max_entries, DIRTIERS_MAX);
        __type(key, u64);
        __type(value, struct dirtier);
} dirtiers SEC(".maps");

/* Direct I/O that is being completed, by its struct iomap_dio, which is gone when the function returns. */
struct completing {
        u64 kiocb;
        u64 is_sync;
};

struct {
        __uint(type, BPF_MAP_TYPE_HASH);
        __uint(max_entries, INFLIGHT_DIO_MAX);
        __uint(map_flags, BPF_F_NO_PREALLOC);
        __type(key, u64);
        __type(value, struct completing);
} completing SEC(".maps");

/* Ring of the ids of cgroups that died uncounted; slot 0 of grave_head is the next position. */
struct {
        __uint(type, BPF_MAP_TYPE_ARRAY);
        __uint(max_entries, GRAVES_MAX);
        __type(key, u32);
        __type(value, u64);
} graves SEC(".maps");

struct {
        __uint(type, BPF_MAP_TYPE_ARRAY);
        __uint(max_entries, 1);
        __type(key, u32);
        __type(value, u64);
} grave_head SEC(".maps");

/* Zeroes to make new elements of, being too large for the stack. */
union zero {
        struct op_value op;
        struct rq_value rq;
        struct cgroup_name name;
        struct journal_value journal;
        struct age_value age;
};

struct {
        __uint(type, BPF_MAP_TYPE_ARRAY);
        __uint(max_entries, 1);
        __type(key, u32);
        __type(value, union zero);
} zeroes SEC(".maps");

/* jbd2_handle_stats goes through a stub that tail-calls slot 0: a plain counter cannot tell the same event seen by
 * two generations, so only one generation may see it. */
struct {
        __uint(type, BPF_MAP_TYPE_PROG_ARRAY);
        __uint(max_entries, 1);
        __uint(key_size, sizeof(u32));
        __uint(value_size, sizeof(u32));
} handle_slots SEC(".maps");

/* --- set by the loader --- */

const volatile unsigned int program_bit = 1;     /* differs between generations that can be attached at the same time */
const volatile bool is_twin = false;      /* a second time the same program, for events that the first one missed */
const volatile unsigned int rqf_flush_seq = 1 << 4; /* 6.1: a macro; later an enumerator, whose value the loader looks up */
const volatile unsigned long long jiffy_ns = 0;
const volatile bool have_rq_create = true;
const volatile bool have_dio_complete = true;
const volatile bool dirty_tracking = false;
const volatile bool function_tier = false;
const volatile unsigned int wait_slots = WAITS_MAX;           /* as the maps have been made */
const volatile unsigned int inflight_bits = INFLIGHT_RQ_BITS;
const volatile unsigned long long root_cgroup_id = 1; /* of the loader's cgroup namespace */

/* Of functions and data of the kernel and its modules, 0 where they are not there or not told. Not __ksym: for that,
 * libbpf itself has to be able to read /proc/kallsyms. */
const volatile unsigned long long address_of_aio_fsync_work = 0;
const volatile unsigned long long address_of_bio_chain_endio = 0;
const volatile unsigned long long address_of_btrfs_bioset = 0;
const volatile unsigned long long address_of_btrfs_compressed_bioset = 0;
const volatile unsigned long long address_of_crypt_endio = 0;
const volatile unsigned long long address_of_end_compressed_bio_write = 0;

/* Code of the functions in which a task waits to be admitted, to be found on its stack when it sleeps. */
const volatile struct code_range admission[ADMISSION_RANGES] = {};

static inline void lost(enum loss what) {
        u32 i = what;
        u64 *n = bpf_map_lookup_elem(&losses, &i);

        if (n)
                __sync_fetch_and_add(n, 1);
}

static inline void hit(enum probe which) {
        u32 i = which;
        u64 *n;

        if (is_twin)
                return;
        n = bpf_map_lookup_elem(&hits, &i);
        if (n)
                (*n)++;
}

static inline void in_flight(s64 add) {
        u32 i = 0;
        s64 *n = bpf_map_lookup_elem(&flights, &i);

        if (n)
                __sync_fetch_and_add(n, add);
}

static inline void *zero_value(void) {
        u32 i = 0;

        return bpf_map_lookup_elem(&zeroes, &i);
}
