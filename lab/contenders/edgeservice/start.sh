#!/usr/bin/env bash
# ServiceComb's EdgeService, built from the project beside this file.
PROGRAM=edgeservice
. "$(dirname "${BASH_SOURCE[0]}")/../lib.sh"

contender_install() { jar edgeservice; }

contender_version() { echo "java-chassis 3.2.0, $(java_version)"; }

# The registry is a file on the class path.
contender_configure() {
  mkdir -p "$DIRECTORY/registry"
  written "$DIRECTORY/registry/registry.yaml" <<END
origin:
  - id: "1"
    version: "0.0.1"
    appid: lab
    schemaIds: []
    instances:
      - endpoints:
          - rest://$ORIGIN
END
}

contender_run() {
  jvm --add-opens java.base/java.lang=ALL-UNNAMED "-Dloader.path=$DIRECTORY/registry" \
    -cp "$CACHE/$PROGRAM/edgeservice.jar" org.springframework.boot.loader.launch.PropertiesLauncher
}

main "$@"
