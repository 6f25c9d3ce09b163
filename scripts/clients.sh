#!/usr/bin/env bash
# Tries trainers' own packages against the built service, which is killed meanwhile, and writes docs/clients-tested.md. It is not part of test.sh, since it installs these
# packages (8 GB) into the cache folder, each group into an environment of its own. `clients.sh NAME…` tries only these groups (the functions below) and writes no page.
# RAPID_VERIFIER_BIN names another service than the built one, and NEMO_GYM_PYTHON a Python 3.13. With RAPID_TEST_LONG=1 and RAPID_TEST_LEAN, a real Lean runs Kimina's
# snippets, as in compat.sh.
set -euo pipefail
# shellcheck source-path=SCRIPTDIR source=prerequisites.sh
source "$(dirname "$0")/prerequisites.sh"

target=$(realpath -m "${CARGO_TARGET_DIR:-target}")
home=${RAPID_HOME:-${XDG_CACHE_HOME:-$HOME/.cache}/rapid}
package=$root/verifier/clients/python
export RAPID_VERIFIER_BIN=${RAPID_VERIFIER_BIN:-$target/release/rapid-verifier} PYTHONDONTWRITEBYTECODE=1
export RAPID_CLIENTS_MODEL=$home/clients/smollm2-135m-instruct HF_HUB_OFFLINE=1
"$RAPID_VERIFIER_BIN" fetch sandbox:python-wasi >&2
tested=$(mktemp)
trap 'rm -f "$tested"' EXIT

# install ENVIRONMENT ARGUMENT…: installs packages into an environment, with `python` or $python.
install() {
  local venv=$home/clients/$1
  [ -x "$venv/bin/python" ] || "${python:-python3}" -m venv "$venv"
  "$venv/bin/pip" install --quiet --no-compile "${@:2}"
}

# try ENVIRONMENT TEST…: runs these tests in an environment, with the Python client.
try() {
  local venv=$home/clients/$1
  echo "== ${*:2}" >&2
  install "$1" pytest "$package"
  # The same version may have other contents.
  install "$1" --no-deps --force-reinstall "$package"
  PYTHONPATH=$package/tests:$root/scripts/clients RAPID_CLIENTS_TESTED=$tested \
    "$venv/bin/python" -m pytest -p tested -p no:cacheprovider -rs "${@:2}"
}

verifiers() {
  install verifiers_rubric verifiers==0.2.1
  try verifiers_rubric scripts/clients/test_verifiers_rubric.py
  install verifiers_task verifiers==0.4.0
  try verifiers_task scripts/clients/test_verifiers_task.py
}

skyrl_gym() {
  install skyrl_gym_env skyrl-gym==0.4.0
  try skyrl_gym_env scripts/clients/test_skyrl_gym.py
}

openenv() {
  install openenv_server openenv==0.10.0 httpx
  try openenv_server scripts/clients/test_openenv.py
}

# These share PyTorch. OpenRLHF and verl are installed without their dependencies, since the versions of those exclude each other.
pytorch() {
  install trainers torch==2.13.0 trl==1.16.0 'transformers>=5.5.3,<5.11' ray==2.60.0 tensordict omegaconf hydra-core codetiming pylatexenc sympy peft psutil aiohttp \
    cachetools dill orjson gguf
  install trainers --no-deps openrlhf==0.11.2 verl==0.9.1
  if [ ! -d "$RAPID_CLIENTS_MODEL" ]; then
    "$target/release/rapid" fetch model:smollm2-135m-instruct >&2
    "$home/clients/trainers/bin/python" scripts/bench/engine_peers.py export \
      "$(find "$home/models/smollm2-135m-instruct" -name '*.gguf')" "$RAPID_CLIENTS_MODEL" float32
  fi
  try trainers scripts/clients/test_openrlhf.py scripts/clients/test_verl.py scripts/clients/test_trl.py
}

# NeMo Gym 0.7.0 asks for Python 3.13.14, and works with 3.13.0. It is installed with those of its dependencies that its agent imports.
nemo_gym() {
  local python=${NEMO_GYM_PYTHON:-python3.13}
  install nemo_gym --no-deps --ignore-requires-python nemo-gym==0.7.0
  install nemo_gym ray==2.60.0 omegaconf hydra-core fastapi uvicorn uvloop httptools 'mcp>=1.28.1,<2' itsdangerous openai==2.44.0 'anthropic<=0.109.2' orjson aiohttp \
    requests rich devtools yappi gprof2dot pydot psutil httpx tqdm pydantic jinja2 packaging pandas scipy wandb
  try nemo_gym scripts/clients/test_nemo_gym.py
}

if [ $# -gt 0 ]; then
  for group in "$@"; do "$group"; done
  exit
fi
verifiers
skyrl_gym
openenv
pytorch
nemo_gym
echo "== clients of other projects' services" >&2
RAPID_CLIENTS_TESTED=$tested bash scripts/compat.sh -q
{
  cat <<'EOF'
# Clients that were tested

`bash scripts/clients.sh` writes this page. It runs each package from PyPI, unmodified, against the service; [clients.md](clients.md) says how to use them.

| package | what was tested, and held |
| --- | --- |
EOF
  # A line for each package: its name, then what held.
  sort -u "$tested" | awk -F ' [|] ' '
    $1 == package { printf "<br>%s", $2; next }
    { if (NR > 1) print " |"; package = $1; printf "%s | %s", $1, $2 }
    END { print " |" }'
} >docs/clients-tested.md
echo "== all as expected; docs/clients-tested.md is written" >&2
