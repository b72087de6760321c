#!/usr/bin/env bash
# Zuul 2, built from the project beside this file.
PROGRAM=zuul2
. "$(dirname "${BASH_SOURCE[0]}")/../lib.sh"

contender_install() { jar zuul2; }

contender_version() { echo "zuul-core 2.6.9, $(java_version)"; }

contender_configure() { :; }

contender_run() {
  jvm --add-opens java.base/java.lang=ALL-UNNAMED -Dio.netty.leakDetection.level=disabled \
    -cp "$CACHE/$PROGRAM/zuul2.jar" lab.App
}

main "$@"
