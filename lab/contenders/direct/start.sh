#!/usr/bin/env bash
# The origin in the gateway's place: nothing is installed, and routes are ignored.
PROGRAM=direct
. "$(dirname "${BASH_SOURCE[0]}")/../lib.sh"

contender_install() { needs WEIR; }

contender_version() { needs WEIR; "$WEIR" version | head -n 1; }

contender_configure() { needs WEIR; }

contender_run() {
  ! layer4 || exec "$WEIR" lab echo --listen "$LISTEN"
  exec "$WEIR" origin --listen "$LISTEN" --workers "$WORKERS"
}

main "$@"
