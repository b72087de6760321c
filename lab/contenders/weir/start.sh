#!/usr/bin/env bash
# Weir itself: $WEIR, configured through its Admin API: its resources are brought into force before it serves clients,
# so that `run` starts an instance that has them. PLUGINS (none, five, ten, lua, wasm, traced-1 or traced-100) selects the plugins
# that work on every request; see five.json, ten.json, lua.json and fields.wat. With very many routes it takes them from a file instead, and watches that.
# At layer 4 the file has one stream route, which every connection of the listener takes; tls-by-name asks for its name.
PROGRAM=weir
. "$(dirname "${BASH_SOURCE[0]}")/../lib.sh"
PLUGINS="${PLUGINS:-none}"
export WEIR_ADMIN_KEY=key-of-the-laboratory
# Beyond this number a start by the Admin API takes half a minute, and from a file seconds.
MOST_ROUTES_BY_API=10000

contender_install() {
  needs WEIR
  [ -x "$WEIR" ] || fail "$WEIR is no program"
  debian curl curl
}

# "weir 0.2.0, rustls 0.23.46"
contender_version() {
  needs WEIR
  "$WEIR" version | awk 'NR == 1 { version = $2 } $1 == "TLS" { library = $2 " " $3; sub(/,$/, "", library) }
    END { print "weir " version (library ? ", " library : "") }'
}

# The route that a change modifies.
changed_route() {
  echo "{ \"id\": \"change\", \"uri\": \"/change\", \"upstream_id\": \"origin\",
    \"plugins\": { \"response-rewrite\": { \"headers\": { \"set\": { \"X-Configuration\": \"$1\" } } } } }"
}

endpoint() { echo "${SEPARATOR:-}\"$1:$2\": 1" && SEPARATOR=', '; }

# Settings of the upstream for failing endpoints.
upstream_protection() {
  ! protected || cat <<END
"timeout": { "connect": 1, "send": 1, "read": 1 },
    "retry": { "attempts": 3, "statuses": [500, 502, 503, 504] },
    "checks": { "active": { "http_path": "/health", "timeout": 1,
      "healthy": { "interval": 1, "successes": 2 },
      "unhealthy": { "interval": 1, "http_failures": 2, "tcp_failures": 2, "timeouts": 2 } } },
    "outlier_ejection": { "consecutive_failures": 5, "failure_statuses": [500, 502, 503, 504],
      "latency": { "factor": 4, "window": 2 }, "base_ejection_time": 2, "max_ejection_time": 4 },
END
}

# The paths of the scenarios `cached` and `cached-disk`.
cached_routes() {
  echo '{ "id": "cached", "uri": "/bytes/16000", "upstream_id": "origin", "plugins": { "proxy-cache":
    { "cache_strategy": "memory", "cache_zone": "memory_cache", "cache_ttl": 3600 } } },
    { "id": "cached-disk", "uri": "/bytes/16001", "upstream_id": "origin", "plugins": { "proxy-cache": {} } },'
}

# The path of the scenario `gzip`.
gzip_route() {
  echo '{ "id": "gzip", "uri": "/sample.json", "upstream_id": "origin",
    "plugins": { "gzip": { "types": ["application/json"], "comp_level": 1 } } },'
}

# The route of the scenario `ten-plugins`, and its consumer.
ten_plugins_route() {
  echo "{ \"id\": \"ten-plugins\", \"uri\": \"/ten-plugins/*\", \"upstream_id\": \"origin\",
    \"plugins\": $(sed "s/@ORIGIN@/$ORIGIN/" "$SOURCES/ten-on-route.json") },"
}
LABORATORY='{ "username": "laboratory", "plugins": { "key-auth": { "key": "key-of-the-laboratory" } } }'

# opentelemetry with this share of the requests in percent, and its metadata: the origin is the collector.
traced() {
  echo "{ \"opentelemetry\": { \"sampler\": { \"name\": \"trace_id_ratio\",
    \"options\": { \"fraction\": $(awk -v percent="$1" 'BEGIN { print percent / 100 }') } } } }"
}
collector() {
  echo "{ \"id\": \"opentelemetry\", \"collector\": { \"address\": \"$ORIGIN\" },
    \"batch_span_processor\": { \"max_queue_size\": 100000, \"max_export_batch_size\": 1000 } }"
}

# The stream route. No plugin of requests works there.
configure_stream() {
  local scheme=tcp name=''
  [ "$PROTOCOL" != udp ] || scheme=udp
  [ "$PROTOCOL" != tls-by-name ] || name="\"sni\": \"$SERVER_NAME\","
  written "$DIRECTORY/resources.json" <<END
{ "stream_routes": [ { "id": "all", $name
  "upstream": { "type": "roundrobin", "scheme": "$scheme", "nodes": { "$ORIGIN": 1 } } } ] }
END
}

