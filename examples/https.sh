#!/usr/bin/env bash
# HTTPS and mutual TLS in one go: makes an authority and certificates with openssl, starts an echo origin and a gateway with a
# TLS listener, and asks it with curl. Needs openssl and curl.
#
#   examples/https.sh [BINARY]
set -euo pipefail

weir="${1:-target/quick/weir}"
folder="$(mktemp -d)"
children=()
stop() {
  for child in "${children[@]}"; do kill "$child" 2>/dev/null || true; done
  rm -rf "$folder"
}
trap stop EXIT

# An authority, a certificate for the site and one for a client.
certificate() { # NAME
  openssl req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout "$folder/$1.key" -subj "/CN=$1" \
    -addext "subjectAltName=DNS:$1" -out "$folder/$1.csr" 2>"$folder/log"
  openssl x509 -req -in "$folder/$1.csr" -CA "$folder/ca.pem" -CAkey "$folder/ca.key" -CAcreateserial \
    -copy_extensions copyall -days 30 -out "$folder/$1.pem" 2>"$folder/log"
}
openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout "$folder/ca.key" -subj "/CN=example CA" \
  -days 30 -out "$folder/ca.pem" 2>"$folder/log"
certificate shop.example
certificate api.example
certificate client

# A PEM file as the lines of a YAML block.
block() { sed 's/^/      /' "$1"; }

await() { # LINE FILE
  for _ in $(seq 300); do
    if grep -qx "$1" "$2"; then return; fi
    sleep 0.1
  done
  cat "$2" >&2
  return 1
}

"$weir" origin --listen 127.0.0.1:0 >"$folder/origin" &
children+=($!)
await ready "$folder/origin"
origin="$(sed -n 's/^listening origin //p' "$folder/origin")"

cat >"$folder/resources.yaml" <<YAML
routes:
  - id: everything
    uri: /*
    upstream: { nodes: { "$origin": 1 } }
ssls:
  # Every client may come.
  - id: shop
    sni: shop.example
    cert: |
$(block "$folder/shop.example.pem")
    key: |
$(block "$folder/shop.example.key")
  # Clients need a certificate of the authority, except at /health.
  - id: api
    sni: api.example
    cert: |
$(block "$folder/api.example.pem")
    key: |
$(block "$folder/api.example.key")
    client:
      skip_mtls_uri_regex: ["^/health"]
      ca: |
$(sed 's/^/        /' "$folder/ca.pem")
#END
YAML

"$weir" run --resources "$folder/resources.yaml" --data "$folder/data" --proxy off --proxy-tls 127.0.0.1:0 \
  --admin off --control off --status off --metrics off >"$folder/gateway" &
children+=($!)
await ready "$folder/gateway"
port="$(sed -n 's/^listening proxy-tls 127.0.0.1://p' "$folder/gateway")"

status() { # HOST PATH [OPTION…]
  local host="$1" path="$2"
  shift 2
  curl -s -o /dev/null -w '%{http_code}' --cacert "$folder/ca.pem" --resolve "$host:$port:127.0.0.1" "$@" \
    "https://$host:$port$path"
}
check() { # EXPECTED FOUND WHAT
  printf '%s  %s\n' "$2" "$3"
  [ "$1" = "$2" ] || { echo "expected $1" >&2; exit 1; }
}
mine=(--cert "$folder/client.pem" --key "$folder/client.key")
check 200 "$(status shop.example /)" "https://shop.example/"
check 400 "$(status api.example /)" "https://api.example/ without a certificate"
check 200 "$(status api.example / "${mine[@]}")" "https://api.example/ with a certificate"
check 200 "$(status api.example /health)" "https://api.example/health without a certificate"
check 421 "$(status shop.example / "${mine[@]}" -H 'Host: api.example')" "Host api.example over a connection for shop.example"
