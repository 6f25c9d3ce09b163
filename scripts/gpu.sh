#!/usr/bin/env bash
# The first hour with a GPU: what works on it, then how fast it is, as one JSON file. It needs the release binary and this folder alone: no cargo, no network. Steps
# that need more (PyTorch with transformers, vLLM, TRL, NVIDIA's tools) say that they are not possible where it is missing.
#   bash scripts/gpu.sh [--rapid FILE] [--device cuda:0] [--out DIR] [--quick] [--until STEP]
# Each step takes at most 8 minutes and is recorded in DIR/steps when it ends. Started again, the script goes on with the next step; to repeat one, delete its
# record. DIR/gpu.json has all records, and DIR/logs what the steps printed to stderr. The exit code is 1 if a step failed.
# With --quick, sizes are small, and the speeds mean nothing: for a try without a GPU, with --device cuda:emulated, which needs g++.

# Steps call functions by their names.
# shellcheck disable=SC2317
set -euo pipefail

readonly LIMIT=480
here=$(cd "$(dirname "$0")" && pwd)
rapid='' device=cuda:0 out=gpu-hour until=''
quick=()
usage() {
  echo "usage: bash scripts/gpu.sh [--rapid FILE] [--device cuda:N] [--out DIR] [--quick] [--until STEP]" >&2
  exit 2
}
while [ $# -gt 0 ]; do
  case $1 in
    --quick) quick=(--quick) && shift && continue ;;
    --rapid | --device | --out | --until) [ $# -ge 2 ] || usage ;;
    *) usage ;;
  esac
  case $1 in
    --rapid) rapid=$2 ;;
    --device) device=$2 ;;
    --out) out=$2 ;;
    --until) until=$2 ;;
  esac
  shift 2
done
for candidate in "$here/rapid" "$here/../rapid" "${CARGO_TARGET_DIR:-$here/../target}/release/rapid" "$(command -v rapid || true)"; do
  [ -n "$rapid" ] || ! [ -x "$candidate" ] || rapid=$candidate
done
if ! [ -x "$rapid" ]; then
  echo "error: the program rapid is neither beside this script nor on the path; name it with --rapid FILE" >&2
  exit 2
fi
python=${PYTHON:-python3}
export HF_HUB_OFFLINE=1 PYTHONDONTWRITEBYTECODE=1 TRANSFORMERS_VERBOSITY=error VLLM_LOGGING_LEVEL=ERROR
mkdir -p "$out/steps" "$out/logs"
out=$(cd "$out" && pwd)
# What a step found, and why it failed.
result=$out/result.tmp why=$out/why.tmp
names=()

json_string() {
  local text=${1//\\/\\\\}
  text=${text//\"/\\\"}
  printf '"%s"' "$(tr '\n\t' '  ' <<<"$text" | tr -d '\000-\037')"
}

# number KEY: the first value of a key in JSON on stdin.
number() {
  sed -n "s/.*\"$1\": \([0-9.e+-]*\).*/\1/p" | head -n 1
}

# limited COMMAND…: runs it in what is left of the step's time. stderr goes to the step's log.
limited() {
  local left=$((deadline - SECONDS)) status=0
  [ "$left" -gt 0 ] || left=1
  timeout --kill-after=10 "$left" "$@" 2>>"$log" || status=$?
  case $status in
    0) ;;
    124 | 137) echo "it took longer than $LIMIT s" >"$why" ;;
    *) [ -s "$why" ] || grep . "$log" | tail -n 3 >"$why" || true ;;
  esac
  return "$status"
}

# impossible REASON: ends a step that cannot be made here.
impossible() {
  state="not possible here"
  echo "$1" >"$why"
}

# has MODULE…: whether python has these modules.
has() {
  local module
  for module in "$@"; do
    "$python" -c "import $module" >/dev/null 2>&1 || return 1
  done
}

# begin NAME: forgets the last step.
begin() {
  state=passed deadline=$((SECONDS + LIMIT)) log=$out/logs/$1.txt note=''
  : >"$log"
  : >"$why"
  rm -f "$result"
}

