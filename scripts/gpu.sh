#!/usr/bin/env bash
# A GPU that is there for an hour, or for 15 minutes: what works on it, then how fast it is, the most valuable steps first. It needs the release binary and this
# folder alone: no cargo, no network. Steps that need more (PyTorch with transformers, vLLM, TRL, NVIDIA's tools) say that they are not possible where it is missing.
#   bash scripts/gpu.sh [--rapid FILE] [--device cuda:0] [--out DIR] [--quick] [--until STEP] [--minutes N]
# Each step has its own limit and is recorded in DIR/steps when it ends. Started again, the script goes on with the next step; to repeat one, delete its record.
# DIR/gpu.json has all records, DIR/logs what the steps printed to stderr, and DIR/gpu.tgz both at any time: alone in DIR on another machine, it is gone on from.
# The exit code is 1 if a step failed.
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

# smoke: whether the device works at all. Without a device no step would mean anything, so none is recorded.
smoke() {
  local quick=(--quick)
  doctor --gpu-checks parity && return
  ! grep -q 'cannot be used' "$result" || {
    cat "$result" >&2
    echo "error: $device does not work, so no step was made: $(cat "$why")" >&2
    exit 1
  }
  return 1
}

# diagnosis DTYPE: the same with each launch by itself, so that the error names its kernel, and with what cuBLASLt logs.
diagnosis() {
  local quick=(--quick)
  CUDA_LAUNCH_BLOCKING=1 RAPID_LOG=debug CUBLASLT_LOG_LEVEL=2 doctor --dtype "$1" --gpu-checks parity
}

# sanitized TOOL DTYPE: small checks under one of NVIDIA's sanitizers.
sanitized() {
  if ! command -v compute-sanitizer >/dev/null; then
    impossible "there is no compute-sanitizer (CUDA's toolkit has it)"
    return
  fi
  limited compute-sanitizer --tool "$1" --error-exitcode 99 --log-file "$log" \
    "$rapid" doctor --device "$device" --quick --dtype "$2" --gpu-checks parity,graphs --json >"$result"
}

# weights DTYPE: random weights with what is computed from them, for other programs.
weights() {
  limited "$rapid" doctor --device "$device" --dtype "$1" --random-weights "${models[0]}" --export "$work/$1"
}

# torch DTYPE: logits and gradients of the same random weights here and in PyTorch.
torch() {
  if ! has torch transformers safetensors; then
    impossible "$python has no torch, transformers and safetensors (PYTHON names another one)"
    return
  fi
  weights "$1" && limited "$python" "$here/gpu/torch_parity.py" "$work/$1" "$1" >"$result"
}

# peer PROGRAM ARGUMENTS…: a measurement of engine_peers.py.
peer() {
  if ! has "$1" transformers; then
    impossible "$python has no $1 with transformers (PYTHON names another one)"
    return
  fi
  [ -d "$work/f32/model" ] || weights f32 || return
  limited "$python" "$here/bench/engine_peers.py" "$1" "$work/f32/model" bfloat16 "${@:2}" | tail -n 1 >"$result"
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
  limited nsys profile --force-overwrite true --output "$work/nsys" "$rapid" bench "$@" --device "$device" --json >>"$log" &&
    limited nsys stats --report cuda_gpu_kern_sum --format csv "$work/nsys.nsys-rep" >"$out/nsys.csv" &&
    printf '{"file": "nsys.csv"}' >"$result"
}

with_ncu() {
  if ! command -v ncu >/dev/null; then
    impossible "there is no ncu (NVIDIA Nsight Compute)"
    return
  fi
  local kernels
  kernels=$(sed -n 's/.*"kernel": "\([a-z_]*\)[<"].*/\1/p' "$out/steps/profile-train.json" "$out/steps/profile-decode.json" | grep . | awk '!seen[$0]++' | head -n 8 | paste -s -d '|')
  limited ncu --target-processes all --clock-control none --set basic --csv --kernel-name "regex:^($kernels)" --launch-skip 64 --launch-count 64 \
    "$rapid" bench "$@" --device "$device" --json >"$out/ncu.csv" && printf '{"file": "ncu.csv"}' >"$result"
}

# Weights, and other files of gigabytes that nothing needs afterwards.
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
if [ ${#quick[@]} = 0 ]; then
  models=(qwen2.5-0.5b qwen3-0.6b llama3.2-1b gemma3-1b qwen2.5-1.5b)
  sequences=(1024 64 256)
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

# decode MODEL SEQUENCES COMMAND, train MODEL COMMAND: the command with the arguments of such a measurement.
decode() {
  "$3" rollout --random-weights "$1" --dtype bf16 --prompts $((($2 + group - 1) / group)) --samples "$group" --prompt-tokens "$prompt" --tokens "$completion" --max-sequences "$2"
}
train() {
  "$2" train --random-weights "$1" --dtype bf16 "${training[@]}"
}
first=${models[0]} most=${sequences[0]}
name=$(basename "$first" .json)

# On a GPU that works, these take 15 minutes.
step smoke 90 smoke
step machine 20 machine
if grep -qs '"state": "failed"' "$out/steps/smoke.json"; then
  for dtype in f32 bf16; do
    step "diagnosis-$dtype" 60 diagnosis "$dtype"
    step "diagnosis-memcheck-$dtype" 120 sanitized memcheck "$dtype"
  done
fi
step parity-bf16 90 doctor --dtype bf16 --gpu-checks parity
step graphs-bf16 60 doctor --dtype bf16 --gpu-checks graphs,repeat
for n in "${sequences[@]}"; do
  step "decode-$name-$n" 40 decode "$first" "$n" bench
done
step "train-$name" 60 train "$first" bench
step profile-decode 60 decode "$first" "$most" profile
step profile-train 60 train "$first" profile
step parity-f32 90 doctor --dtype f32 --gpu-checks parity
step torch-bf16 120 torch bf16
step sizes-bf16 70 doctor --dtype bf16 --gpu-checks sizes
step sanitizer-memcheck 90 sanitized memcheck bf16
step sanitizer-racecheck 120 sanitized racecheck bf16
step graphs-f32 60 doctor --dtype f32 --gpu-checks graphs,repeat
step torch-f32 90 torch f32
step sizes-f32 70 doctor --dtype f32 --gpu-checks sizes
for dtype in bf16 f32; do
  step "phases-$dtype" 60 doctor --dtype "$dtype" --gpu-checks phases
done
for other in "${models[@]:1}"; do
  step "decode-$other" 40 decode "$other" 256 bench
  step "train-$other" 60 train "$other" bench
done
step sanitizer-memcheck-f32 90 sanitized memcheck f32
for tool in initcheck synccheck; do
  step "sanitizer-$tool" 120 sanitized "$tool" bf16
done
step ncu 90 train "$first" with_ncu
step nsys 90 train "$first" with_nsys
step iteration 60 bench step --random-weights "$first" --dtype bf16 --prompts "${iteration[0]}" --samples "${iteration[1]}" --prompt-tokens 23 --tokens "${iteration[2]}"
step torch-train 240 peer torch "${steps[@]}"
for n in "${sequences[@]}"; do
  step "vllm-$n" 480 peer vllm $((n / group)) "$group" "$prompt" "$completion"
done
step trl 480 peer trl "${iteration[@]}"
finish
