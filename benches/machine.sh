#!/usr/bin/env bash
# Says what machine the figures are from, as a line of markdown.
set -euo pipefail
cpu=$(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -1)
memory=$(awk '/^MemTotal/ { printf "%.0f GiB", $2 / 1048576 }' /proc/meminfo)
printf '> %s: %s × %s, %s, Linux %s, %s, load %s, commit %s\n' \
    "$(date -u +%F)" "$(nproc)" "$cpu" "$memory" "$(uname -r)" "$(rustc --version)" \
    "$(cut -d' ' -f1 /proc/loadavg)" "$(git rev-parse --short HEAD)"
