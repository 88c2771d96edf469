# The checks and measurements of the project. `just` lists them; `.ci/run` checks more.

default:
    @just --list

# What a change must pass first: format, lints, tests, documentation, licences. `.ci/run` has the rest.
verify: fmt-check clippy test doc deny

fmt-check:
    cargo fmt --all -- --check

fmt:
    cargo fmt --all

clippy:
    cargo clippy --workspace --all-targets --all-features -- -D warnings

test:
    cargo test --workspace

doc:
    RUSTDOCFLAGS="-D warnings" cargo doc --workspace --no-deps

# Licences, sources and banned crates, and the advisory database (fetched from its home).
deny:
    cargo deny check

# The main job on the example conversation, in a throw-away store.
demo:
    cargo run -- run examples/orders-migration.jsonl --compact-above 9000 --store "$(mktemp -d)/store"

# The examples in Rust: an agent by the trait, the runtime inside a program, an actor.
example:
    cargo run -p custom-agent
    cp Cargo.lock examples/embed/
    CARGO_TARGET_DIR=target cargo run --manifest-path examples/embed/Cargo.toml
    UNISONO__STORE__PATH="$(mktemp -d)/store" cargo run -p actor-agent -- run examples/orders-migration.jsonl --config examples/actor_agent/config/unisono.toml --task "How long is it?"

# All benchmarks, as the rows that benches/README.md quotes; `just bench --bench turn` for one.
bench *args:
    @benches/machine.sh
    @cargo build --release --quiet -p unisono-cli --bin unisono
    @bash -o pipefail -c "cargo bench -p unisono-benches {{args}} | grep --line-buffered '^[#|>]'"

# From a fresh clone of HEAD to the first answer, in the same form.
bench-quickstart:
    @benches/machine.sh
    @benches/quickstart.sh

# The page in a real browser, in the same form.
bench-page:
    @benches/machine.sh
    @cargo build --release --quiet -p unisono-cli -p unisono-fake-provider
    @UNISONO=target/release/unisono UNISONO_FAKE_PROVIDER=target/release/fake-provider node benches/page.mjs

# A turn on each real provider that a key is set for; the others are skipped, and that is said.
live:
    @tests/live.sh

# The built-in catalogue anew (config/catalogue.toml), from the newest public table.
catalogue:
    scripts/catalogue.py

# Crash and power-cut tests with many more rounds, and a million turns with crashes.
soak rounds="1000":
    UNISONO_SOAK_ROUNDS={{rounds}} cargo test --release -p unisono-cli --test kill
    UNISONO_SOAK_ROUNDS={{rounds}} cargo test --release -p unisono-store -- --nocapture
    UNISONO_SIM_SEEDS=1000000 cargo test --release -p unisono-session --test simulation -- --nocapture

# The crash harness of three daemons on one PostgreSQL database.
soak-cluster rounds="1000":
    UNISONO_SOAK_ROUNDS={{rounds}} cargo test --release -p unisono-cli --test cluster

# The tests of the store on the oldest and the newest PostgreSQL that it supports (from npm).
postgres:
    tests/postgres/versions.sh

# The page in a real browser, and official clients against the daemon; screenshots go to DIR.
browser DIR="":
    cargo build -p unisono-cli -p unisono-fake-provider
    npm ci --prefix tests/ui && npm ci --prefix tests/sdk
    UNISONO_SHOTS="{{DIR}}" node --test tests/ui/page.test.mjs tests/ui/texts.test.mjs tests/ui/workbench.test.mjs tests/ui/looking.test.mjs tests/ui/agents.test.mjs tests/ui/open.test.mjs tests/ui/sizes.test.mjs tests/ui/forms.test.mjs tests/ui/shifts.test.mjs
    node --test tests/sdk/openai.test.mjs tests/sdk/chat.test.mjs tests/sdk/acp.test.mjs tests/sdk/acp_agent.test.mjs tests/sdk/a2a.test.mjs
    python3 -m venv target/sdk && target/sdk/bin/pip install --quiet --requirement tests/sdk/requirements.txt
    target/sdk/bin/python tests/sdk/test_openai.py
    target/sdk/bin/python tests/sdk/test_a2a.py
    target/sdk/bin/python tests/sdk/test_a2a_agent.py

# The description of the API: a validator, Redocly, generated TypeScript, Schemathesis against a daemon.
api:
    cargo build -p unisono-cli -p unisono-fake-provider
    npm ci --prefix tests/api
    python3 -m venv target/api && target/api/bin/pip install --quiet --requirement tests/api/requirements.txt
    target/api/bin/python tests/api/check.py
