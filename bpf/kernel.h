/* SPDX-License-Identifier: GPL-2.0-only */
#pragma once

#define __VMLINUX_H__ /* for libbpf: registers have the names that the kernel gives them */

/* The kernel's types, as far as the programs use them. Offsets are relocated at load (CO-RE), so that order and
 * omissions do not matter; what differs between kernels is in compat.h. Written by hand because a distribution
 * builds where no BTF of a running kernel is at hand. */

typedef signed char __s8;
typedef unsigned char __u8;
typedef short __s16;
typedef unsigned short __u16;
typedef int __s32;
typedef unsigned int __u32;
typedef long long __s64;
typedef unsigned long long __u64;
typedef __u16 __be16;
typedef __u32 __be32;
typedef __u32 __wsum;
typedef __u8 u8;
typedef __u16 u16;
typedef __u32 u32;
typedef __u64 u64;
typedef __s64 s64;
typedef _Bool bool;
#define true 1
#define false 0
#define NULL ((void *) 0)

/* include/uapi/linux/bpf.h */
enum {
        BPF_ANY = 0,
        BPF_NOEXIST = 1,
        BPF_EXIST = 2,
        BPF_F_NO_PREALLOC = 1,
        BPF_LOCAL_STORAGE_GET_F_CREATE = 1,
        BPF_RB_NO_WAKEUP = 1,
};
enum bpf_map_type {
        BPF_MAP_TYPE_HASH = 1,
        BPF_MAP_TYPE_ARRAY = 2,
        BPF_MAP_TYPE_PROG_ARRAY = 3,
        BPF_MAP_TYPE_PERCPU_ARRAY = 6,
        BPF_MAP_TYPE_LRU_HASH = 9,
        BPF_MAP_TYPE_RINGBUF = 27,
        BPF_MAP_TYPE_TASK_STORAGE = 29,
};

/* include/linux/sched.h */
enum {
        PF_IO_WORKER = 0x00000010,
        PF_WQ_WORKER = 0x00000020,
        PF_MEMALLOC = 0x00000800,
        PF_KTHREAD = 0x00200000,
};
/* arch/x86/include/asm/thread_info.h */
enum { TS_COMPAT = 0x0002 };

/* include/linux/fs.h: IOCB_* repeat the RWF_* bits of include/uapi/linux/fs.h */
enum {
        IOCB_DSYNC = 0x02,
        IOCB_SYNC = 0x04,
        IOCB_NOWAIT = 0x08,
        IOCB_DIRECT = 1 << 17,
};
enum {
        S_IFMT = 0170000,
        S_IFBLK = 0060000,
        S_IFDIR = 0040000,
        S_IFREG = 0100000,
};

/* include/linux/blk_types.h: the low 8 bits are the operation; bits up to 21 are the same since 6.1 */
enum {
        REQ_OP_MASK = 0xff,
        REQ_OP_FLUSH = 2,
        REQ_OP_DISCARD = 3,
        REQ_OP_DRV_IN = 34,
        REQ_PREFLUSH = 1 << 18,
};

/* include/trace/events/lock.h */
enum {
        LCB_F_SPIN = 1 << 0,
        LCB_F_READ = 1 << 1,
        LCB_F_WRITE = 1 << 2,
        LCB_F_PERCPU = 1 << 4,
        LCB_F_MUTEX = 1 << 5,
};

/* include/uapi/linux/io_uring.h */
enum {
        IORING_OP_READV = 1,
        IORING_OP_WRITEV = 2,
        IORING_OP_FSYNC = 3,
        IORING_OP_READ_FIXED = 4,
        IORING_OP_WRITE_FIXED = 5,
        IORING_OP_READ = 22,
        IORING_OP_WRITE = 23,
};

/* include/uapi/asm-generic/fcntl.h and arch/arm64/include/uapi/asm/fcntl.h */
#if defined(__TARGET_ARCH_arm64)
enum { O_DIRECT = 0200000 };
#else
enum { O_DIRECT = 040000 };
#endif

enum { SB_FREEZE_LEVELS = 3 };

/* include/uapi/linux/magic.h */
#define BTRFS_SUPER_MAGIC 0x9123683E

/* include/linux/page-flags.h; relocated by name */
enum pageflags { PG_uptodate = 2 };

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct kernfs_node {
        u64 id;
};

struct cgroup_root {
        int hierarchy_id;
};

struct css_set {
        struct cgroup *dfl_cgrp;
};

struct cgroup_subsys_state {
        struct cgroup *cgroup;
        struct cgroup_subsys_state *parent;
};

struct cgroup {
        struct cgroup_subsys_state self;
        struct kernfs_node *kn;
        struct cgroup_root *root;
        int level;
};

struct mem_cgroup {
        struct cgroup_subsys_state css;
};

struct obj_cgroup {
        struct mem_cgroup *memcg;
};

struct blkcg {
        struct cgroup_subsys_state css;
};

struct blkcg_gq {
        struct blkcg *blkcg;
};

struct sched_info {
        unsigned long long run_delay;
};

struct thread_info {
        u32 status;
};

struct fdtable {
        unsigned int max_fds;
        struct file **fd;
};

struct files_struct {
        struct fdtable *fdt;
};

struct task_struct {
        struct thread_info thread_info;
        unsigned int __state;
        struct files_struct *files;
        unsigned int flags;
        int pid;
        int tgid;
        void *worker_private;
        struct sched_info sched_info;
        struct css_set *cgroups;
        void *journal_info;
        char comm[16];
};