# step NAME COMMAND…: runs a step and records it, unless it is recorded. The command writes JSON to $result, and may call `impossible`.
step() {
  local name=$1 record=$out/steps/$1.json began=$SECONDS
  shift
  names+=("$name")
  if ! [ -e "$record" ]; then
    begin "$name"
    "$@" || [ "$state" != passed ] || state=failed
    {
      printf '{"step": "%s", "state": "%s", "seconds": %d' "$name" "$state" $((SECONDS - began))
      [ "$state" = passed ] || printf ', "reason": %s' "$(json_string "$(cat "$why")")"
      [ -z "$note" ] || printf ', "note": %s' "$(json_string "$note")"
      ! [ -s "$result" ] || printf ', "result": %s' "$(cat "$result")"
      printf '}\n'
    } >"$record.tmp"
    mv "$record.tmp" "$record"
  fi
  local line
  line=$(head -n 1 "$record")
  printf '%-18s %-28s %s\n' "$(sed -n 's/.*"state": "\([^"]*\)".*/\1/p' <<<"$line")" "$name" \
    "$(sed -n 's/.*"\(reason\|note\)": "\(\([^"\\]\|\\.\)*\)".*/\2/p' <<<"$line" | cut -c 1-160)"
  [ "$name" != "$until" ] || finish
}

# Writes the file with all records, and ends.
finish() {
  local name separator='' failed=0
  {
    printf '{"rapid": %s, "device": "%s", "quick": %s, "steps": [' "$(json_string "$("$rapid" --version)")" "$device" "$([ ${#quick[@]} = 0 ] && echo false || echo true)"
    for name in "${names[@]}"; do
      printf '%s\n' "$separator"
      cat "$out/steps/$name.json"
      separator=,
    done
    printf ']}\n'
  } >"$out/gpu.json.tmp"
  mv "$out/gpu.json.tmp" "$out/gpu.json"
  rm -f "$result" "$why"
  for name in "${names[@]}"; do
    ! grep -q '"state": "failed"' "$out/steps/$name.json" || failed=$((failed + 1))
  done
  printf '\n%d steps, %d of them failed: %s\n' "${#names[@]}" "$failed" "$out/gpu.json"
  [ "$failed" = 0 ] || exit 1
  exit
}

# The machine, its GPU and the software.
machine() {
  note=$(nvidia-smi --query-gpu=name,driver_version,memory.total,clocks.max.sm,power.limit --format=csv,noheader 2>/dev/null || true)
  limited "$rapid" doctor --device cpu --json >"$result"
}

# doctor ARGUMENTS…: checks of rapid doctor.
doctor() {
  limited "$rapid" doctor --device "$device" "${quick[@]}" --json "$@" >"$result"
}

# sanitized TOOL: small checks under one of NVIDIA's sanitizers.
sanitized() {
  if ! command -v compute-sanitizer >/dev/null; then
    impossible "there is no compute-sanitizer (CUDA's toolkit has it)"
    return
  fi
  limited compute-sanitizer --tool "$1" --error-exitcode 99 --log-file "$log" \
    "$rapid" doctor --device "$device" --quick --gpu-checks parity,graphs --json >"$result"
}

# torch DTYPE: logits and gradients of the same random weights here and in PyTorch.
torch() {
  if ! has torch transformers safetensors; then
    impossible "$python has no torch, transformers and safetensors (PYTHON names another one)"
    return
  fi
  local folder=$out/export-$1
  rm -rf "$folder"
  limited "$rapid" doctor --device "$device" --dtype "$1" --random-weights "${models[0]}" --export "$folder" &&
    limited "$python" "$here/gpu/torch_parity.py" "$folder" "$1" >"$result" || return
  # Gigabytes that nothing needs any more.
  rm -f "$folder/results.safetensors"
}

# bench ARGUMENTS…: a measurement, and what is predicted for it.
bench() {
  local measured predicted
  measured=$(limited "$rapid" bench "$@" --device "$device" --json) || return
  predicted=$(limited "$rapid" bench "$@" --device cuda:plan --json) || return
  printf '{"measured": %s, "predicted": %s}' "$measured" "$predicted" >"$result"
  note=$(printf '%.0f tokens/s; %.0f predicted' "$(number all_tokens_per_s <<<"$measured")" "$(number all_tokens_per_s <<<"$predicted")")
}

# peer PROGRAM ARGUMENTS…: a measurement of engine_peers.py, with the weights that the step torch-f32 has written.
peer() {
  if ! has "$1" transformers; then
    impossible "$python has no $1 with transformers (PYTHON names another one)"
    return
  fi
  if ! [ -d "$out/export-f32/model" ]; then
    impossible "the step torch-f32 has not written the weights"
    return
  fi
  limited "$python" "$here/bench/engine_peers.py" "$1" "$out/export-f32/model" bfloat16 "${@:2}" | tail -n 1 >"$result"
}

profile() {
  limited "$rapid" bench "$@" --device "$device" --profile --json >"$result" || return
  note="the heaviest: $(sed -n 's/.*"kernel": "\(..*\)",.*/\1/p' "$result" | head -n 3 | paste -s -d ';')"
}

