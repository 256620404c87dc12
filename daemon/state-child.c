/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include "log.h"
#include "state-child.h"

enum {
        CHILD_FD = 3, /* what the child writes to */
        RESULT_MAX = 120,
        READ_SIZE = 64 * 1024,
};

struct StateChild {
        sd_event *event;
        uint64_t limit_us;
        const StateChildCallbacks *callbacks;
        void *userdata;
        pid_t pid; /* 0: none */
        bool killed;
        int fd;
        sd_event_source *exit_source;
        sd_event_source *data_source;
        sd_event_source *limit_source;
};

int state_child_new(StateChild **ret, sd_event *e, uint64_t limit_us) {
        StateChild *c = calloc(1, sizeof(*c));

        if (!c)
                return -ENOMEM;
        c->event = sd_event_ref(e);
        c->limit_us = limit_us;
        c->fd = -EBADF;
        *ret = c;

        return 0;
}

static void close_fd(StateChild *c) {
        c->data_source = sd_event_source_unref(c->data_source);
        if (c->fd >= 0)
                close(take_fd(&c->fd));
}

static void forget(StateChild *c) {
        c->pid = 0;
        c->killed = false;
        c->exit_source = sd_event_source_unref(c->exit_source);
        c->limit_source = sd_event_source_unref(c->limit_source);
        close_fd(c);
}

StateChild *state_child_free(StateChild *c) {
        if (!c)
                return NULL;
        if (c->pid > 0)
                (void) kill(c->pid, SIGKILL);
        forget(c);
        sd_event_unref(c->event);
        free(c);

        return NULL;
}

bool state_child_busy(const StateChild *c) {
        return c->pid > 0;
}

/* Returns whether there may be more. */
static bool read_some(StateChild *c) {
        uint8_t buf[READ_SIZE];
        ssize_t n;

        n = read(c->fd, buf, sizeof(buf));
        if (n > 0) {
                c->callbacks->data(buf, (size_t) n, c->userdata);
                return true;
        }

        return n < 0 && errno == EINTR;
}

static int on_readable(sd_event_source *s, int fd, uint32_t revents, void *userdata) {
        StateChild *c = userdata;

        if (!read_some(c))
                close_fd(c); /* all there is: what remains is the child's end */

        return 0;
}

static void finish(StateChild *c, bool exited, int status) {
        const StateChildCallbacks *callbacks = c->callbacks;
        int result = exited ? -status : c->killed ? -ETIMEDOUT : -ECANCELED;

        while (c->fd >= 0 && read_some(c))
                ;
        forget(c);
        callbacks->done(result, c->userdata);
}

static int on_exit_of_child(sd_event_source *s, const siginfo_t *si, void *userdata) {
        finish(userdata, si->si_code == CLD_EXITED, si->si_status);

        return 0;
}

static int on_limit(sd_event_source *s, uint64_t usec, void *userdata) {
        StateChild *c = userdata;

        /* It is ours as long as it has not been waited for. One that hangs in the kernel dies later. */
        c->killed = true;
        (void) kill(c->pid, SIGKILL);
        c->callbacks->late(c->userdata);

        return 0;
}

_Noreturn static void run_child(pid_t parent, int fd, const StateChildCallbacks *callbacks, void *userdata) {
        int null, r;
        sigset_t none;

        /* Two daemons, one after the other, must not have children at the same file. */
        if (prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) < 0 || getppid() != parent)
                _exit(ECANCELED);
        for (int i = 1; i < NSIG; i++)
                (void) signal(i, SIG_DFL);
        sigemptyset(&none);
        (void) sigprocmask(SIG_SETMASK, &none, NULL);

        /* Above all the lock on the bpffs: a child that hangs must not keep another daemon from starting. */
        null = open("/dev/null", O_RDWR | O_CLOEXEC);
        for (int i = 0; i < CHILD_FD && null >= 0; i++)
                (void) dup2(null, i);
        if (fd != CHILD_FD && dup2(fd, CHILD_FD) < 0)
                _exit(errno);
        if (close_range(CHILD_FD + 1, ~0U, 0) < 0)
                _exit(errno);

        r = callbacks->work(CHILD_FD, userdata);
        _exit(MIN(r < 0 ? -r : 0, RESULT_MAX));
}

static int watch(StateChild *c) {
        int r;

        if (sd_event_get_state(c->event) == SD_EVENT_FINISHED) /* then there is only state_child_wait() */
                return 0;
        r = sd_event_add_child(c->event, &c->exit_source, c->pid, WEXITED, on_exit_of_child, c);
        if (r >= 0)
                r = sd_event_add_io(c->event, &c->data_source, c->fd, EPOLLIN, on_readable, c);
        if (r >= 0)
                r = sd_event_add_time_relative(c->event, &c->limit_source, CLOCK_MONOTONIC, c->limit_us, 0, on_limit,
                                               c);

        return r;
}

int state_child_start(StateChild *c, const StateChildCallbacks *callbacks, void *userdata) {
        pid_t parent = getpid();
        int fds[2], r;

        if (c->pid > 0)
                return -EBUSY;
        if (pipe2(fds, O_CLOEXEC) < 0)
                return -errno;
        c->callbacks = callbacks;
        c->userdata = userdata;
        c->pid = fork();
        if (c->pid < 0) {
                r = -errno;
                c->pid = 0;
                close(fds[0]);
                close(fds[1]);
                return r;
        }
        if (c->pid == 0)
                run_child(parent, fds[1], callbacks, userdata);

        close(fds[1]);
        c->fd = fds[0];
        r = fcntl(c->fd, F_SETFL, O_NONBLOCK) < 0 ? -errno : watch(c);
        if (r < 0) {
                (void) kill(c->pid, SIGKILL);
                forget(c); /* a zombie until we end: better than to wait */
        }

        return r;
}

int state_child_wait(StateChild *c, uint64_t deadline_ns) {
        siginfo_t si = {};

        while (c->pid > 0) {
                uint64_t now = now_ns();
                struct pollfd p = { .fd = c->fd, .events = POLLIN };
                int timeout = 1; /* ms; the end of the pipe comes a bit before that of the process */

                if (now >= deadline_ns)
                        return -ETIMEDOUT;
                if (waitid(P_PID, (id_t) c->pid, &si, WEXITED | WNOHANG) < 0)
                        return -errno;
                if (si.si_pid == c->pid) {
                        finish(c, si.si_code == CLD_EXITED, si.si_status);
                        break;
                }
                if (c->fd >= 0)
                        timeout = (int) MIN((deadline_ns - now) / NSEC_PER_MSEC + 1, (uint64_t) 1000);
                if (poll(&p, 1, timeout) > 0 && !read_some(c))
                        close_fd(c);
        }

        return 0;
}