#if defined(__TARGET_ARCH_arm64)
struct user_pt_regs {
        u64 regs[31];
        u64 sp;
        u64 pc;
        u64 pstate;
};

struct pt_regs {
        struct user_pt_regs user_regs;
        int syscallno;
};
#else
struct pt_regs {
        unsigned long bp, r8, r9, r10, ax, cx, dx, si, di, orig_ax, ip, sp;
};
#endif

struct kthread {
        void *data;
};

struct workqueue_struct {
        char name[24];
};

struct pool_workqueue {
        struct workqueue_struct *wq;
};

struct work_struct {
        void *func;
};

struct worker {
        struct work_struct *current_work;
        void *current_func;
        struct pool_workqueue *current_pwq;
};

struct io_wq_work {
        void *list;
};

struct io_worker {
        struct io_wq_work *cur_work;
};

struct io_kiocb {
        u8 opcode;
        struct io_wq_work work;
};

struct percpu_rw_semaphore {
        int dummy;
};

struct sb_writers {
        unsigned short frozen;
        struct percpu_rw_semaphore rw_sem[SB_FREEZE_LEVELS];
};

struct qstr {
        const unsigned char *name;
};

struct dentry {
        struct super_block *d_sb;
        struct dentry *d_parent;
        struct qstr d_name;
        struct inode *d_inode;
};

struct path {
        struct dentry *dentry;
};

struct super_block {
        u32 s_dev;
        unsigned long s_magic;
        struct dentry *s_root;
        void *s_fs_info;
        struct sb_writers s_writers;
};

struct bdi_writeback {
        struct backing_dev_info *bdi;
        struct cgroup_subsys_state *memcg_css;
};

struct device {
        u32 devt;
};

struct backing_dev_info {
        struct device *owner; /* the disk; its own device has no number */
};

struct xarray {
        unsigned int xa_flags;
};

struct address_space {
        struct inode *host;
        struct xarray i_pages;
};

struct rw_semaphore {
        struct {
                s64 counter;
        } owner;
};

struct inode {
        struct rw_semaphore i_rwsem;
        struct address_space i_data;
        unsigned short i_mode;
        struct super_block *i_sb;
        struct address_space *i_mapping;
        unsigned long i_ino;
        unsigned long dirtied_when;
        struct bdi_writeback *i_wb;
};

struct file_operations {
        void *fsync;
};

struct file {
        const struct file_operations *f_op;
        unsigned int f_flags;
        struct path f_path;
        struct inode *f_inode;
        struct address_space *f_mapping;
};

struct kiocb {
        struct file *ki_filp;
        void *ki_complete;
        int ki_flags;
};

struct iov_iter {
        bool data_source;
};

struct writeback_control {
        long nr_to_write;
};

struct page {
        unsigned long compound_head;
};

struct iomap_dio {
        struct kiocb *iocb;
        int error;
};

struct folio {
        struct address_space *mapping;
        unsigned long memcg_data;
};

struct bio_vec {
        struct page *bv_page;
};

struct bvec_iter {
        unsigned int bi_size;
        unsigned int bi_idx;
};

struct bio {
        struct bio *bi_next;
        unsigned int bi_opf;
        struct bvec_iter bi_iter;
        struct blkcg_gq *bi_blkg;
        void *bi_end_io;
        void *bi_private;
        void *bi_pool;
        struct bio_vec *bi_io_vec;
};

struct gendisk {
        int major;
        int first_minor;
};

struct request_queue {
        struct gendisk *disk;
};

struct request {
        struct request_queue *q;
        unsigned int cmd_flags;
        unsigned int rq_flags;
        unsigned int __data_len;
        u64 start_time_ns;
        struct bio *bio;
};

struct block_device {
        u32 bd_dev;
};

struct ext4_inode_info {
        unsigned int i_sync_tid;
        unsigned int i_datasync_tid;
        struct inode vfs_inode;
};

struct ext4_sb_info {
        struct journal_s *s_journal;
};

struct journal_s {
        struct task_struct *j_task;
        struct block_device *j_fs_dev;
        struct transaction_s *j_running_transaction;
        struct transaction_s *j_checkpoint_transactions;
        int j_fc_wbufsize;
};
typedef struct journal_s journal_t;

struct transaction_s {
        journal_t *t_journal;
        unsigned int t_tid;
        enum { T_RUNNING, T_LOCKED } t_state;
        unsigned long t_start;
};
typedef struct transaction_s transaction_t;

struct jbd2_journal_handle {
        transaction_t *h_transaction;
        int h_requested_credits;
        int h_ref;
};

struct jbd2_inode {
        struct inode *i_vfs_inode;
};

/* fs/btrfs/btrfs_inode.h, fs/btrfs/bio.h: in the module's BTF */
struct btrfs_inode {
        struct inode vfs_inode;
};

struct btrfs_bio {
        struct btrfs_inode *inode;
        void *end_io;
        void *private;
        struct bio bio;
};

/* drivers/md/dm-crypt.c: likewise */
struct dm_crypt_io {
        struct bio *base_bio;
};

/* kernel/bpf/bpf_iter.c and the iterators' own files */
struct seq_file {
        int dummy;
};

struct bpf_iter_meta {
        struct seq_file *seq;
};

struct bpf_iter__task {
        struct bpf_iter_meta *meta;
        struct task_struct *task;
};

struct bpf_iter__bpf_map_elem {
        struct bpf_iter_meta *meta;
        void *key;
        void *value;
};

#pragma clang attribute pop
