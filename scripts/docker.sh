#!/usr/bin/env bash
# Prepares the Docker sandbox for the tests: an engine that answers, and the image in it. As root on Debian or Ubuntu it installs docker.io, iptables and
# debootstrap if they are missing. If no engine answers, it starts dockerd and leaves it running. If it fails, its last line gives the reason, and it exits with 1.
set -uo pipefail
cd "$(dirname "$0")/.." || exit 1
# shellcheck source-path=SCRIPTDIR source=packages.sh
source scripts/packages.sh

image=${1:-rapid-python:1}
log=${CARGO_TARGET_DIR:-target}/dockerd.log

cannot() {
  printf '%s\n' "$1"
  exit 1
}

answers() {
  docker info >/dev/null 2>&1
}

# Starts dockerd with the given options, and waits until it answers or ends.
start() {
  printf 'starting dockerd %s\n' "$*"
  setsid dockerd "$@" >"$log" 2>&1 </dev/null &
  local engine=$!
  for _ in $(seq 60); do
    answers && return 0
    kill -0 "$engine" 2>/dev/null || return 1
    sleep 0.5
  done
  kill "$engine" 2>/dev/null
  sleep 2
  return 1
}

mkdir -p "$(dirname "$log")"
if ! answers; then
  command -v dockerd >/dev/null || install "$log.apt" docker.io debootstrap iptables ||
    cannot "no Docker engine answers, and this user cannot install one; as root: apt-get install docker.io debootstrap"
  # Newer releases of Debian have the client in a package of its own.
  command -v docker >/dev/null || install "$log.apt" docker-cli || cannot "there is no Docker client (docker); as root: apt-get install docker-cli"
  [ "$(id -u)" = 0 ] || cannot "no Docker engine answers; start it (sudo systemctl start docker) and join the group docker"
  # The sandbox's containers have no network, so an engine without a network suffices.
  start || start --iptables=false --bridge=none || start --iptables=false --bridge=none --storage-driver=vfs ||
    cannot "dockerd does not start here; $log says why"
  printf 'dockerd was started and stays running; its output is in %s\n' "$log"
fi

if ! docker image inspect "$image" >/dev/null 2>&1; then
  [ "$(id -u)" != 0 ] || command -v debootstrap >/dev/null || install "$log.apt" debootstrap
  if [ "$(id -u)" = 0 ] && command -v debootstrap >/dev/null; then
    bash sandboxes/docker/import-image.sh "$image" || cannot "sandboxes/docker/import-image.sh could not make the sandbox's image"
  else
    timeout 600 docker build --quiet --tag "$image" sandboxes/docker ||
      cannot "the sandbox's image could not be built from sandboxes/docker/Dockerfile; where no registry is reachable: sudo bash sandboxes/docker/import-image.sh"
  fi
fi
printf 'the Docker sandbox is ready\n'
