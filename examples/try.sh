#!/usr/bin/env bash
# Starts a gateway on its embedded store with an echo origin behind it, puts an example route through the Admin API
# and says what to try next. Ctrl-C stops both. The store stays in ./weir-data; `make run` calls this.
#
#   examples/try.sh [BINARY] [arguments of weir run]...
set -euo pipefail

binary="${1:-target/release/weir}"
[ $# -eq 0 ] || shift
data=./weir-data
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

# The usual address, or any free port if somebody listens there already.
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

# The address of a listener, with an address that can be called instead of "any".
listener() {
  local found
  found="$(awk -v name="$2" '$1 == "listening" && $2 == name { print $3; exit }' "$outputs/$1")"
  printf '%s' "${found/0.0.0.0/127.0.0.1}"
}

"$binary" origin --listen "$(address 127.0.0.1:1980)" >"$outputs/origin" &
children+=($!)
await_ready origin $!

"$binary" run --data "$data" \
  --proxy "$(address 0.0.0.0:9080)" --admin "$(address 127.0.0.1:9180)" \
  --control "$(address 127.0.0.1:9090)" --status "$(address 127.0.0.1:7085)" \
  --metrics "$(address 127.0.0.1:9091)" "$@" >"$outputs/gateway" &
children+=($!)
gateway=$!
await_ready gateway "$gateway"

origin="$(listener origin origin)"
proxy="http://$(listener gateway proxy)"
admin="http://$(listener gateway admin)/apisix/admin"
key="${WEIR_ADMIN_KEY:-$(cat "$data/admin.key")}"

# The key goes in on standard input, so that no list of processes shows it.
answer="$(printf 'header = "X-API-KEY: %s"\n' "$key" | curl -sS -K - -w '\n%{http_code}' \
  -X PUT "$admin/routes/example" -H 'Content-Type: application/json' \
  -d "{\"name\": \"example\", \"uri\": \"/*\", \"upstream\": {\"type\": \"roundrobin\", \"nodes\": {\"$origin\": 1}}}")"
case "${answer##*$'\n'}" in
  200 | 201) ;;
  *) fail "the example route was refused: $answer" ;;
esac

if [ -n "${WEIR_ADMIN_KEY:-}" ]; then key_command='key=$WEIR_ADMIN_KEY'; else key_command="key=\$(cat $data/admin.key)"; fi
cat <<TEXT

weir is running.
  proxy        $proxy
  Admin API    $admin
  echo origin  http://$origin

Try next, in another terminal:

  # through the gateway to the echo origin, which shows what reached it
  curl -i $proxy/hello

  # change it while it runs: answer some paths with a rewritten one
  $key_command
  curl -X PUT $admin/routes/2 -H "X-API-KEY: \$key" -d '{
    "uri": "/old/*",
    "plugins": {"proxy-rewrite": {"regex_uri": ["^/old/(.*)", "/new/\$1"]}},
    "upstream": {"type": "roundrobin", "nodes": {"$origin": 1}}
  }'
  curl $proxy/old/page

  # a status, a delay, a big body from the origin
  curl -i $proxy/status/503
  curl -i $proxy/delay/300
  curl -o /dev/null $proxy/bytes/100000000

Ctrl-C stops both. What you changed is kept in $data.

TEXT

# Ends when the gateway ends or Ctrl-C comes.
wait "$gateway"
