# SPDX-License-Identifier: LGPL-2.1-or-later
"""Runs the test functions of a file as TAP, and cleans up behind them whatever happens.

A test file defines functions test_*(t), where t is a Test, and ends with `harness.main()`. It may define
setup(t), whose result is t.rig in every test of the file, and give a test several lines with @cases.

Everything that a run makes carries its name (process id and start time) and lives in a mount namespace of its own,
so that two runs never meet, and mounts, loop devices and pins vanish with the last process of the run even if that
is killed. What a killed run leaves behind (directories, cgroups) is removed by the next one."""

import contextlib
import ctypes
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback

PREFIX = 'iolat-test-'
SHM = pathlib.Path('/dev/shm')
BUILD = pathlib.Path(os.environ.get('IOLAT_BUILD', pathlib.Path(__file__).parents[2] / 'build')).resolve()
TEST_TIMEOUT_SEC = 240

libc = ctypes.CDLL(None, use_errno=True)
CLONE_NEWNS = 0x00020000
MS_REC_PRIVATE = 0x4000 | 0x40000
PR_SET_PDEATHSIG = 1


class Skip(Exception):
    """The machine cannot show what the test wants to see."""


def skip(reason):
    raise Skip(reason)


def start_time(pid):
    """Boot-relative start of a process, which with its number names it for good; None if it is gone."""
    try:
        stat = pathlib.Path(f'/proc/{pid}/stat').read_text()
    except OSError:
        return None
    return int(stat.rpartition(')')[2].split()[19])


RUN = f'{PREFIX}{os.getpid()}-{start_time(os.getpid())}'


def is_left_over(name):
    m = re.search(r'iolat[-_]test[-_](\d+)[-_](\d+)', name)
    return bool(m) and start_time(int(m[1])) != int(m[2])


def cgroup_root():
    for line in pathlib.Path('/proc/self/mountinfo').read_text().splitlines():
        fields = line.split()
        if fields[fields.index('-') + 1] == 'cgroup2':
            return pathlib.Path(fields[4])
    return None


def remove_cgroup(path):
    """Removes a subtree; processes that still are in it were started by a test."""
    for child in sorted(path.glob('*/')):
        remove_cgroup(child)
    deadline = time.monotonic() + 10
    while True:
        try:
            path.rmdir()
            return
        except FileNotFoundError:
            return
        except OSError:
            if time.monotonic() > deadline:
                print(f'# cannot remove {path}', flush=True)
                return
        with contextlib.suppress(OSError):
            for pid in (path / 'cgroup.procs').read_text().split():
                os.kill(int(pid), signal.SIGKILL)
        time.sleep(0.01)


def remove_leftovers():
    for directory in (pathlib.Path(tempfile.gettempdir()), SHM):
        for path in directory.glob(PREFIX + '*'):
            if is_left_over(path.name):
                shutil.rmtree(path, ignore_errors=True)
    root = cgroup_root()
    for path in root.rglob('*iolat?test?*/') if root else []:
        if is_left_over(path.name):
            remove_cgroup(path)
            with contextlib.suppress(OSError):  # in use
                for parent in path.relative_to(root).parents:
                    (root / parent).rmdir()


def die_with_parent():
    libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)


def run(*args, check=True, timeout=120, **kwargs):
    """Runs a program to its end; its output is in the exception if it fails."""
    kwargs = {'stdout': subprocess.PIPE, 'stderr': subprocess.PIPE, 'text': True} | kwargs
    r = subprocess.run([str(a) for a in args], timeout=timeout, preexec_fn=die_with_parent, **kwargs)
    if check and r.returncode != 0:
        raise AssertionError(f'{" ".join(str(a) for a in args)} exited with {r.returncode}:\n{r.stdout}\n{r.stderr}')
    return r


def start(*args, **kwargs):
    return subprocess.Popen([str(a) for a in args], preexec_fn=die_with_parent, **kwargs)


def stop(process, sig=signal.SIGTERM, timeout=20):
    if process.poll() is None:
        process.send_signal(sig)
        try:
            process.wait(timeout)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            raise AssertionError(f'{process.args[0]} did not end within {timeout} s of signal {sig}') from None
    return process.returncode


def wait_for(condition, timeout=10, what='condition'):
    """Returns the first true value of condition()."""
    deadline = time.monotonic() + timeout
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > deadline:
            raise AssertionError(f'{what}: still not so after {timeout} s')
        time.sleep(0.05)


def check(condition, message):
    if not condition:
        raise AssertionError(message)


def equal(got, expected, what):
    check(got == expected, f'{what}: is {got!r}, should be {expected!r}')


