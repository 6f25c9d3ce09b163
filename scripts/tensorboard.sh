#!/usr/bin/env bash
# Checks that TensorBoard's own reader finds the numbers of a run's logs in its event files. It is not part of test.sh, since it installs
# TensorBoard into the cache folder. Trains the quickstart's model for a few updates, kills the run with SIGKILL, resumes it, and compares.
# With a run folder as its argument, it compares the files of that run and trains nothing.
set -euo pipefail
given=${1:+$(realpath "$1")}
# shellcheck source-path=SCRIPTDIR source=prerequisites.sh
source "$(dirname "$0")/prerequisites.sh"

bin=${CARGO_TARGET_DIR:-target}/release
home=${RAPID_HOME:-${XDG_CACHE_HOME:-$HOME/.cache}/rapid}
venv=$home/tensorboard
work=$(mktemp -d)
verifier=
trap '[ -z "$verifier" ] || kill "$verifier" 2>/dev/null; rm -rf "$work"' EXIT

echo "== TensorBoard in $venv" >&2
[ -x "$venv/bin/python" ] || python3 -m venv "$venv"
"$venv/bin/pip" install --quiet --no-compile --requirement scripts/tensorboard/requirements.txt
compare() {
  PYTHONDONTWRITEBYTECODE=1 "$venv/bin/python" scripts/tensorboard/compare.py "$1"
}
if [ -n "$given" ]; then
  compare "$given"
  exit
fi

cargo build --release --locked
"$bin/rapid" fetch model:smollm2-135m-instruct
"$bin/rapid-verifier" serve --listen 127.0.0.1:0 --set code.sandbox=none --set cache.disk=false >"$work/verifier.txt" &
verifier=$!
until url=$(sed -n 's/^listening on //p' "$work/verifier.txt") && [ -n "$url" ]; do
  kill -0 "$verifier"
  sleep 0.1
done

echo "== a run that is killed" >&2
run=$work/run
"$bin/rapid" train --recipe quickstart --verifier "$url" --out "$run" --set algorithm.group_size=4 --set algorithm.n_step=16 \
  --set run.updates=6 --set run.checkpoint_every=2 --set eval.every=2 --set eval.limit=12 --set eval.samples=2 --set 'eval.k=[1, 2]' &
train=$!
# After the third update there is one line more than at the checkpoint.
until [ -f "$run/metrics.jsonl" ] && [ "$(wc -l <"$run/metrics.jsonl")" -ge 3 ]; do
  kill -0 "$train"
  sleep 0.05
done
sleep 0.2
kill -KILL "$train"
wait "$train" || true
compare "$run"

echo "== the run is resumed" >&2
"$bin/rapid" train --resume "$run" --verifier "$url"
compare "$run"
