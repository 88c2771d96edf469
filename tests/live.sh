#!/usr/bin/env bash
# A turn on each real provider that a key is set for: two agents and a lead on one snapshot.
# Without a key a provider is skipped, and that is said. Costs a few cents.
set -euo pipefail
cd "$(dirname "$0")/.."
cargo build --quiet
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failed=0

smoke() {
    local name=$1 model=$2
    shift 2
    if ! target/debug/unisono run examples/orders-migration.jsonl --compact-above 9000 \
        --store "$work/$name" --model "$model" --agents risks,facts --timeout 5m --json "$@" \
        >"$work/$name.json" 2>"$work/$name.err"; then
        printf '%-10s FAILED\n' "$name"
        tail -5 "$work/$name.err"
        failed=1
        return
    fi
    python3 - "$name" "$model" "$work/$name.json" <<'PY'
import json, sys
name, model, path = sys.argv[1:]
report = json.load(open(path))
runs = report["runs"]
total = lambda key: sum(run[key] or 0 for run in runs)
print(f"{name:10} ok       {model}: {total('input_tokens')} tokens in, "
      f"{total('cache_read_tokens')} of them cached, {total('output_tokens')} out, "
      f"$ {report['cost_usd'] if report['cost_usd'] is not None else '?'}")
PY
}

one() {
    local name=$1 model=$2
    shift 2
    for variable in "$@"; do
        if [ -n "${!variable:-}" ]; then
            smoke "$name" "$model"
            return
        fi
    done
    printf '%-10s skipped  (%s not set)\n' "$name" "$*"
}

one anthropic "${LIVE_ANTHROPIC:-anthropic/claude-sonnet-5-5}" ANTHROPIC_API_KEY
one openai "${LIVE_OPENAI:-openai/gpt-6.1-terra}" OPENAI_API_KEY
one openai-chat "${LIVE_OPENAI_CHAT:-openai/gpt-4.1-mini}" OPENAI_API_KEY
one gemini "${LIVE_GEMINI:-gemini/gemini-3.5-flash-lite}" GEMINI_API_KEY GOOGLE_API_KEY
# An Azure resource has an address of its own, and its models the names of its deployments.
if [ -n "${AZURE_OPENAI_API_KEY:-}" ] && [ -n "${LIVE_AZURE_URL:-}" ] && [ -n "${LIVE_AZURE:-}" ]; then
    smoke azure "azure/$LIVE_AZURE" --set "providers.azure.base_url=$LIVE_AZURE_URL" \
        ${LIVE_AZURE_API_VERSION:+--set "providers.azure.api_version=$LIVE_AZURE_API_VERSION"}
else
    printf '%-10s skipped  (AZURE_OPENAI_API_KEY, LIVE_AZURE_URL: https://NAME.openai.azure.com/openai/v1, and LIVE_AZURE, a deployment: not all set)\n' azure
fi
if [ -n "${LIVE_LOCAL_URL:-}" ]; then
    smoke local "openai-compatible/${LIVE_LOCAL_MODEL:?the name of the local model}" \
        --set "providers.openai-compatible.base_url=$LIVE_LOCAL_URL"
else
    printf '%-10s skipped  (LIVE_LOCAL_URL not set: http://127.0.0.1:11434/v1)\n' local
fi
exit "$failed"
