#!/usr/bin/env bash
# Checks the Python client: formatting, lints, types, the wheel, and the tests, which start the built service. Installs the package and what its tests need into a virtual
# environment in the build folder. RAPID_VERIFIER_BIN names another service than the built one.
set -euo pipefail
# shellcheck source-path=SCRIPTDIR source=prerequisites.sh
source "$(dirname "$0")/prerequisites.sh"

target=$(realpath -m "${CARGO_TARGET_DIR:-target}")
package=$root/verifier/clients/python
work=$target/python-client
export RAPID_VERIFIER_BIN=${RAPID_VERIFIER_BIN:-$target/release/rapid-verifier} PYTHONDONTWRITEBYTECODE=1

if ! python3 -c 'import sys; sys.exit(sys.version_info < (3, 10))'; then
  echo "error: the Python client needs Python 3.10 or newer, and this is $(python3 --version). Install a newer one, and put it first on the PATH." >&2
  exit 1
fi

echo "== the wheel, in $work" >&2
rm -rf "$work/wheel"
[ -x "$work/venv/bin/python" ] || python3 -m venv "$work/venv"
"$work/venv/bin/pip" wheel --quiet --no-deps --wheel-dir "$work/wheel" "$package"
wheel=$(echo "$work"/wheel/rapid_verifier_client-*-py3-none-any.whl)
python3 - "$wheel" <<'EOF'
import sys, zipfile

names = zipfile.ZipFile(sys.argv[1]).namelist()
assert "rapid_verifier/py.typed" in names, names
assert not any(name.startswith("tests") for name in names), names
EOF
"$work/venv/bin/pip" install --quiet --no-compile "${wheel}[test]"
# The same version may have other contents.
"$work/venv/bin/pip" install --quiet --no-compile --no-deps --force-reinstall "$wheel"

cd "$package"
echo "== formatting, lints and types" >&2
"$work/venv/bin/ruff" format --check --cache-dir "$work/ruff" .
"$work/venv/bin/ruff" check --cache-dir "$work/ruff" .
"$work/venv/bin/mypy" --cache-dir "$work/mypy"

echo "== tests" >&2
"$work/venv/bin/pytest" -o "cache_dir=$work/pytest"
