#!/usr/bin/env bash
# The study of docs/study/rapid, a block at a time. Needs the release binaries (cargo build --release --locked --workspace) and a fetched model.
#   bash scripts/study.sh STAGE N         makes the Nth block of a stage's sweep in runs/study/STAGE-N
#   bash scripts/study.sh STAGE report [BLOCKS]
#                                         puts the logs of the stage's blocks together in runs/study/STAGE, reports on them, and copies tables and figures to
#                                         docs/study/rapid/STAGE. Before the last block is made, it refuses: nobody looks at unfinished tests. BLOCKS is for
#                                         the last stage of a study that ended by its hours: so many blocks are all that will be made
#   bash scripts/study.sh time predict    measures with rapid bench what an update should take by H and N_step: docs/study/rapid/time-predicted.csv
#                                         (some minutes, on the machine and just before or after the blocks of the stage time)
# STAGE is a file of docs/study/rapid/sweeps. Started again, a block goes on where it ended.
set -euo pipefail

root=$(cd "$(dirname "$0")/.." && pwd)
usage() {
  echo "usage: bash scripts/study.sh STAGE N|report [BLOCKS]|predict" >&2
  echo "stages: $(cd "$root/docs/study/rapid/sweeps" && printf '%s ' ./*.toml | sed 's/\.toml//g; s/\.\///g')" >&2
  exit 2
}
[ $# = 2 ] || { [ $# = 3 ] && [ "$2" = report ] && [[ $3 =~ ^[1-9][0-9]*$ ]]; } || usage
stage=$1 what=$2
cd "$root"
sweep=docs/study/rapid/sweeps/$stage.toml
rapid=${CARGO_TARGET_DIR:-target}/release/rapid
[ -f "$sweep" ] || usage
if ! [ -x "$rapid" ]; then
  echo "error: there is no $rapid: cargo build --release --locked --workspace" >&2
  exit 2
fi

# seconds WORK COMPLETIONS: how long rapid bench takes for completions like those of the untrained model in this study: 18 tokens on average, 8 of each prompt of
# 160 tokens. Sampling computes what the prompts have in common once.
seconds() {
  local shared=()
  [ "$1" = train ] || shared=(--shared-tokens 128)
  "$rapid" bench "$1" --model smollm2-135m-instruct --device cpu --dtype bf16 --prompts $(($2 / 8)) --samples 8 --prompt-tokens 160 "${shared[@]}" \
    --tokens 24 --min-tokens 13 --json | sed -n 's/^  "seconds": \([0-9.e+-]*\),$/\1/p'
}

if [ "$what" = predict ]; then
  [ "$stage" = time ] || usage
  declare -A sampling
  predicted=docs/study/rapid/time-predicted.csv
  {
    echo n_step,h,sampling_seconds,update_seconds,seconds_per_update,time_ratio
    for n in 8 32 128; do
      update=$(seconds train "$n")
      for h in 1 2 4 8 16; do
        size=$((n * h))
        [ -n "${sampling[$size]:-}" ] || sampling[$size]=$(seconds rollout "$size")
        echo "$n $h ${sampling[$size]} $update"
      done
    done | awk '{ all = $3 / $2 + $4; if ($2 == 1) one = all; printf "%d,%d,%.3f,%.3f,%.3f,%.3f\n", $1, $2, $3, $4, all, all / one }'
  } >"$predicted.partial"
  mv "$predicted.partial" "$predicted"
  echo "$predicted"
  exit
fi

if [ "$what" = report ]; then
  seeds=$(sed -n 's/^seeds = \[\(.*\)\].*/\1/p' "$sweep" | tr ',' '\n' | grep -c . || true)
  [ "$seeds" != 0 ] || { echo "error: $sweep has no line like seeds = [0, 1]" >&2; exit 1; }
  rounds=$(sed -n 's/^rounds = \([0-9]*\).*/\1/p' "$sweep")
  planned=$((seeds * ${rounds:-1})) blocks=()
  for ((block = 1; block <= ${3:-$planned}; block++)); do
    made=runs/study/$stage-$block
    if ! [ -f "$made/manifest.jsonl" ]; then
      echo "error: there is no $made/manifest.jsonl yet: bash scripts/study.sh $stage $block" >&2
      exit 1
    fi
    blocks+=("$made")
  done
  out=runs/study/$stage
  rm -rf "$out"
  mkdir -p "$out"
  for block in "${blocks[@]}"; do
    # What the report reads: settings and logs. Every block has a manifest of its own runs.
    (cd "$block" && find . -maxdepth 3 \( -name '*.jsonl' -o -name config.toml -o -name data.json -o -name sweep.toml -o -path './recipes/*.toml' \) \
      ! -name manifest.jsonl -exec cp --parents {} "$OLDPWD/$out" \;)
    cat "$block/manifest.jsonl" >>"$out/manifest.jsonl"
  done
  # Only the stage time is made on a machine on which nothing else runs: seconds of other stages show nothing.
  if [ "$stage" = time ]; then times=(); else times=(--no-times); fi
  "$rapid" report "${times[@]}" "$out"
  tables=docs/study/rapid/$stage
  rm -rf "$tables"
  mkdir -p "$tables"
  find "$out" -maxdepth 1 \( -name '*.csv' -o -name '*.svg' \) -exec cp {} "$tables" \;
  exit
fi
[[ $what =~ ^[1-9][0-9]*$ ]] || usage
mkdir -p runs/study
"$rapid" sweep "$sweep" --out "runs/study/$stage-$what" --block "$what"
