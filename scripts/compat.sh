#!/usr/bin/env bash
# Tries other projects' clients, from PyPI and unmodified, against the built service. Installs them into a virtual environment in the build folder, without
# dependencies that the tests do not use. So kimina-client comes without `datasets`, of 150 MB, and only the files of verl, since all of it needs PyTorch. With
# RAPID_TEST_LONG=1 and RAPID_TEST_LEAN, Kimina's snippets are run by a real Lean, which takes 15 minutes or more. RAPID_VERIFIER_BIN names another service than the
# built one.
set -euo pipefail
# shellcheck source-path=SCRIPTDIR source=prerequisites.sh
source "$(dirname "$0")/prerequisites.sh"

target=$(realpath -m "${CARGO_TARGET_DIR:-target}")
work=$target/compat
export RAPID_VERIFIER_BIN=${RAPID_VERIFIER_BIN:-$target/release/rapid-verifier} PYTHONDONTWRITEBYTECODE=1

[ -x "$work/venv/bin/python" ] || python3 -m venv "$work/venv"
"$work/venv/bin/pip" install --quiet --no-compile pytest httpx aiohttp requests \
  colorama pydantic pygments tabulate tenacity tqdm sandbox-fusion==0.3.7
"$work/venv/bin/pip" install --quiet --no-compile --no-deps kimina-client==0.2.1 verl==0.9.1

[ -n "${RAPID_TEST_LONG:-}" ] || unset RAPID_TEST_LEAN
# The tests start the service as those of the Python client do.
PYTHONPATH=$root/verifier/clients/python/tests:$root/scripts/clients "$work/venv/bin/pytest" -p tested -o "cache_dir=$work/pytest" -rs "$@" verifier/clients/compat
