#!/usr/bin/env bash
# Judges MBPP+ with EvalPlus and with rapid-verifier, one after the other on this machine: the data set's canonical solutions, then a file of samples. Prints the
# times of both as JSON. It is not part of test.sh, since it takes about ten minutes.
#   bash scripts/bench-code.sh DATA-DIR SAMPLES.jsonl
set -euo pipefail
[ $# = 2 ] || { sed -n '2,4s/^# *//p' "$0" >&2; exit 2; }
data=$(realpath "$1")
samples=$(realpath "$2")
# shellcheck source-path=SCRIPTDIR source=prerequisites.sh
source "$(dirname "$0")/prerequisites.sh"

bin=${CARGO_TARGET_DIR:-target}/release
venv=${RAPID_HOME:-${XDG_CACHE_HOME:-$HOME/.cache}/rapid}/evalplus
workers=2
# Its sums take minutes if a C long has 32 bits. PERFORMANCE.md reports this task separately.
slowest=599

cargo build --release --locked
[ -x "$venv/bin/python" ] || python3 -m venv "$venv"
"$venv/bin/pip" install --quiet --requirement scripts/bench/requirements.txt
"$venv/bin/pip" install --quiet --no-deps evalplus==0.3.1

compare() {
  printf '== %s, EvalPlus\n' "$1"
  "$venv/bin/python" scripts/bench/evalplus_time.py "$data" --workers $workers "${@:2}"
  printf '== %s, rapid-verifier\n' "$1"
  "$bin/rapid-verifier" bench code --dataset mbppplus --data-dir "$data" --workers $workers --json "${@:2}"
}
compare "canonical solutions without $slowest" --exclude $slowest
compare "samples" --samples "$samples"
