#!/usr/bin/env bash
# The first command: builds both programs, then fetches a small model, trains it against a verifier started for it, and shows before and after.
# Takes the options of `rapid quickstart`: bash scripts/quickstart.sh --help
set -euo pipefail
# shellcheck source-path=SCRIPTDIR source=prerequisites.sh
source "$(dirname "$0")/prerequisites.sh"

echo "Building rapid and rapid-verifier (the first time takes some ten minutes on two cores) …" >&2
cargo build --release --locked
exec "${CARGO_TARGET_DIR:-target}/release/rapid" quickstart "$@"
