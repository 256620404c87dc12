# SPDX-License-Identifier: LGPL-2.1-or-later
#
# This file is part of iolat.

set -l commands status list histogram top stalls blame trace probes metrics
set -l ops fsync fdatasync sync syncfs syncrange msync syncwrite dread dwrite slowwrite slowread slowfault meta \
    write read rq-read rq-write rq-flush rq-discard writeback
set -l phases total data io throttle journal admission flush lock freeze reclaim fs other runqueue queue device \
    dirty-age

function __fish_iolatctl_units
    iolatctl --json=short list 2>/dev/null | string match -ar '"unit":"[^("][^"]*"' |
        string replace -r '^"unit":"(.*)"$' '$1' | string replace -a '\\\\' '\\' | sort -u
end

complete -c iolatctl -f

complete -c iolatctl -n "not __fish_seen_subcommand_from $commands" -a status -d 'Show a summary, or the waits of units'
complete -c iolatctl -n "not __fish_seen_subcommand_from $commands" -a list -d 'List what was measured'
complete -c iolatctl -n "not __fish_seen_subcommand_from $commands" -a histogram -d 'Show how waits are distributed'
complete -c iolatctl -n "not __fish_seen_subcommand_from $commands" -a top -d 'Show who waits most, again and again'
complete -c iolatctl -n "not __fish_seen_subcommand_from $commands" -a stalls -d 'List operations that took long, or still do'
complete -c iolatctl -n "not __fish_seen_subcommand_from $commands" -a blame -d 'Show who made units wait'
complete -c iolatctl -n "not __fish_seen_subcommand_from $commands" -a trace -d 'Show operations as they end'
complete -c iolatctl -n "not __fish_seen_subcommand_from $commands" -a probes -d 'Show what is measured on this host'
complete -c iolatctl -n "not __fish_seen_subcommand_from $commands" -a metrics -d 'Print everything as Prometheus reads it'
complete -c iolatctl -n "__fish_seen_subcommand_from status list histogram stalls blame trace" -a '(__fish_iolatctl_units)' -d Unit

complete -c iolatctl -s h -l help -d 'Show help'
complete -c iolatctl -l version -d 'Show package version'
complete -c iolatctl -l no-pager -d 'Do not pipe output into a pager'
complete -c iolatctl -s b -l boot -d 'Show what is of this boot'
complete -c iolatctl -l no-legend -d 'Do not show headers and footers'
complete -c iolatctl -s H -l host -x -a '(__fish_print_hostnames)' -d 'Operate on remote host'
complete -c iolatctl -s M -l machine -x -d 'Operate on local container'
complete -c iolatctl -l socket -r -F -d 'Connect to this socket of iolatd'
complete -c iolatctl -l json -x -a 'pretty short off' -d 'Output as JSON'
complete -c iolatctl -s j -d 'Output as JSON'
complete -c iolatctl -s a -l all -d 'Show all phases and columns, or all buckets'
complete -c iolatctl -l by -x -a device -d 'List requests by disk and unit'
complete -c iolatctl -l op -x -a "$ops" -d 'Show only these operations'
complete -c iolatctl -l phase -x -a "$phases" -d 'Show only these phases'
complete -c iolatctl -l device -x -a '(cd /sys/dev/block 2>/dev/null; and string match "*:*" *)' -d 'Show the histogram of this device only'
complete -c iolatctl -s S -l since -x -a 'now today yesterday -5min -1h -1d' -d 'Show what is not older than this time'
complete -c iolatctl -s U -l until -x -a 'now today yesterday -5min -1h -1d' -d 'Show what is not newer than this time'
complete -c iolatctl -l min -x -d 'Show operations that took at least that long'
complete -c iolatctl -s f -l follow -d 'Go on showing stalls as they come'
complete -c iolatctl -s n -l lines -x -d 'Number of stalls, rows of blame or traced operations'
complete -c iolatctl -l batch -d 'Let top print lines instead of filling the screen'
complete -c iolatctl -s n -l iterations -x -d 'Number of iterations of top'
complete -c iolatctl -s d -l delay -x -d 'Time between iterations of top'
