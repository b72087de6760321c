#!/usr/bin/env bash
# Spring Cloud Gateway, built from the project beside this file.
PROGRAM=scg
. "$(dirname "${BASH_SOURCE[0]}")/../lib.sh"

contender_install() { jar scg; }

contender_version() { echo "Spring Cloud Gateway 5.0.3 on Spring Boot 4.0.7, $(java_version)"; }

contender_configure() { :; }

# Server and client share the event loops: the model of Reactor Netty.
contender_run() { jvm "-Dreactor.netty.ioWorkerCount=$WORKERS" -jar "$CACHE/$PROGRAM/scg.jar"; }

main "$@"
