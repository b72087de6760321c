#!/usr/bin/env bash
# Zuul 1, built from the project beside this file. Made for JDK 8 and 11; on 17 these packages have to be opened.
PROGRAM=zuul1
. "$(dirname "${BASH_SOURCE[0]}")/../lib.sh"

contender_install() { jar zuul1; }

contender_version() { echo "Spring Cloud Netflix Hoxton.SR12 on Spring Boot 2.3.12, $(java_version)"; }

contender_configure() { :; }

contender_run() {
  local opened=() package
  for package in lang lang.reflect util net; do opened+=(--add-opens "java.base/java.$package=ALL-UNNAMED"); done
  jvm "${opened[@]}" -jar "$CACHE/$PROGRAM/zuul1.jar"
}

main "$@"
