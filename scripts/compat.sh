#!/usr/bin/env bash
# Tries other services' clients, unmodified, against the built service. Installs them and what they need into a virtual environment in the build folder; of verl only its
# files, since all of it needs PyTorch. RAPID_VERIFIER_BIN names another service than the built one.
set -euo pipefail
# shellcheck source-path=SCRIPTDIR source=prerequisites.sh
source "$(dirname "$0")/prerequisites.sh"

target=$(realpath -m "${CARGO_TARGET_DIR:-target}")
work=$target/compat
export RAPID_VERIFIER_BIN=${RAPID_VERIFIER_BIN:-$target/release/rapid-verifier} PYTHONDONTWRITEBYTECODE=1

[ -x "$work/venv/bin/python" ] || python3 -m venv "$work/venv"
"$work/venv/bin/pip" install --quiet --no-compile sandbox-fusion==0.3.7 httpx==0.28.1 pytest==9.2.0
"$work/venv/bin/pip" install --quiet --no-compile --no-deps verl==0.9.1

cd "$root/verifier/clients/compat"
PYTHONPATH=$root/verifier/clients/python/tests "$work/venv/bin/pytest" -o "cache_dir=$work/pytest"
