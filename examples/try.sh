#!/usr/bin/env bash
# Starts a gateway on its embedded store with an echo origin behind it, puts an example route through the Admin API
# and says what to try next. Ctrl-C stops both. The store stays in ./weir-data; `make run` calls this.
#
#   examples/try.sh [BINARY] [--origin ADDR] [arguments of weir run]...
#
# A listener that is not given (--admin ADDR, or WEIR_ADMIN) takes its usual port, or any free one where that is taken.
set -euo pipefail

binary="${1:-target/quick/weir}"
[ $# -eq 0 ] || shift
outputs="$(mktemp -d)"
children=()

stop() {
  trap - EXIT INT TERM
  for child in "${children[@]}"; do kill -TERM "$child" 2>/dev/null || true; done
  wait 2>/dev/null || true
  rm -rf "$outputs"
}
trap stop EXIT
trap 'stop; exit 130' INT
trap 'stop; exit 143' TERM

fail() { printf '%s\n' "$*" >&2; exit 1; }

taken() { (exec 3<>"/dev/tcp/127.0.0.1/$1") 2>/dev/null; }

# The usual address, or any free port where its own is taken.
address() {
  if taken "${1##*:}"; then printf '%s:0' "${1%:*}"; else printf '%s' "$1"; fi
}

# Waits for the line `ready` in a program's output.
await_ready() {
  local name="$1" child="$2"
  until grep -qx ready "$outputs/$name" 2>/dev/null; do
    kill -0 "$child" 2>/dev/null || fail "$name did not start (its message is above)"
    sleep 0.05
  done
}

# The address of a listener as the program printed it, with an address that can be called instead of "any"; nothing
# where the listener is off.
listener() {
  local found
  found="$(awk -v name="$2" '$1 == "listening" && $2 == name { print $3; exit }' "$outputs/$1")"
  printf '%s' "${found/0.0.0.0/127.0.0.1}"
}

# --origin is this script's own; whatever else is given goes to weir run.
origin_at="" data=./weir-data given=()
while [ $# -gt 0 ]; do
  case "$1" in
    --origin) origin_at="${2:?--origin needs an address}"; shift ;;
    --origin=*) origin_at="${1#*=}" ;;
    --data) data="${2:?--data needs a folder}"; shift ;;
    --data=*) data="${1#*=}" ;;
    *) given+=("$1") ;;
  esac
  shift
done

# A flag that is given would be added to a list, and would win over a settings file, so a default stands only where none
# of flag, variable and settings file is given.
settings=()
default() {
  local name="$1" value="$2" variable argument
  variable="WEIR_${name^^}"
  variable="${variable//-/_}"
  [ -z "${!variable:-}${WEIR_CONFIG:-}" ] || return 0
  for argument in "${given[@]}"; do
    case "$argument" in "--$name" | "--$name="* | -c* | --config | --config=*) return 0 ;; esac
  done
  settings+=("--$name" "$(address "$value")")
}
default proxy 0.0.0.0:9080
default proxy-tls 0.0.0.0:9443
default admin 127.0.0.1:9180
default control 127.0.0.1:9090
default status 127.0.0.1:7085
default metrics 127.0.0.1:9091

"$binary" origin --listen "${origin_at:-$(address 127.0.0.1:1980)}" >"$outputs/origin" &
children+=($!)
await_ready origin $!

"$binary" run --data "$data" "${settings[@]}" "${given[@]}" >"$outputs/gateway" &
children+=($!)
gateway=$!
await_ready gateway "$gateway"

origin="$(listener origin origin)"
proxy="$(listener gateway proxy)"
admin="$(listener gateway admin)"
control="$(listener gateway control)"
status="$(listener gateway status)"
metrics="$(listener gateway metrics)"
[ -n "$admin" ] || fail "the example route is written through the Admin API, so --admin cannot be off here"
key="${WEIR_ADMIN_KEY:-$(cat "$data/admin.key")}"

# The key goes in on standard input, so that no list of processes shows it.
answer="$(printf 'header = "X-API-KEY: %s"\n' "$key" | curl -sS -K - -w '\n%{http_code}' \
  -X PUT "http://$admin/apisix/admin/routes/example" -H 'Content-Type: application/json' \
  -d "{\"name\": \"example\", \"uri\": \"/*\", \"upstream\": {\"type\": \"roundrobin\", \"nodes\": {\"$origin\": 1}}}")"
case "${answer##*$'\n'}" in
  200 | 201) ;;
  *) fail "the example route was refused: $answer" ;;
esac

line() { if [ -n "$2" ]; then printf '  %-12s http://%s%s\n' "$1" "$2" "${3:-}"; else printf '  %-12s off\n' "$1"; fi; }
if [ -n "${WEIR_ADMIN_KEY:-}" ]; then key_command='key=$WEIR_ADMIN_KEY'; else key_command="key=\$(cat $data/admin.key)"; fi

printf '\nweir is running.\n'
line proxy "$proxy"
line "Admin API" "$admin" /apisix/admin
line dashboard "$admin" /ui/
line control "$control"
line status "$status" /status
line metrics "$metrics" /apisix/prometheus/metrics
line "echo origin" "$origin"
cat <<TEXT

Try next. In another terminal, set what the commands of README.md use:

  proxy=http://$proxy admin=http://$admin/apisix/admin origin=$origin
  control=http://$control metrics=http://$metrics/apisix/prometheus/metrics
  $key_command

  # the dashboard asks for this key in a browser
  echo \$key

  # through the gateway to the echo origin, which shows what reached it
  curl -i \$proxy/hello

  # a status, a delay, a big body from the origin
  curl -i \$proxy/status/503
  curl -i \$proxy/delay/300
  curl -o /dev/null \$proxy/bytes/100000000

Ctrl-C stops both. What you changed is kept in $data.

TEXT

# Ends when the gateway ends or Ctrl-C comes.
wait "$gateway"
