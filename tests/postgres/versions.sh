#!/usr/bin/env bash
# The tests of the store on the oldest and the newest PostgreSQL that it supports. npm has the programs of
# both.
set -euo pipefail
cd "$(dirname "$0")/../.."
# The server does not run as root, and may not be let into this directory.
programs=$(mktemp -d)
trap 'rm -rf "$programs"' EXIT
chmod 755 "$programs"
cp tests/postgres/package.json tests/postgres/package-lock.json "$programs"
npm ci --prefix "$programs" --no-audit --no-fund
for version in 14 18; do
    package="$programs/node_modules/postgres-$version"
    (cd "$package" && node scripts/hydrate-symlinks.js)
    "$package/native/bin/postgres" --version
    PATH="$package/native/bin:$PATH" UNISONO_TEST_POSTGRES_REQUIRED=1 \
        cargo test --workspace --locked --test it -- \
        postgres:: full_database:: members:: reads:: rights:: schemas::
done
