#!/usr/bin/env bash
# Fetches NVRTC, NVIDIA's compiler of kernels, into the cache folder, for the test that compiles them on a machine without a GPU. Fails where pip or the network is not
# there. A machine with a GPU needs more: the README says what.
set -euo pipefail

home=${RAPID_HOME:-${XDG_CACHE_HOME:-$HOME/.cache}/rapid}
folder=$home/cuda
if [ ! -d "$folder" ]; then
  mkdir -p "$home"
  work=$(mktemp -d "$home/cuda.XXXXXX")
  trap 'rm -rf "$work"' EXIT
  # pip compares what it gets with the registry's checksum.
  python3 -m pip download --quiet --disable-pip-version-check --no-deps --only-binary :all: --dest "$work" 'nvidia-cuda-nvrtc==13.0.*' >&2
  python3 -m zipfile -e "$work"/*.whl "$work/whole"
  # Half of it is a second build of the same.
  rm -rf "$work"/whole/nvidia/*/lib/*.alt.so* "$work"/whole/nvidia/*/include
  # Whole, or not at all.
  mv -T "$work/whole" "$folder"
fi
echo "$folder"
