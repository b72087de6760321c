#!/usr/bin/env bash
# Two nodes that share one etcd: a route that is written to the one is served by the other, also while etcd is away.
#
#   examples/cluster.sh [WEIR]      target/release/weir unless told otherwise; needs etcd (Debian: etcd-server) and curl
set -euo pipefail

weir=$(realpath "${1:-target/release/weir}")
folder=$(mktemp -d)
trap 'kill $(jobs -p) 2>/dev/null; wait 2>/dev/null; rm -rf "$folder"' EXIT
export WEIR_ADMIN_KEY=an-example-key-of-some-length

start_etcd() {
  etcd --data-dir "$folder/etcd" --listen-client-urls http://127.0.0.1:23790 \
    --advertise-client-urls http://127.0.0.1:23790 --listen-peer-urls http://127.0.0.1:23800 \
    --initial-advertise-peer-urls http://127.0.0.1:23800 --initial-cluster default=http://127.0.0.1:23800 \
    >"$folder/etcd.log" 2>&1 &
  etcd=$!
}

start_node() { # NUMBER
  "$weir" run --source etcd --etcd-endpoints http://127.0.0.1:23790 --data "$folder/node$1" \
    --proxy "127.0.0.1:1908$1" --proxy-tls off --admin "127.0.0.1:1918$1" \
    --control off --status off --metrics off \
    >"$folder/node$1.out" 2>"$folder/node$1.err" &
  node=$!
  for _ in $(seq 300); do
    if grep -qx ready "$folder/node$1.out"; then return; fi
    sleep 0.1
  done
  cat "$folder/node$1.err"
  return 1
}

start_etcd
start_node 1
start_node 2

echo '== a route, written to node 1'
curl -s -o /dev/null -w '%{http_code}\n' -X PUT -H "X-API-KEY: $WEIR_ADMIN_KEY" \
  http://127.0.0.1:19181/apisix/admin/routes/hello \
  -d '{"uri": "/hello", "plugins": {"mocking": {"response_example": "hello from a cluster", "content_type": "text/plain"}}}'
sleep 0.2

echo '== asked of node 2'
curl -s http://127.0.0.1:19082/hello
echo

echo '== etcd is away; node 2 starts again, from its own disk'
kill "$etcd" "$node"
wait "$etcd" "$node" 2>/dev/null || true
start_node 2
curl -s http://127.0.0.1:19082/hello
echo
curl -s -H "X-API-KEY: $WEIR_ADMIN_KEY" http://127.0.0.1:19182/apisix/admin/weir/status | grep -o '"state":"[a-z]*"'
