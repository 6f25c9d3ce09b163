#!/usr/bin/env bash
# Sourced by the other scripts: installs packages of Debian and Ubuntu.

# Whether a package is installed. dpkg also knows the names of other packages, such as removed and suggested ones.
installed() {
  dpkg-query --show --showformat='${db:Status-Status}\n' "$1" 2>/dev/null | grep --quiet --line-regexp installed
}

# Whether this user can install packages.
can_install() {
  [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null
}

# install LOG PACKAGE…: installs those of the packages that are missing. Fails if that is not possible; apt's output is in LOG.
install() {
  local log=$1 packages=() package
  for package in "${@:2}"; do
    installed "$package" || packages+=("$package")
  done
  [ "${#packages[@]}" != 0 ] || return 0
  if ! can_install; then
    printf 'not installed, and this user cannot install them: %s\n' "${packages[*]}"
    return 1
  fi
  printf 'installing %s\n' "${packages[*]}"
  mkdir -p "$(dirname "$log")"
  if ! { apt-get update && DEBIAN_FRONTEND=noninteractive apt-get install --yes --no-install-recommends "${packages[@]}"; } >"$log" 2>&1 </dev/null; then
    printf 'the installation failed; see %s\n' "$log"
    return 1
  fi
}

# must_have PROGRAM…: where CI is set, fails if this user can install packages and one of these programs is missing nevertheless. So no tests are skipped for its
# lack.
must_have() {
  local program
  [ -n "${CI:-}" ] && can_install || return 0
  for program in "$@"; do
    if ! command -v "$program" >/dev/null; then
      printf 'error: %s could have been installed, and is missing, so its tests would be skipped; with CI set, that is a failure\n' "$program" >&2
      return 1
    fi
  done
}
