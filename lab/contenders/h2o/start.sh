#!/usr/bin/env bash
# h2o as Debian ships it.
PROGRAM=h2o
. "$(dirname "${BASH_SOURCE[0]}")/../lib.sh"

contender_install() { debian h2o h2o; }

contender_version() {
  h2o --version | awk 'NR == 1 { version = $3 } /^OpenSSL: / { library = $2 " " $3 } END { print "h2o " version ", " library }'
}

forward() {
  cat <<END
      "$1":
        proxy.reverse.url: http://$ORIGIN/
        proxy.preserve-host: ON
        proxy.timeout.io: 60000
        proxy.timeout.keepalive: 60000
END
}

contender_configure() {
  local tls=''
  # With TLS on, h2o offers HTTP/2 in ALPN; clients of HTTP/1.1 do not ask for it.
  ! encrypted || tls="
      ssl: { certificate-file: \"$CERTIFICATE\", key-file: \"$KEY\", minimum-version: TLSv1.2, ocsp-update-interval: 0 }"
  written "$DIRECTORY/h2o.yaml" <<END
num-threads: $WORKERS
max-connections: $CONNECTIONS
http1-request-timeout: 600
http2-idle-timeout: 600
limit-request-body: 1073741824
tcp-fastopen: 0
# Without it a Perl program waits for a crash, and its memory would count.
crash-handler: /bin/true
user: $(id -un)
hosts:
  "*:$LISTEN_PORT":
    listen:
      host: $LISTEN_HOST
      port: $LISTEN_PORT$tls
    paths:
$(forward /sodik/)
$(forward /)
END
}

contender_run() { exec h2o -m worker -c "$DIRECTORY/h2o.yaml"; }

main "$@"
