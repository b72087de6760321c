#!/usr/bin/env bash
# Installs what building, testing and measuring need besides a Rust toolchain: Debian's packages, and for tests a few of
# PyPI in a folder of their own below target/.
#
#   lab/install.sh [run|test|bench|fuzz]...  test and bench by default; what is there already is left alone
#
# Packages start no service of their own: policy-rc.d says no while they are unpacked.
set -euo pipefail

declare -A packages=(
  # gcc builds the allocator and links, curl and certificates try the gateway out.
  [run]="gcc libc6-dev make curl ca-certificates"
  # nginx, haproxy and etcd are peers in tests, Python runs API clients from PyPI, Chromium opens our pages.
  [test]="gcc libc6-dev make curl ca-certificates nginx haproxy etcd-server etcd-client python3 python3-venv chromium chromium-driver logrotate mandoc man-db"
  # ab is in apache2-utils, taskset in util-linux.
  [bench]="curl python3 nginx haproxy etcd-server etcd-client wrk apache2-utils util-linux"
  # The fuzzer's engine is C++.
  [fuzz]="g++ libc6-dev make"
)

say() { printf 'install: %s\n' "$*" >&2; }

installed() { [ "$(dpkg-query -W -f '${db:Status-Status}' "$1" 2>/dev/null)" = installed ]; }

# The packages of the given groups that are missing.
missing() {
  local group package
  for group in "$@"; do
    for package in ${packages[$group]}; do
      installed "$package" || printf '%s\n' "$package"
    done
  done | sort -u
}

install_packages() {
  local as_root=() policy=/usr/sbin/policy-rc.d
  if [ "$(id -u)" -ne 0 ]; then
    command -v sudo >/dev/null || { say "root or sudo is needed to install: $*"; return 1; }
    as_root=(sudo)
  fi
  say "$*"
  if [ ! -e "$policy" ]; then
    printf '#!/bin/sh\nexit 101\n' | "${as_root[@]}" tee "$policy" >/dev/null
    "${as_root[@]}" chmod +x "$policy"
    # Expanded now: the array and the path are gone when the trap runs.
    # shellcheck disable=SC2064
    trap "${as_root[*]} rm -f $policy" EXIT
  fi
  local apt=("${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -qq -o DPkg::Lock::Timeout=300)
  # The list of a fresh image is empty, that of an old one names versions that are gone.
  "${apt[@]}" install -y --no-install-recommends "$@" >/dev/null 2>&1 ||
    { "${apt[@]}" update && "${apt[@]}" install -y --no-install-recommends "$@" >/dev/null; }
}

# The packages that tests take from PyPI; made again when their list has changed.
install_python() {
  local list place
  list=$(dirname "$0")/test-python.txt
  place=$(dirname "$0")/../target/test-python
  ! cmp -s "$list" "$place/installed.txt" || return 0
  say "PyPI: $(grep -c '==' "$list") packages"
  rm -rf "$place"
  # Debian's own Python, whatever else is on the path: it is the one that has the module.
  /usr/bin/python3 -m venv "$place"
  "$place/bin/pip" install --quiet --disable-pip-version-check --no-deps --requirement "$list"
  cp "$list" "$place/installed.txt"
}

groups=("$@")
[ ${#groups[@]} -gt 0 ] || groups=(test bench)
for group in "${groups[@]}"; do
  [ -n "${packages[$group]:-}" ] || { say "no group $group; there are: ${!packages[*]}"; exit 2; }
done
command -v dpkg-query >/dev/null || { say "not a Debian: install by hand ${packages[*]}"; exit 0; }
mapfile -t wanted < <(missing "${groups[@]}")
[ ${#wanted[@]} -eq 0 ] || install_packages "${wanted[@]}"
case " ${groups[*]} " in *" test "*) install_python ;; esac
