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

endpoint() {
  local more=''
  ! grpc || more=' proto h2'
  ! protected || more="$more check inter 1s fall 2 rise 2 observe layer7 error-limit 5 on-error mark-down"
  echo "  server s$3 $1:$2 pool-max-conn $KEEPALIVE pool-purge-delay 60s$more"
}

# The time limits of a server, and what is done about one that fails.
server_settings() {
  if protected; then
    cat <<END
  timeout connect 1s
  timeout server 1s
  timeout check 1s
  retries 3
  retry-on all-retryable-errors
  option redispatch 1
  option httpchk GET /health
  http-check expect status 200
END
  else
    printf '  timeout connect 5s\n  timeout server 60s\n'
  fi
}

# mode tcp. `splice-auto` is HAProxy's own choice between copying and splicing.
configure_tcp() {
  local rules='  default_backend origin'
  [ "$PROTOCOL" != tls-by-name ] || rules="  tcp-request inspect-delay 5s
  tcp-request content accept if { req.ssl_hello_type 1 }
  use_backend origin if { req.ssl_sni -i $SERVER_NAME }"
  written "$DIRECTORY/haproxy.cfg" <<END
global
  nbthread $WORKERS
  maxconn $CONNECTIONS
  no strict-limits
defaults
  mode tcp
  option splice-auto
  timeout connect 5s
  timeout client 600s
  timeout server 600s
frontend in
  bind $LISTEN backlog 4096
$rules
backend origin
  server s1 $ORIGIN
END
}

contender_configure() {
  local change='' servers
  if layer4; then
    configure_tcp
    return
  fi
  servers="$(each_endpoint endpoint)"
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
  timeout client 60s
$(server_settings)
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
$servers
backend stripped
  http-request replace-path /sodik(/.*) \1
$servers
END
}

contender_run() { exec haproxy -W -p "$DIRECTORY/haproxy.pid" -f "$DIRECTORY/haproxy.cfg"; }

contender_reload() { kill -USR2 "$(head -n 1 "$DIRECTORY/haproxy.pid")"; }

main "$@"
