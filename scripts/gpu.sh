#!/usr/bin/env bash
# The first hour with a GPU: what works on it, then how fast it is, as one JSON file. It needs the release binary and this folder alone: no cargo, no network. Steps
# that need more (PyTorch with transformers, vLLM, TRL, NVIDIA's tools) say that they are not possible where it is missing.
#   bash scripts/gpu.sh [--rapid FILE] [--device cuda:0] [--out DIR] [--quick] [--until STEP] [--minutes N]
# Each step takes at most 8 minutes and is recorded in DIR/steps when it ends. Started again, the script goes on with the next step; to repeat one, delete its
# record. DIR/gpu.json has all records, and DIR/logs what the steps printed to stderr. The exit code is 1 if a step failed.
# With --minutes, a call ends after so many: it says how many steps are left, and its exit code is 3.
# With --quick, sizes are small, and the speeds mean nothing: for a try without a GPU, with --device cuda:emulated, which needs g++.

# Steps call functions by their names.
# shellcheck disable=SC2317
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
out=gpu-hour file=gpu.json minutes=''
# shellcheck source=scripts/gpu/steps.sh
source "$here/gpu/steps.sh"
python=${PYTHON:-python3}
export HF_HUB_OFFLINE=1 PYTHONDONTWRITEBYTECODE=1 TRANSFORMERS_VERBOSITY=error VLLM_LOGGING_LEVEL=ERROR

# has MODULE…: whether python has these modules.
has() {
  local module
  for module in "$@"; do
    "$python" -c "import $module" >/dev/null 2>&1 || return 1
  done
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
  tiny_config >"$tiny"
  models=("$tiny")
  sequences=(4)
  group=2 prompt=20 completion=4 training=(--prompts 2 --samples 1 --prompt-tokens 1 --tokens 20)
  iteration=(2 2 4) steps=(2 20 20 2)
fi

check_device
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