class Test:
    """What a test function gets: a name of its own, a directory, and things to be undone at its end."""

    def __init__(self, name, rig=None):
        self.name = name
        self.rig = rig
        self.stack = contextlib.ExitStack()
        self.reports = []  # called when the test fails, print what helps to see why

    def enter(self, manager):
        return self.stack.enter_context(manager)

    def defer(self, function, *args):
        self.stack.callback(function, *args)

    def directory(self, name='dir', parent=None):
        parent = pathlib.Path(parent or os.environ['IOLAT_TEST_DIR'])
        path = pathlib.Path(tempfile.mkdtemp(prefix=f'{name}-', dir=parent))
        self.defer(shutil.rmtree, path, True)
        return path


def cases(*values):
    """One TAP line for each value, which the function gets as its second argument. Its text is the line's name."""
    def decorate(function):
        function.cases = values
        return function
    return decorate


def diagnose(text):
    for line in text.rstrip().splitlines():
        print(f'# {line}', flush=True)


def attempt(number, name, function, rig):
    """Runs one test and prints its line. Returns whether it did not fail."""
    test = Test(name, rig)
    reports = rig_reports(rig)
    began = time.monotonic()
    signal.alarm(TEST_TIMEOUT_SEC)
    try:
        with test.stack:
            try:
                function(test)
            except Exception as e:
                if not isinstance(e, Skip):
                    for report in test.reports + reports:
                        diagnose(report())
                raise
    except Skip as e:
        print(f'ok {number} - {name} # SKIP {e}', flush=True)
        return True
    except Exception:
        print(f'not ok {number} - {name}', flush=True)
        diagnose(traceback.format_exc())
        return False
    finally:
        signal.alarm(0)
    print(f'ok {number} - {name} # {time.monotonic() - began:.1f} s', flush=True)
    return True


def rig_reports(rig):
    return getattr(rig, 'reports', [])


def collect(module, wanted):
    for name, function in vars(module).items():
        if not name.startswith('test_') or not callable(function):
            continue
        title = name.removeprefix('test_').replace('_', ' ')
        lines = [(title, function)]
        if hasattr(function, 'cases'):
            lines = [(f'{title}: {c}', lambda t, c=c, f=function: f(t, c)) for c in function.cases]
        for line, call in lines:
            if not wanted or any(w in line for w in wanted):
                yield line, call


def interrupted(number, frame):
    sys.exit(128 + number)


def timed_out(number, frame):
    raise AssertionError(f'the test took longer than {TEST_TIMEOUT_SEC} s')


def enter_namespace():
    """A mount namespace of our own. The one that we came from stays open as $IOLAT_TEST_OUTSIDE."""
    outside = os.open('/proc/self/ns/mnt', os.O_RDONLY)
    os.environ['IOLAT_TEST_OUTSIDE'] = f'/proc/{os.getpid()}/fd/{outside}'
    if libc.unshare(CLONE_NEWNS) != 0:
        raise OSError(ctypes.get_errno(), 'cannot have a mount namespace')
    if libc.mount(b'none', b'/', None, MS_REC_PRIVATE, None) != 0:
        raise OSError(ctypes.get_errno(), 'cannot make mounts private')


def run_all(module, tests):
    failed = 0
    base = tempfile.mkdtemp(prefix=f'{RUN}-')
    os.environ['IOLAT_TEST_DIR'] = base
    try:
        shared = Test('setup')
        with shared.stack:
            rig, why = None, None
            if hasattr(module, 'setup'):
                try:
                    rig = module.setup(shared)
                    rig.reports = shared.reports
                except Skip as e:
                    why = str(e)
                except Exception:
                    for report in shared.reports:
                        diagnose(report())
                    raise
            for number, (name, function) in enumerate(tests, 1):
                if why:
                    print(f'ok {number} - {name} # SKIP {why}', flush=True)
                elif not attempt(number, name, function, rig):
                    failed += 1
    finally:
        shutil.rmtree(base, ignore_errors=True)
    return failed


def main():
    """Arguments: parts of names of the tests to run; --list only lists."""
    module = sys.modules['__main__']
    wanted = [a for a in sys.argv[1:] if a != '--list']
    tests = list(collect(module, wanted))
    if '--list' in sys.argv:
        for name, _ in tests:
            print(name)
        return
    if os.geteuid() != 0:
        print('1..0 # SKIP must be run as root')
        return
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, interrupted)
    signal.signal(signal.SIGALRM, timed_out)
    remove_leftovers()
    enter_namespace()
    print(f'1..{len(tests)}', flush=True)
    sys.exit(1 if run_all(module, tests) else 0)
