#!/usr/bin/env bash
# Measures runs of several ranks on this machine: one process of two threads beside two ranks of one thread, and, as root, ranks on networks of 1 and 10 Gbit/s. Needs the
# release binaries, the model smollm2-135m-instruct and Open MPI (apt-get install openmpi-bin), and an idle machine. Takes about ten minutes.
#   bash scripts/bench-ranks.sh
set -euo pipefail
# shellcheck source-path=SCRIPTDIR source=prerequisites.sh
source "$(dirname "$0")/prerequisites.sh"

target=$(realpath -m "${CARGO_TARGET_DIR:-target}")
if ! [ -x "$target/release/rapid" ]; then
  echo "error: there is no $target/release/rapid: cargo build --release --locked --workspace" >&2
  exit 2
fi
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 scripts/bench/ranks.py "$target/release/rapid" "$target/release/rapid-verifier" "$folder"
