#!/usr/bin/env bash
# Tries the Python client with trainers' own packages, against the built service, which is killed meanwhile. It is not part of test.sh, since it installs these packages (1.5 GB)
# into the cache folder, each into an environment of its own. RAPID_VERIFIER_BIN names another service than the built one.
set -euo pipefail
# shellcheck source-path=SCRIPTDIR source=prerequisites.sh
source "$(dirname "$0")/prerequisites.sh"

target=$(realpath -m "${CARGO_TARGET_DIR:-target}")
home=${RAPID_HOME:-${XDG_CACHE_HOME:-$HOME/.cache}/rapid}
package=$root/verifier/clients/python
export RAPID_VERIFIER_BIN=${RAPID_VERIFIER_BIN:-$target/release/rapid-verifier} PYTHONDONTWRITEBYTECODE=1

# try SCRIPT REQUIREMENT…: runs scripts/clients/SCRIPT.py with these packages.
try() {
  local venv=$home/clients/$1
  echo "== ${*:2}" >&2
  [ -x "$venv/bin/python" ] || python3 -m venv "$venv"
  "$venv/bin/pip" install --quiet --no-compile "${@:2}" "$package"
  # The same version may have other contents.
  "$venv/bin/pip" install --quiet --no-compile --no-deps --force-reinstall "$package"
  PYTHONPATH=$package/tests "$venv/bin/python" "scripts/clients/$1.py"
}
try verifiers_rubric verifiers==0.2.1
try verifiers_task verifiers==0.4.0
try skyrl_gym_env skyrl-gym==0.4.0
try openenv_server openenv==0.10.0 httpx
echo "== all as expected" >&2