# nsys ARGUMENTS…: the same work in NVIDIA's profiler.
with_nsys() {
  if ! command -v nsys >/dev/null; then
    impossible "there is no nsys (NVIDIA Nsight Systems)"
    return
  fi
  limited nsys profile --force-overwrite true --output "$out/nsys" "$rapid" bench "$@" --device "$device" --json >>"$log" &&
    limited nsys stats --report cuda_gpu_kern_sum --format csv "$out/nsys.nsys-rep" >"$out/nsys.csv" &&
    printf '{"file": "nsys.csv"}' >"$result"
}

with_ncu() {
  if ! command -v ncu >/dev/null; then
    impossible "there is no ncu (NVIDIA Nsight Compute)"
    return
  fi
  local kernels
  kernels=$(sed -n 's/.*"kernel": "\([a-z_]*\)[<"].*/\1/p' "$out/steps/profile-train.json" "$out/steps/profile-decode.json" | grep . | awk '!seen[$0]++' | head -n 8 | paste -s -d '|')
  limited ncu --target-processes all --set basic --csv --kernel-name "regex:^($kernels)" --launch-skip 64 --launch-count 64 \
    "$rapid" bench "$@" --device "$device" --json >"$out/ncu.csv" && printf '{"file": "ncu.csv"}' >"$result"
}

if [ ${#quick[@]} = 0 ]; then
  models=(qwen2.5-0.5b qwen2.5-1.5b qwen3-0.6b llama3.2-1b gemma3-1b)
  sequences=(64 256 1024)
  group=64 prompt=960 completion=80 training=(--prompts 16 --samples 1 --prompt-tokens 1 --tokens 2048)
  iteration=(16 16 128) steps=(16 2048 2048 4)
else
  tiny=$out/tiny.json
  echo '{"model_type": "qwen2", "vocab_size": 320, "hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2, "num_attention_heads": 2,
    "num_key_value_heads": 1, "head_dim": 64, "max_position_embeddings": 256, "rms_norm_eps": 1e-6, "rope_theta": 10000.0, "tie_word_embeddings": true, "hidden_act": "silu"}' >"$tiny"
  models=("$tiny")
  sequences=(4)
  group=2 prompt=20 completion=4 training=(--prompts 2 --samples 1 --prompt-tokens 1 --tokens 20)
  iteration=(2 2 4) steps=(2 20 20 2)
fi

# Without a working device no step means anything, so none is recorded.
begin device
if ! limited "$rapid" doctor --device "$device" --quick --json --dtype f32 --gpu-checks parity >"$result"; then
  cat "$result" >&2
  echo "error: $device does not work, so no step was made: $(cat "$why")" >&2
  exit 1
fi

step machine machine
for dtype in f32 bf16; do
  step "parity-$dtype" doctor --dtype "$dtype" --gpu-checks parity
done
for tool in memcheck racecheck synccheck initcheck; do
  step "sanitizer-$tool" sanitized "$tool"
done
for check in graphs repeat sizes phases learning; do
  for dtype in f32 bf16; do
    step "$check-$dtype" doctor --dtype "$dtype" --gpu-checks "$check"
  done
done
for dtype in f32 bf16; do
  step "torch-$dtype" torch "$dtype"
done
for model in "${models[@]}"; do
  name=$(basename "$model" .json)
  for n in "${sequences[@]}"; do
    step "decode-$name-$n" bench rollout --random-weights "$model" --dtype bf16 --prompts $((n / group)) --samples "$group" \
      --prompt-tokens "$prompt" --tokens "$completion" --max-sequences "$n"
  done
  step "train-$name" bench train --random-weights "$model" --dtype bf16 "${training[@]}"
done
for n in "${sequences[@]}"; do
  step "vllm-$n" peer vllm $((n / group)) "$group" "$prompt" "$completion"
done
step torch-train peer torch "${steps[@]}"
step iteration bench step --random-weights "${models[0]}" --dtype bf16 --prompts "${iteration[0]}" --samples "${iteration[1]}" --prompt-tokens 23 --tokens "${iteration[2]}"
step trl peer trl "${iteration[@]}"
last=${sequences[-1]}
decoding=(rollout --random-weights "${models[0]}" --dtype bf16 --prompts $((last / group)) --samples "$group" --prompt-tokens "$prompt" --tokens "$completion" --max-sequences "$last")
step profile-decode profile "${decoding[@]}"
step profile-train profile train --random-weights "${models[0]}" --dtype bf16 "${training[@]}"
step nsys with_nsys train --random-weights "${models[0]}" --dtype bf16 "${training[@]}"
step ncu with_ncu train --random-weights "${models[0]}" --dtype bf16 "${training[@]}"
finish
