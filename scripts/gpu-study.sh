#!/usr/bin/env bash
# The part of the study of docs/study/rapid that needs a GPU. It measures how long an update takes by H and N_step at the shapes of Qwen2.5, and trains SmolLM2 with
# pg, rapid-paper and rapid-loo at H = 1, 8 and 16. It needs the release binaries, this folder and docs/study; the training steps need `rapid fetch
# model:smollm2-135m-instruct` before.
#   bash scripts/gpu-study.sh [--rapid FILE] [--device cuda:0] [--out DIR] [--quick] [--until STEP] [--minutes 40]
# Each step takes at most 8 minutes and is recorded in DIR/steps when it ends, as in gpu.sh. A call takes at most 40 minutes, or those of --minutes. Then it says
# how many steps are left, its exit code is 3, and the same command continues. DIR/gpu-study.json has all records, with the memory of each measurement
# (device_peak_bytes is the GPU's, peak_bytes the process's). DIR/times.csv has the time of an update, and DIR/sweep the report of the training runs.
# With --quick, sizes are small, and the speeds mean nothing: for a try without a GPU, with --device cpu.

# Steps call functions by their names.
# shellcheck disable=SC2317
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
out=gpu-study file=gpu-study.json minutes=40
# shellcheck source=scripts/gpu/steps.sh
source "$here/gpu/steps.sh"
sweep=$here/../docs/study/rapid/sweeps/gpu.toml

# field KEY STEP PART: a number of a step's record, measured or predicted.
field() {
  sed -n "/\"$3\"/,\$p" "$out/steps/$2.json" | number "$1"
}

# Seconds of an update by H and N_step: those of sampling H × N_step completions, divided by H, and those of the update itself.
times() {
  local shape n h part sampled trained
  {
    echo "model,source,n_step,h,seconds_per_update"
    for shape in "${shapes[@]}"; do
      for part in measured predicted; do
        for n in "${n_steps[@]}"; do
          for h in "${hs[@]}"; do
            sampled=$(field completion_tokens_per_s "decode-$shape-$((n * h))" "$part")
            trained=$(field completion_tokens_per_s "train-$shape-$n" "$part")
            if [ -z "$sampled" ] || [ -z "$trained" ]; then
              impossible "a step before has failed, which decode-$shape-$((n * h)) or train-$shape-$n shows"
              return
            fi
            awk -v n="$n" -v tokens="$(((shortest + longest) / 2))" -v sampled="$sampled" -v trained="$trained" -v row="$shape,$part,$n,$h" \
              'BEGIN { printf "%s,%.6g\n", row, n * tokens / sampled + n * tokens / trained }'
          done
        done
      done
    done
  } >"$out/times.csv.tmp"
  mv "$out/times.csv.tmp" "$out/times.csv"
  printf '{"file": "times.csv"}' >"$result"
}

# train PRESET: the runs of its arms of the sweep.
train() {
  if "$rapid" train --recipe quickstart --dry-run 2>>"$log" | grep -q 'the model is not on this machine'; then
    impossible "the model is not on this machine: rapid fetch model:smollm2-135m-instruct"
    return
  fi
  sed -e "s/\"cuda:0\"/\"$device\"/" "${changes[@]}" "$sweep" >"$out/gpu.toml"
  local only=() h
  for h in "${trained_hs[@]}"; do
    only+=(--only "$1-h$h")
  done
  limited "$rapid" sweep "$out/gpu.toml" --out "$out/sweep" "${only[@]}" >>"$log" &&
    "$rapid" report "$out/sweep" >>"$log" 2>&1 && printf '{"file": "sweep/report.html"}' >"$result"
}

if [ ${#quick[@]} = 0 ]; then
  models=(qwen2.5-0.5b qwen2.5-1.5b)
  n_steps=(8 32 128) hs=(1 2 4 8 16) trained_hs=(1 8 16)
  # Prompts of MBPP+ have about 160 tokens; the lengths of completions are spread evenly.
  prompt=160 shortest=32 longest=512
  changes=()
else
  tiny=$out/tiny.json
  tiny_config >"$tiny"
  models=("$tiny")
  n_steps=(4 8) hs=(1 2) trained_hs=(1 8)
  prompt=20 shortest=2 longest=6
  changes=(-e 's/"algorithm.n_step" = .*/"algorithm.n_step" = 8/' -e 's/"run.updates" = .*/"run.updates" = 2/' -e 's/"eval.samples" = .*/"eval.samples" = 0/' -e 's/"algorithm.h" = 8 /"algorithm.h" = 2 /')
fi

step machine 20 machine
shapes=()
for model in "${models[@]}"; do
  name=$(basename "$model" .json)
  shapes+=("$name")
  work=(--random-weights "$model" --dtype bf16 --samples 4 --prompt-tokens "$prompt" --tokens "$longest" --min-tokens "$shortest")
  sizes=$(for n in "${n_steps[@]}"; do for h in "${hs[@]}"; do echo $((n * h)); done; done | sort -nu)
  for size in $sizes; do
    step "decode-$name-$size" 240 bench rollout "${work[@]}" --prompts $((size / 4)) --max-sequences 1024
  done
  for n in "${n_steps[@]}"; do
    step "train-$name-$n" 240 bench train "${work[@]}" --prompts $((n / 4))
  done
done
step times 20 times
for preset in rapid-paper rapid-loo pg; do
  step "learn-$preset" 480 train "$preset"
done
finish
