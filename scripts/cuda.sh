#!/usr/bin/env bash
# Fetches NVRTC, NVIDIA's compiler of kernels, and NVTX, which reports ranges to its profilers, into the cache folder. They are for tests on a machine without a GPU.
# Fails without pip or a network. docs/gpu.md says what a machine with a GPU needs.
set -euo pipefail

home=${RAPID_HOME:-${XDG_CACHE_HOME:-$HOME/.cache}/rapid}
folder=$home/cuda

# package REQUIREMENT: installs a package into the folder, completely or not at all.
package() {
  local name=${1%%=*} work
  if compgen -G "$folder/${name//-/_}-*.dist-info" >/dev/null; then
    return
  fi
  mkdir -p "$folder"
  work=$(mktemp -d "$home/cuda.XXXXXX")
  # pip checks the file against the registry's checksum.
  python3 -m pip download --quiet --disable-pip-version-check --no-deps --only-binary :all: --dest "$work" "$1" >&2 || { rm -rf "$work"; return 1; }
  python3 -m zipfile -e "$work"/*.whl "$work/whole"
  # Half of NVRTC is a second build of the same library.
  rm -rf "$work"/whole/nvidia/*/lib/*.alt.so* "$work"/whole/nvidia/*/include
  # The folder that marks the package as installed comes last.
  cp -r "$work/whole/nvidia" "$folder"
  cp -r "$work"/whole/*.dist-info "$folder"
  rm -rf "$work"
}

package 'nvidia-cuda-nvrtc==13.0.*'
package 'nvidia-nvtx==13.0.*'
echo "$folder"
