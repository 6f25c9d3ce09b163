#!/usr/bin/env bash
# Compares pairs of answers to mathematics problems with Math-Verify and with rapid-verifier. They run one after the other on this machine, with one thread each.
# Prints the results of both as JSON. It is not part of test.sh.
#   bash scripts/bench-math.sh [PAIRS.tsv]
set -euo pipefail
[ $# -le 1 ] || { sed -n '2,4s/^# *//p' "$0" >&2; exit 2; }
pairs=$(realpath "${1:-$(dirname "$0")/../verifier/math-answer/tests/math_pairs.tsv}")
# shellcheck source-path=SCRIPTDIR source=prerequisites.sh
source "$(dirname "$0")/prerequisites.sh"

venv=${RAPID_HOME:-${XDG_CACHE_HOME:-$HOME/.cache}/rapid}/math-verify
cargo build --release --locked
[ -x "$venv/bin/python" ] || python3 -m venv "$venv"
"$venv/bin/pip" install --quiet math-verify==0.9.0

echo "== Math-Verify"
"$venv/bin/python" scripts/bench/math_verify_time.py "$pairs"
echo "== rapid-verifier"
"${CARGO_TARGET_DIR:-target}/release/rapid-verifier" bench math --pairs "$pairs" --json
