#!/usr/bin/env bash
# The forwarder on plain Netty, built from the project beside this file; netty-l4 and the variants of the thread-model
# study are the same program. LAYER is 4 or 7; THREAD_MODEL, BUFFERS and TRANSPORT: see Setup.java.
PROGRAM=netty
. "$(dirname "${BASH_SOURCE[0]}")/../lib.sh"
LAYER="${LAYER:-7}"
export THREAD_MODEL="${THREAD_MODEL:-SameLoop}" BUFFERS="${BUFFERS:-pooled}" TRANSPORT="${TRANSPORT:-epoll}"

contender_install() { jar netty; }

contender_version() { echo "Netty 4.2.15, $(java_version)"; }

contender_configure() { :; }

contender_run() { jvm -Dio.netty.leakDetection.level=disabled -cp "$CACHE/$PROGRAM/netty.jar" "lab.L$LAYER"; }

main "$@"
