#!/usr/bin/env bash
# HAProxy as Debian ships it, with a master process, as Debian's service starts it.
PROGRAM=haproxy
. "$(dirname "${BASH_SOURCE[0]}")/../lib.sh"

contender_install() { debian haproxy haproxy; }

contender_version() {
  haproxy -vv | awk 'NR == 1 { version = $3; sub(/-.*/, "", version) }
    /^Running on OpenSSL version/ { library = $6 " " $7 }
    END { print "haproxy " version ", " library }'
}

bind_options() {
  case "$PROTOCOL" in
    https) echo " ssl crt $DIRECTORY/certificate.pem alpn http/1.1" ;;
    http2) echo " ssl crt $DIRECTORY/certificate.pem alpn h2,http/1.1" ;;
    h2c | grpc) echo ' proto h2' ;;
  esac
}

contender_configure() {
  local change='' server="server s1 $ORIGIN pool-max-conn $KEEPALIVE pool-purge-delay 60s"
  ! grpc || server="$server proto h2"
  [ "$1" = 0 ] || change="http-response set-header X-Configuration $1 if { var(txn.path) -m str /change }"
  ! encrypted || cat "$CERTIFICATE" "$KEY" >"$DIRECTORY/certificate.pem"
  routes '@ origin' '' | sed '/^$/d' | written "$DIRECTORY/exact.map"
  routes '' '@ origin' | sed '/^$/d' | written "$DIRECTORY/prefix.map"
  local maps=''
  [ "$ROUTES" = 0 ] || maps="use_backend %[path,map_str($DIRECTORY/exact.map)] if { path,map_str($DIRECTORY/exact.map) -m found }
  use_backend %[path,map_beg($DIRECTORY/prefix.map)]"
  written "$DIRECTORY/haproxy.cfg" <<END
global
  nbthread $WORKERS
  maxconn $CONNECTIONS
  # So many connections on both sides at once would need more descriptors than a system may give; idle ones need one.
  no strict-limits
defaults
  mode http
  option forwardfor
  option http-keep-alive
  http-reuse always
  timeout connect 5s
  timeout client 60s
  timeout server 60s
  timeout tunnel 1h
  timeout http-keep-alive 600s
frontend in
  bind $LISTEN backlog 4096$(bind_options)
  ${change:+http-request set-var(txn.path) path}
  $change
  use_backend stripped if { path_beg /sodik/ }
  $maps
  default_backend origin
backend origin
  $server
backend stripped
  http-request replace-path /sodik(/.*) \1
  $server
END
}

contender_run() { exec haproxy -W -p "$DIRECTORY/haproxy.pid" -f "$DIRECTORY/haproxy.cfg"; }

contender_reload() { kill -USR2 "$(head -n 1 "$DIRECTORY/haproxy.pid")"; }

main "$@"
