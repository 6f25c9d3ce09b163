#!/usr/bin/env bash
# Fetches NVRTC, NVIDIA's compiler of kernels, and NVTX, which hands ranges of time to its profilers, into the cache folder, for the tests of both on a machine without a
# GPU. Fails where pip or the network is not there. A machine with a GPU needs more: docs/gpu.md says what.
set -euo pipefail

home=${RAPID_HOME:-${XDG_CACHE_HOME:-$HOME/.cache}/rapid}
folder=$home/cuda

# package REQUIREMENT: into the folder whole, or not at all.
package() {
  local name=${1%%=*} work
  if compgen -G "$folder/${name//-/_}-*.dist-info" >/dev/null; then
    return
  fi
  mkdir -p "$folder"
  work=$(mktemp -d "$home/cuda.XXXXXX")
  # pip compares what it gets with the registry's checksum.
  python3 -m pip download --quiet --disable-pip-version-check --no-deps --only-binary :all: --dest "$work" "$1" >&2 || { rm -rf "$work"; return 1; }
  python3 -m zipfile -e "$work"/*.whl "$work/whole"
  # Half of NVRTC is a second build of the same.
  rm -rf "$work"/whole/nvidia/*/lib/*.alt.so* "$work"/whole/nvidia/*/include
  # What says that it is there comes last.
  cp -r "$work/whole/nvidia" "$folder"
  cp -r "$work"/whole/*.dist-info "$folder"
  rm -rf "$work"
}

package 'nvidia-cuda-nvrtc==13.0.*'
package 'nvidia-nvtx==13.0.*'
echo "$folder"
