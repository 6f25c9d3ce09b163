#!/usr/bin/env bash
# Makes the Docker sandbox's image on a machine that no image registry is reachable from: a Debian tree of packages, by debootstrap, then
# `docker import`. Where a registry can be reached, `docker build` of the Dockerfile beside this does the same.
#
#   bash sandboxes/docker/import-image.sh [IMAGE]          as root; IMAGE is rapid-python:1 where not given
#
# The packages come from the mirror that apt uses here. SUITE chooses another release than trixie, MIRROR another mirror.
set -euo pipefail

image=${1:-rapid-python:1}

fail() {
  printf 'error: %s\n' "$1" >&2
  exit 1
}

[ "$(id -u)" = 0 ] || fail "debootstrap must run as root: sudo bash $0"
command -v debootstrap >/dev/null || fail "debootstrap is not installed. Run: apt-get install debootstrap"
command -v docker >/dev/null || fail "Docker is not installed. Run: apt-get install docker.io"
docker info >/dev/null 2>&1 || fail "no Docker engine answers. Start it: systemctl start docker, or dockerd &"

# What apt is configured with: a Debian mirror, and the way to it.
# shellcheck disable=SC2016 # apt's own placeholders
sites=$(apt-get indextargets --format '$(SITE)|$(SUITE)|$(COMPONENT)' 'Created-By: Packages' 2>/dev/null | grep '|main$' || true)
mirror=${MIRROR:-$(printf '%s\n' "$sites" | grep --invert-match security | head -n 1 | cut -d'|' -f1)}
[ -n "$mirror" ] || fail "apt names no mirror here. Set MIRROR to the address of one"
suite=${SUITE:-trixie}
for scheme in http https; do
  proxy=$(apt-config dump --format '%v' "Acquire::$scheme::Proxy" 2>/dev/null || true)
  [ -z "$proxy" ] || export "${scheme}_proxy=$proxy"
done

tree=$(mktemp --directory --tmpdir="${TMPDIR:-/var/tmp}" rapid-image.XXXXXX)
trap 'rm --recursive --force --one-file-system "$tree"' EXIT

printf 'fetching and unpacking the packages of %s\n' "$suite" >&2
debootstrap --variant=minbase --include=python3,python3-numpy "$suite" "$tree" "$mirror" >"$tree.log" 2>&1 || {
  tail -n 20 "$tree.log" >&2
  rm --force "$tree.log"
  fail "debootstrap did not come to its end"
}
rm --force "$tree.log"

# Nothing in it may give a program more rights, and what no program needs is left out.
find "$tree" -xdev -perm /6000 -type f -exec chmod a-s {} +
rm --recursive --force "$tree"/var/cache/apt "$tree"/var/lib/apt/lists "$tree"/var/log "$tree"/usr/share/{doc,man,locale} "$tree"/debootstrap
mkdir --parents "$tree"/var/log
# Compiled here, as no program can write them.
chroot "$tree" python3 -m compileall -q /usr/lib/python3 /usr/lib/python3.* || true

printf 'importing it as %s\n' "$image" >&2
tar --create --directory "$tree" --numeric-owner --exclude './dev/*' --exclude './proc/*' --exclude './sys/*' . |
  docker import --change 'USER 65534:65534' --change 'WORKDIR /tmp' --change 'CMD ["python3"]' - "$image" >/dev/null
docker image inspect --format '{{.Id}}' "$image"
