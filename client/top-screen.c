/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <curses.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/ioctl.h>

#include "log.h"
#include "text.h"
#include "top-screen.h"

enum {
        ESCAPE_DELAY_MSEC = 50, /* the rest of what a function key sends comes within that */
        KEYS_MAX = 64,          /* at once: a pasted text must not keep the screen from being drawn */
        HOST_LEN_MAX = 255,
};

#define DELAY_MIN_NS (50 * NSEC_PER_MSEC)

static const int caught[] = { SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGTSTP, SIGCONT, SIGWINCH };

static volatile sig_atomic_t ended_by = 0;
static volatile sig_atomic_t suspended = 0;
static volatile sig_atomic_t continued = 0;
static volatile sig_atomic_t resized = 0;

static void on_signal(int sig) {
        if (sig == SIGTSTP)
                suspended = 1;
        else if (sig == SIGCONT)
                continued = 1;
        else if (sig == SIGWINCH)
                resized = 1;
        else
                ended_by = sig;
}

static struct sigaction actions_before[ELEMENTSOF(caught)];
static sigset_t mask_before;

/* The signals come in ppoll() only, which gets the mask that is returned. What was ignored stays ignored: nohup(1),
 * and jobs in the background of a shell script. */
static void catch_signals(sigset_t *ret_mask) {
        struct sigaction sa = { .sa_handler = on_signal };
        sigset_t mask;

        sigemptyset(&mask);
        for (size_t i = 0; i < ELEMENTSOF(caught); i++)
                sigaddset(&mask, caught[i]);
        (void) sigprocmask(SIG_BLOCK, &mask, &mask_before);
        *ret_mask = mask_before;
        for (size_t i = 0; i < ELEMENTSOF(caught); i++) {
                (void) sigaction(caught[i], NULL, &actions_before[i]);
                if (actions_before[i].sa_handler != SIG_IGN)
                        (void) sigaction(caught[i], &sa, NULL);
                sigdelset(ret_mask, caught[i]);
        }
}

static void release_signals(void) {
        for (size_t i = 0; i < ELEMENTSOF(caught); i++)
                (void) sigaction(caught[i], &actions_before[i], NULL);
        (void) sigprocmask(SIG_SETMASK, &mask_before, NULL);
}

/* Nobody else may write on the screen: not libraries, and not the ssh(1) of a new connection, which would also ask
 * for a password there. Returns the former stderr. */
static int silence_stderr(void) {
        _cleanup_close_ int null = -EBADF;
        int saved;

        (void) setenv("SSH_ASKPASS_REQUIRE", "force", 1);
        (void) setenv("SSH_ASKPASS", "false", 1);
        log_set_max_level(LOG_CRIT);
        saved = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
        null = open("/dev/null", O_WRONLY | O_CLOEXEC);
        if (saved >= 0 && null >= 0)
                (void) dup2(null, STDERR_FILENO);

        return saved;
}

static void restore_stderr(int saved) {
        if (saved >= 0) {
                (void) dup2(saved, STDERR_FILENO);
                close(saved);
        }
        log_set_max_level(LOG_INFO);
}

static void set_modes(void) {
        (void) cbreak();
        (void) noecho();
        (void) nonl();
        (void) intrflush(stdscr, FALSE);
        (void) keypad(stdscr, TRUE);
        (void) nodelay(stdscr, TRUE);
        (void) set_escdelay(ESCAPE_DELAY_MSEC);
        (void) curs_set(0);
}

static SCREEN *open_terminal(void) {
        SCREEN *terminal;
        char *cursor;

        use_env(FALSE); /* COLUMNS and LINES do not change when the terminal does */
        use_tioctl(TRUE);
        terminal = newterm(NULL, stdout, stdin);
        if (!terminal)
                return NULL;
        cursor = tigetstr("cup");
        if (!cursor || cursor == (char *) -1) {
                (void) endwin();
                delscreen(terminal);
                return NULL;
        }
        set_modes();
        top_draw_init();

        return terminal;
}

/* Sizes of 0, which terminals on serial lines have, do not count. */
static void follow_size(void) {
        struct winsize size;

        if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) < 0 || size.ws_row == 0 || size.ws_col == 0)
                return;
        if (size.ws_row != LINES || size.ws_col != COLS)
                (void) resizeterm(size.ws_row, size.ws_col);
        (void) clearok(curscr, TRUE);
}

static void screen_clear(Screen *s) {
        top_source_free(s->source);
        top_detail_clear(&s->detail);
        free(s->list);
        top_model_clear(&s->model);
        manager_info_clear(&s->info);
        top_selection_clear(&s->list_at);
        top_selection_clear(&s->detail_at);
        free(s->host);
        free(s->filter);
        free(s->unit);
        free(s->user_unit);
        *s = (Screen){};
}

static char *host_name(const Options *o) {
        char name[HOST_LEN_MAX + 1] = "";

        if (o->host || o->machine)
                return text_escape(o->host ?: o->machine);
        (void) gethostname(name, sizeof(name) - 1);

        return text_escape(name);
}

/* What is shown points into the model: to be done whenever that changes. */
static void select_rows(Screen *s) {
        free(s->list);
        s->list = NULL;
        s->n_list = 0;
        top_detail_clear(&s->detail);
        if (s->in_detail)
                (void) top_detail(&s->model, &s->order, s->unit, s->user_unit, &s->detail);
        if (top_select(&s->model, &s->order, s->filter, &s->list, &s->n_list) >= 0)
                top_selection_find(&s->list_at, s->list, s->n_list);
}

