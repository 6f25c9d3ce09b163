#!/usr/bin/env bash
# Trains on starter-code twice for each seed, once with each rule by which the verifier finds the program in a completion. Prints the paired differences of Pass@1 on
# the held-out and on the training tasks, each with its interval. Both are evaluated by the new rule. It is not part of test.sh: a run takes about 5 minutes on two
# cores.
#   bash scripts/bench/extraction.sh OUT-DIR [SEED...]
set -euo pipefail
[ $# -ge 1 ] || { sed -n '2,5s/^# *//p' "$0" >&2; exit 2; }
out=$(realpath -m "$1"); shift
[ $# -gt 0 ] || set -- 0 1 2
cd "$(dirname "$0")/../.."
bin=${CARGO_TARGET_DIR:-target}/release
updates=${UPDATES:-10}
# At 0.9 the model solves a fortieth of the tasks, at 0.6 a sixteenth, which gives more groups with a gradient.
temperature=0.6
mkdir -p "$out"

verifier=
stop() { [ -z "$verifier" ] || { kill "$verifier" 2>/dev/null || :; wait "$verifier" 2>/dev/null || :; }; verifier=; }
trap stop EXIT
# Starts a verifier with the rule $1 and sets url to its address.
start() {
  stop
  rm -f "$out/verifier.out"
  "$bin/rapid-verifier" serve --listen 127.0.0.1:0 --code-extraction "$1" --require code > "$out/verifier.out" 2> "$out/verifier.log" &
  verifier=$!
  until grep -qs '^listening on ' "$out/verifier.out"; do kill -0 "$verifier"; sleep 0.2; done
  url=$(sed -n 's/^listening on //p' "$out/verifier.out")
}

for rule in last-block program; do
  start "$rule"
  for seed in "$@"; do
    run=$out/$rule-$seed
    [ -d "$run/checkpoints/step-$updates" ] || "$bin/rapid" train --recipe smollm2-mbppplus --verifier "$url" --out "$run" \
      --set verifier.code_extraction="$rule" --set data.dataset=starter-code --set run.seed="$seed" --set run.updates="$updates" --set run.checkpoint_every="$updates" \
      --set algorithm.n_step=64 --set algorithm.group_size=8 --set optimiser.lr=2e-5 --set sampling.temperature=$temperature --set sampling.max_tokens=96 --set eval.every=0 --set eval.samples=1 --set eval.limit=1 --set eval.k='[1]'
  done
done
start program
for rule in last-block program; do
  for seed in "$@"; do
    # Outside its run's folder, and without rapid.toml, a checkpoint does not require the rule of its training.
    model=$out/$rule-$seed.model
    rm -rf "$model"
    cp -r "$out/$rule-$seed/checkpoints/step-$updates" "$model"
    rm -f "$model/rapid.toml"
    for split in eval train; do
      "$bin/rapid" eval --model "$model" --dataset starter-code --split "$split" --template mbppplus --max-tokens 96 \
        -n 4 --k 1 --temperature "$temperature" --verifier "$url" --out "$out/$rule-$seed.$split.jsonl"
    done
  done
done
python3 scripts/bench/extraction_difference.py "$out" "$@"
