#!/usr/bin/env bash
# From a fresh clone of what is committed to the first answer, with an empty target folder: the
# time to build and the time to run, as rows of markdown. What crates.io serves is downloaded
# before the clock starts.
set -euo pipefail
here=$(cd "$(dirname "$0")/.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
git clone --quiet --no-local "$here" "$work/unisono"
cd "$work/unisono"
export CARGO_TARGET_DIR="$work/target"
cargo fetch --quiet --locked

seconds() {
    local start end
    start=$EPOCHREALTIME
    "$@" >"$work/out" 2>"$work/err" || { cat "$work/err" >&2; exit 1; }
    end=$EPOCHREALTIME
    awk "BEGIN { print $end - $start }"
}

built=$(seconds cargo build --locked)
ran=$(seconds cargo run --locked -- \
    run examples/orders-migration.jsonl --compact-above 9000 --store "$work/store")
verdict() { awk "BEGIN { print ($1 <= $2) ? \"yes\" : \"**no**\" }"; }

printf '\n### quickstart\n\n'
printf '> Fresh clone, empty target folder, %s cores; the first answer has %s bytes.\n\n' \
    "$(nproc)" "$(wc -c <"$work/out")"
printf '| what | target | result | ratio | met |\n|---|---|---|---|---|\n'
total=$(awk "BEGIN { print $built + $ran }")
printf '| clone to first answer | ≤ 300 s | %.1f s | | %s |\n' "$total" "$(verdict "$total" 300)"
printf '| of which building | | %.1f s | | |\n' "$built"
printf '| of which running | ≤ 2 s | %.2f s | | %s |\n' "$ran" "$(verdict "$ran" 2)"