/* Returns whether there is a new listing. */
static bool take_listing(Screen *s) {
        _cleanup_(rows_clear) Rows rows = {};
        _cleanup_(manager_info_clear) ManagerInfo info = {};
        bool failed = top_source_error(s->source) != NULL;

        if (!top_source_take(s->source, &rows, &info)) {
                if (!failed)
                        (void) clearok(curscr, TRUE); /* ssh may have said why */
                return false;
        }
        if (top_model_update(&s->model, &rows, now_ns()) < 0)
                return false;
        manager_info_clear(&s->info);
        s->info = info;
        info = (ManagerInfo){};
        select_rows(s);

        return true;
}

static void suspend(const sigset_t *mask) {
        struct sigaction sa = { .sa_handler = SIG_DFL }, before;
        sigset_t all;

        (void) curs_set(1);
        (void) endwin();
        (void) sigaction(SIGTSTP, &sa, &before);
        (void) raise(SIGTSTP);
        (void) sigprocmask(SIG_SETMASK, mask, &all); /* stops here */
        (void) sigprocmask(SIG_SETMASK, &all, NULL);
        (void) sigaction(SIGTSTP, &before, NULL);
        continued = 1;
}

/* Returns false at the end. */
static bool handle_signals(const sigset_t *mask) {
        if (ended_by)
                return false;
        if (suspended) {
                suspended = 0;
                suspend(mask);
        }
        if (continued) { /* also after SIGSTOP, when nobody could leave the screen first */
                continued = 0;
                (void) endwin();
                (void) refresh();
                (void) curs_set(0);
                follow_size();
        }
        if (resized) {
                resized = 0;
                follow_size();
        }

        return true;
}

/* Returns false if the user wants to leave. */
static bool handle_keys(Screen *s, bool *refresh_now) {
        for (unsigned i = 0; i < KEYS_MAX; i++) {
                wint_t key;
                int r;

                r = get_wch(&key);
                if (r == ERR)
                        break;
                switch (top_key(s, (int) key, r == KEY_CODE_YES)) {
                case KEY_RESULT_QUIT:
                        return false;
                case KEY_RESULT_REFRESH:
                        *refresh_now = true;
                        break;
                case KEY_RESULT_SELECT:
                        select_rows(s);
                        break;
                case KEY_RESULT_CLEAR:
                        (void) clearok(curscr, TRUE);
                        break;
                case KEY_RESULT_DRAW:
                case KEY_RESULT_NONE:
                        break;
                }
        }

        return true;
}

static int wait_for_any(Screen *s, struct pollfd fds[static 2], uint64_t began_ns, const sigset_t *mask) {
        uint64_t until_ns = UINT64_MAX, now;
        struct timespec ts = {};

        if (!top_source_is_busy(s->source)) /* else it tells when it is done */
                until_ns = began_ns + MIN(s->delay_ns, UINT64_MAX - began_ns);

        fds[0] = (struct pollfd){ .fd = STDIN_FILENO, .events = POLLIN };
        top_source_prepare(s->source, &fds[1], &until_ns);
        now = now_ns();
        if (until_ns > now) {
                ts.tv_sec = (time_t) ((until_ns - now) / NSEC_PER_SEC);
                ts.tv_nsec = (long) ((until_ns - now) % NSEC_PER_SEC);
        }

        return ppoll(fds, 2, &ts, mask);
}

static void loop(Screen *s, const sigset_t *mask) {
        uint64_t began = now_ns(), left = s->options->lines;
        bool refresh_now = false;
        struct pollfd fds[2];

        top_source_start(s->source);
        for (;;) {
                int r;

                top_draw(s);
                r = wait_for_any(s, fds, began, mask);
                if (!handle_signals(mask) || (r < 0 && errno != EINTR))
                        return;
                if (r > 0 && fds[0].revents & (POLLHUP | POLLERR | POLLNVAL) && !(fds[0].revents & POLLIN))
                        return; /* the terminal is gone */
                if (!handle_keys(s, &refresh_now))
                        return;
                if (r > 0 && fds[0].revents & POLLHUP)
                        return;
                if (top_source_process(s->source) && take_listing(s) && s->model.interval_ns > 0 &&
                    left != UINT64_MAX && --left == 0) {
                        top_draw(s);
                        return;
                }
                if (!top_source_is_busy(s->source) && (refresh_now || now_ns() - began >= s->delay_ns)) {
                        refresh_now = false;
                        began = now_ns();
                        top_source_start(s->source);
                }
        }
}

int top_screen_run(const Options *o, Query *q) {
        _cleanup_(screen_clear) Screen s = { .options = o, .delay_ns = MAX(o->delay_ns, DELAY_MIN_NS) };
        SCREEN *terminal;
        sigset_t mask;
        int saved;

        catch_signals(&mask);
        terminal = open_terminal();
        if (!terminal) {
                release_signals();
                return -EOPNOTSUPP;
        }
        saved = silence_stderr();
        s.host = host_name(o);
        if (s.host && top_source_new(o, q, &s.source) >= 0)
                loop(&s, &mask);

        (void) curs_set(1);
        (void) endwin();
        delscreen(terminal);
        restore_stderr(saved);
        release_signals();
        if (!s.source) {
                query_free(q);
                return log_oom();
        }
        if (ended_by) /* what the shell expects of a program that is interrupted */
                (void) raise(ended_by);

        return EXIT_SUCCESS;
}
