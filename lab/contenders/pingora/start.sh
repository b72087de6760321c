#!/usr/bin/env bash
# Pingora, built from the project beside this file.
PROGRAM=pingora
. "$(dirname "${BASH_SOURCE[0]}")/../lib.sh"
BINARY=pingora-proxy-of-the-laboratory
export WORK_STEALING="${WORK_STEALING:-true}"

contender_install() {
  command -v cargo >/dev/null || fail "cargo is missing: it is built from source, with the compiler that builds Weir"
  # zlib-ng is built from its crate.
  debian cmake cmake
  debian g++ g++ make
  # Debian's OpenSSL, as nginx, HAProxy and h2o have it, in the place of one that the crate would build.
  debian /usr/include/openssl/ssl.h libssl-dev pkg-config
  OPENSSL_NO_VENDOR=1 CARGO_TARGET_DIR=target built "target/release/$BINARY" "$SOURCES/project" cargo build --release --locked -q -j1
}

contender_version() { "$CACHE/$PROGRAM/$BINARY" --version | awk '{ print "pingora 0.9.1, " $1 " " $2 }'; }

contender_configure() { :; }

contender_run() { exec "$CACHE/$PROGRAM/$BINARY"; }

main "$@"