# All objects; one route a line, since there may be a hundred thousand of them.
contender_configure() {
  needs WEIR
  if layer4; then
    configure_stream
    return
  fi
  local websocket=false scheme=http rules='[]' consumers="[ $LABORATORY ]" ssls='[]' metadata='[]' change=''
  [ "$PROTOCOL" != websocket ] || websocket=true
  ! grpc || scheme=grpc
  # A client that asks for no name, because it has an address, is shown this certificate by `fallback_sni`.
  ! encrypted || ssls="[ { \"id\": \"all\", \"sni\": \"localhost\",
    \"cert\": \"$(text_of "$CERTIFICATE")\", \"key\": \"$(text_of "$KEY")\" } ]"
  [ "$1" = 0 ] || change="$(changed_route "$1"),"
  case "$PLUGINS" in
    none) ;;
    five | ten | lua)
      rules="[ { \"id\": \"plugins\", \"plugins\": $(sed "s/@ORIGIN@/$ORIGIN/" "$SOURCES/$PLUGINS.json") } ]"
      consumers="[ { \"username\": \"anybody\" }, $LABORATORY ]"
      ;;
    wasm) rules='[ { "id": "plugins", "plugins": { "fields": { "conf": "-" } } } ]' ;;
    traced-*) rules="[ { \"id\": \"plugins\", \"plugins\": $(traced "${PLUGINS#traced-}") } ]" metadata="[ $(collector) ]" ;;
    *) fail "PLUGINS is none, five, ten, lua, wasm, traced-1 or traced-100, not '$PLUGINS'" ;;
  esac
  # Through a pipe: the shell itself is slow with texts of megabytes.
  {
    cat <<END
{
  "upstreams": [ { "id": "origin", "type": "roundrobin", "scheme": "$scheme", "nodes": { $(each_endpoint endpoint) },
    $(upstream_protection)
    "keepalive_pool": { "size": $KEEPALIVE, "idle_timeout": 600, "requests": 1000000000 } } ],
  "consumers": $consumers,
  "ssls": $ssls,
  "plugin_metadata": $metadata,
  "global_rules": $rules,
  "routes": [
END
    routes '@' '@*' | awk '{ printf "{ \"id\": \"r%d\", \"uri\": \"%s\", \"upstream_id\": \"origin\" },\n", NR, $0 }'
    cat <<END
$change
$(cached_routes)
$(gzip_route)
$(ten_plugins_route)
{ "id": "stripped", "uri": "/sodik/*", "upstream_id": "origin",
  "plugins": { "proxy-rewrite": { "regex_uri": ["^/sodik/(.*)", "/\$1"] } } },
{ "id": "all", "uri": "/*", "upstream_id": "origin", "enable_websocket": $websocket }
  ]
}
END
  } | written "$DIRECTORY/resources.json"
}

# weir_run OPTION… : the command of an instance on this run's data.
weir_run() {
  NODE=("$WEIR" run --workers "$WORKERS" --data "$DIRECTORY/data" --admin 127.0.0.1:0 --control off --status off
    --proxy-cache '{"cache_ttl": "1h"}' "$@")
  [ "$PLUGINS" != wasm ] ||
    NODE+=(--wasm "{\"plugins\": [ { \"name\": \"fields\", \"priority\": 1, \"file\": \"$SOURCES/fields.wasm\" } ] }")
}

# The address of the Admin API of the instance with its output in this file.
admin_address() { sed -n 's/^listening admin //p' "$1"; }

# Starts an instance without clients, brings the resources into force and stops it: they are then in its store.
fill_store() {
  local output="$DIRECTORY/filling" node
  weir_run --proxy off --proxy-tls off --metrics off
  "${NODE[@]}" >"$output" &
  node=$!
  trap 'kill "$node" 2>/dev/null || true' EXIT
  until grep -q '^ready' "$output"; do
    kill -0 "$node" 2>/dev/null || fail "the node that takes the resources does not start"
    sleep 0.05
  done
  "$WEIR" apply --data "$DIRECTORY/data" --admin "$(admin_address "$output")" "$DIRECTORY/resources.json" >"$DIRECTORY/applied" \
    || fail "the resources are refused: $(head -n 3 "$DIRECTORY/applied")"
  kill "$node"
  wait "$node" || true
  trap - EXIT
}

by_file() { layer4 || [ "$ROUTES" -gt "$MOST_ROUTES_BY_API" ]; }

contender_run() {
  local metrics=off source=() listeners=(--proxy "$LISTEN" --proxy-tls off)
  ! encrypted || listeners=(--proxy off --proxy-tls "$LISTEN" --fallback-sni localhost)
  ! layer4 || listeners=(--proxy off --proxy-tls off --stream-tcp "$LISTEN")
  [ "$PROTOCOL" != udp ] || listeners=(--proxy off --proxy-tls off --stream-udp "$LISTEN")
  [ "$PROTOCOL" != http3 ] || listeners=(--proxy off --proxy-tls off --proxy-tls-http3 "$LISTEN" --fallback-sni localhost)
  [ "$PLUGINS" = none ] || metrics=127.0.0.1:0
  if by_file; then source=(--resources "$DIRECTORY/resources.json"); else fill_store; fi
  weir_run "${listeners[@]}" --metrics "$metrics" "${source[@]}"
  exec "${NODE[@]}" >"$DIRECTORY/output"
}

contender_reload() {
  # Weir watches the file and notices the new one.
  ! by_file || return 0
  curl -sS -f -o "$DIRECTORY/changed" -X PUT -H "X-API-KEY: $WEIR_ADMIN_KEY" -d "$(changed_route "$1")" \
    "http://$(admin_address "$DIRECTORY/output")/apisix/admin/routes/change"
}

main "$@"
