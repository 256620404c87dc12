/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include "pager.h"
#include "term.h"

enum {
        COPY_BUFFER = 16 * 1024,
};

static pid_t pager_pid = 0;

/* NULL: the user wants none; "": has no wish. */
static const char *wanted_pager(void) {
        const char *e = getenv("SYSTEMD_PAGER") ?: getenv("PAGER");

        if (!e)
                return "";

        return isempty(e) || streq(e, "cat") ? NULL : e;
}

/* The last resort, so that output is never lost because no pager is installed. */
static void copy_through(void) {
        char buf[COPY_BUFFER];
        ssize_t n;

        while ((n = read(STDIN_FILENO, buf, sizeof(buf))) > 0)
                for (ssize_t done = 0, k; done < n; done += k) {
                        k = write(STDOUT_FILENO, buf + done, (size_t) (n - done));
                        if (k <= 0)
                                return;
                }
}

static void set_less_environment(void) {
        const char *less = getenv("SYSTEMD_LESS"), *secure = getenv("SYSTEMD_PAGERSECURE");
        bool is_secure;

        /* F: leave at once if it fits the screen, R: colours, S: chop long lines, X: leave the screen as it is,
         * M: where are we, K: leave on ^C */
        (void) setenv("LESS", less ?: "FRSXMK", 1);
        if (term_utf8())
                (void) setenv("LESSCHARSET", getenv("SYSTEMD_LESSCHARSET") ?: "utf-8", 1);

        /* less can start a shell: not with privileges that the user does not have otherwise. */
        is_secure = secure ? !streq(secure, "0") && !streq(secure, "no") && !streq(secure, "false") :
                             geteuid() != getuid() || getenv("SUDO_UID");
        if (is_secure)
                (void) setenv("LESSSECURE", "1", 1);
        else
                (void) unsetenv("LESSSECURE");
}

_Noreturn static void run_pager(const char *wanted) {
        static const char *const pagers[] = { "pager", "less", "more" };

        (void) prctl(PR_SET_PDEATHSIG, SIGTERM);
        (void) signal(SIGPIPE, SIG_DFL);
        set_less_environment();

        if (!isempty(wanted))
                (void) execlp("sh", "sh", "-c", wanted, (char *) NULL);
        for (size_t i = 0; i < ELEMENTSOF(pagers); i++)
                (void) execlp(pagers[i], pagers[i], (char *) NULL);
        copy_through();
        _exit(EXIT_SUCCESS);
}

void pager_open(const Options *o) {
        int fds[2];
        const char *wanted;
        pid_t pid;

        if (pager_pid > 0 || !o->pager || !term_is_terminal() || term_is_dumb())
                return;
        wanted = wanted_pager();
        if (!wanted || fflush(stdout) != 0 || pipe2(fds, O_CLOEXEC) < 0)
                return;

        /* Without a pager everything works as well, so no failure here is worth a word. */
        pid = fork();
        if (pid == 0) {
                if (dup2(fds[0], STDIN_FILENO) < 0)
                        _exit(EXIT_FAILURE);
                run_pager(wanted);
        }
        close(fds[0]);
        if (pid > 0 && dup2(fds[1], STDOUT_FILENO) >= 0) {
                pager_pid = pid;
                /* ^C is for the pager */
                (void) signal(SIGINT, SIG_IGN);
        }
        close(fds[1]);
}

void pager_close(void) {
        pid_t r;

        if (pager_pid <= 0)
                return;
        /* The pager sees the end only when the last writing end of the pipe is gone. */
        (void) fclose(stdout);
        do
                r = waitpid(pager_pid, NULL, 0);
        while (r < 0 && errno == EINTR);
        pager_pid = 0;
}
