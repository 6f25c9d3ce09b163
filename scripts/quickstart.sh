#!/usr/bin/env bash
# The first command to run: builds both programs, fetches a small model, starts a verifier, trains the model, and prints its results before and after.
# It accepts the options of `rapid quickstart`: bash scripts/quickstart.sh --help
set -euo pipefail
# shellcheck source-path=SCRIPTDIR source=prerequisites.sh
source "$(dirname "$0")/prerequisites.sh"

echo "Building rapid and rapid-verifier (the first build takes about ten minutes on two cores) …" >&2
cargo build --release --locked
exec "${CARGO_TARGET_DIR:-target}/release/rapid" quickstart "$@"
