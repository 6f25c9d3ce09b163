#!/usr/bin/env bash
# Builds the wheels of `rapid-verifier` and `rapid` into target/wheels, from the release build of scripts/test.sh (wheels/cargo), and tries them: their platform tag
# and metadata, and the installed programs. These run in an empty environment with an empty cache folder, where the service gives a verdict. maturin and twine come
# from PyPI.
set -euo pipefail
# shellcheck source-path=SCRIPTDIR source=prerequisites.sh
source "$(dirname "$0")/prerequisites.sh"

target=$(realpath -m "${CARGO_TARGET_DIR:-target}")
wheels=$target/wheels work=$target/wheels-work
rm -rf "$wheels" "$work/installed"
[ -x "$work/venv/bin/python" ] || python3 -m venv "$work/venv"
"$work/venv/bin/pip" install --quiet --no-compile 'maturin>=1.9,<2' 'twine>=6'

echo "== the wheels, in $wheels" >&2
for package in verifier trainer; do
  # `check` refuses a library that the tag does not allow, instead of copying it into the wheel.
  CARGO=$root/scripts/wheels/cargo "$work/venv/bin/maturin" build --quiet --release --locked --auditwheel check \
    --manifest-path "$package/Cargo.toml" --target-dir "$target" --out "$wheels"
done
"$work/venv/bin/twine" check --strict "$wheels"/*.whl
python3 - "$root" "$wheels"/*.whl <<'EOF_PYTHON'
import sys, zipfile

root, *wheels = sys.argv[1:]
for wheel in wheels:
    archive = zipfile.ZipFile(wheel)
    names = archive.namelist()
    scripts = [name for name in names if ".data/scripts/" in name]
    assert len(scripts) == 1, names
    assert all(name in scripts or ".dist-info/" in name for name in names), names
    assert any(name.endswith("/licenses/LICENSE") for name in names), names
    for name in names:
        if name not in scripts:
            assert root.encode() not in archive.read(name), f"{name} of {wheel} has a path of this machine"
    print(wheel.rsplit("/", 1)[1], archive.getinfo(scripts[0]).compress_size >> 20, "MiB")
EOF_PYTHON

echo "== the installed programs" >&2
python3 -m venv "$work/installed"
"$work/installed/bin/pip" install --quiet --no-index "$wheels"/*.whl
home=$(mktemp -d)
trap 'kill "${service:-}" 2>/dev/null || true; rm -rf "$home"' EXIT
installed=(env --ignore-environment --chdir "$home" "PATH=$work/installed/bin:/usr/bin:/bin" "HOME=$home")
"${installed[@]}" rapid --version
"${installed[@]}" rapid-verifier --version
# Without a sandbox it says how to get one.
{ "${installed[@]}" rapid-verifier doctor || true; } 2>&1 | grep --fixed-strings 'rapid-verifier fetch'

"${installed[@]}" rapid-verifier serve --listen 127.0.0.1:0 >"$home/log" 2>&1 &
service=$!
for _ in $(seq 300); do
  address=$(sed -n 's/.*\(http:\/\/127\.0\.0\.1:[0-9]*\).*/\1/p' "$home/log" | head -n 1)
  [ -z "$address" ] || break
  sleep 0.1
done
[ -n "$address" ] || { cat "$home/log" >&2; echo "error: the installed service did not start within 30 s" >&2; exit 1; }
body='{"items": [{"id": 1, "task": {"kind": "math", "answer": "\\frac12"}, "prompt": "", "completion": "\\boxed{0.5}"}]}'
answer=$(curl --silent --show-error --fail-with-body --header 'content-type: application/json' --data "$body" "$address/v1/verify")
[[ $answer == *'"reward":1.0'* ]] || { echo "error: the installed service judged wrongly: $answer" >&2; exit 1; }
echo "a verdict of the installed service: $answer"
