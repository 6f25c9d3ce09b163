#!/usr/bin/env bash
# Compares the engine with transformers. It is not part of test.sh, since it installs torch (5 GB on Linux) into the cache folder.
#   1. generates tests/golden/smollm2.json again and compares it with the committed one;
#   2. runs `rapid generate` on the same prompts, and compares tokens and log-probabilities with transformers';
#   3. trains all weights for one update, and adapters (LoRA) for two, loads each checkpoint in transformers, and compares the same with the trained weights;
#   4. for small random models of every family, saved by transformers: compares logits and greedy tokens, trains for one update, and compares the
#      same of the checkpoint that the engine saved;
#   5. generates tests/golden/chat.json, the golden conversations, again and compares it with the committed one.
set -euo pipefail
# shellcheck source-path=SCRIPTDIR source=prerequisites.sh
source "$(dirname "$0")/prerequisites.sh"

bin=${CARGO_TARGET_DIR:-target}/release
golden=tests/golden/smollm2.json
home=${RAPID_HOME:-${XDG_CACHE_HOME:-$HOME/.cache}/rapid}
venv=$home/parity
work=$(mktemp -d)
verifier=
trap '[ -z "$verifier" ] || kill "$verifier" 2>/dev/null; rm -rf "$work"' EXIT

echo "== torch and transformers in $venv" >&2
if ! "$venv/bin/python" -c 'import torch, transformers, gguf' 2>/dev/null; then
  python3 -m venv "$venv"
fi
"$venv/bin/pip" install --quiet --no-compile --requirement scripts/parity/requirements.txt
export HF_HUB_OFFLINE=1 PYTHONDONTWRITEBYTECODE=1 TRANSFORMERS_VERBOSITY=error
python() {
  nice -n 10 "$venv/bin/python" "$@"
}

cargo build --release --locked
"$bin/rapid" fetch model:smollm2-135m-instruct
model=$(find "$home/models/smollm2-135m-instruct" -name '*.gguf')

echo "== golden values" >&2
python scripts/parity/golden.py "$model" "$work/golden.json"
python scripts/parity/compare.py golden "$golden" "$work/golden.json"

echo "== the engine" >&2
python scripts/parity/compare.py prompts "$golden" >"$work/prompts.jsonl"
generate() {
  "$bin/rapid" generate --model "$1" --prompts "$work/prompts.jsonl" --max-tokens 32 --temperature 0 --logprobs --out "$2"
}
generate "$model" "$work/model.jsonl"
python scripts/parity/compare.py model "$model" "$golden" "$work/model.jsonl"

echo "== trained checkpoints" >&2
"$bin/rapid-verifier" serve --listen 127.0.0.1:0 --set code.sandbox=none --set cache.disk=false >"$work/verifier.txt" &
verifier=$!
until url=$(sed -n 's/^listening on //p' "$work/verifier.txt") && [ -n "$url" ]; do
  kill -0 "$verifier"
  sleep 0.1
done
# The model repeats a number correctly about every other time, so that groups have a gradient. The learning rate moves the weights far enough
# to distinguish them from the model's own.
for number in 10 25 40 55; do
  printf '{"question": "%s", "answer": %s}\n' "$number" "$number"
done >"$work/repeat.jsonl"
printf '31 = \\boxed{31}\n86 = \\boxed{86}\n57 = \\boxed{57}\n{question} =' >"$work/repeat.txt"
# trained NAME UPDATES SETTINGS…: trains, and compares the engine with transformers on the last checkpoint.
trained() {
  local run=$work/$1 checkpoint=$work/$1/checkpoints/step-$2 output=$work/$1.jsonl
  "$bin/rapid" train --recipe quickstart --verifier "$url" --out "$run" \
    --set "data.dataset=$work/repeat.jsonl" --set "data.template=$work/repeat.txt" --set 'data.stop=["\n"]' \
    --set sampling.temperature=1.3 --set algorithm.n_step=32 --set algorithm.h=1 --set "run.updates=$2" --set eval.samples=0 "${@:3}"
  generate "$checkpoint" "$output"
  if cmp --silent "$work/model.jsonl" "$output"; then
    echo "error: the updates did not change the weights, so the comparison of the checkpoint would show nothing" >&2
    exit 1
  fi
  python scripts/parity/compare.py model "$checkpoint" "$golden" "$output"
}
trained weights 1 --set optimiser.lr=1e-4
trained adapters 2 --set lora.rank=8 --set optimiser.lr=1e-3

echo "== small models of every family" >&2
cargo build --release --locked --workspace --example parity
mkdir "$work/families"
python scripts/parity/families.py make "$work/families"
for folder in "$work/families"/*/; do
  name=$(basename "$folder")
  "$bin/examples/parity" "$folder" "$work/families/prompts.json" "$work/saved-$name" "$work/$name.json"
  python scripts/parity/families.py check "$work/families" "$name" "$work/saved-$name" "$work/$name.json"
done

echo "== golden conversations" >&2
tokenizers=$(bash scripts/tokenizers.sh)
python scripts/parity/templates.py "$tokenizers" "$work/chat.json"
diff tests/golden/chat.json "$work/chat.json" >&2
echo "golden conversations: as committed"
