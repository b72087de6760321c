#!/usr/bin/env bash
# nginx as Debian ships it, set up as its guide for a proxy in front of an origin that keeps connections says. At layer 4 it
# is the module stream, with its own buffers and limits.
PROGRAM=nginx
. "$(dirname "${BASH_SOURCE[0]}")/../lib.sh"

STREAM_MODULE=/usr/lib/nginx/modules/ngx_stream_module.so

contender_install() {
  debian nginx nginx
  # Debian builds the module apart; other builds may contain it.
  nginx -V 2>&1 | grep -q -- '--with-stream ' || debian "$STREAM_MODULE" libnginx-mod-stream
}

# "nginx/1.22.1, OpenSSL 3.0.22": the library that runs, where that is not the one it was built with.
contender_version() {
  nginx -V 2>&1 | awk '/^nginx version/ { version = $3 }
    / OpenSSL / { library = $0; sub(/.*running with /, "", library); sub(/.*built with /, "", library) }
    END { split(library, words, " "); print version ", " words[1] " " words[2] }'
}

# The `listen` directive, with the settings of TLS if clients use it.
listener() {
  local options=''
  [ "$PROTOCOL" != https ] || options=' ssl'
  [ "$PROTOCOL" != http2 ] || options=' ssl http2'
  ! clear_http2 || options=' http2'
  echo "listen $LISTEN$options backlog=4096 reuseport;"
  ! encrypted || cat <<END
    ssl_certificate $CERTIFICATE;
    ssl_certificate_key $KEY;
    ssl_protocols TLSv1.2 TLSv1.3;
    ssl_session_cache shared:sessions:10m;
END
}

# Upgrades have to be forwarded explicitly; otherwise an empty Connection field keeps the connection.
connection_fields() {
  if [ "$PROTOCOL" = websocket ]; then
    echo 'proxy_set_header Upgrade $http_upgrade; proxy_set_header Connection "upgrade"; proxy_read_timeout 1h;'
  else
    echo 'proxy_set_header Connection "";'
  fi
}

# Fields for the origin: NAME of the module's directive.
client_fields() {
  echo "$1 Host \$host;"
  echo "    $1 X-Real-IP \$remote_addr;"
  echo "    $1 X-Forwarded-For \$proxy_add_x_forwarded_for;"
}

endpoint() {
  case "$PROTECTION" in
    default) echo "server $1:$2;" ;;
    recommended) echo "server $1:$2 max_fails=2 fail_timeout=2s;" ;;
    *) echo "server $1:$2 max_fails=0;" ;;
  esac
}

# Without `http_500` and its like, such responses are passed on and are no failed attempts of a server.
next_upstream() {
  ! protected || cat <<END
    proxy_connect_timeout 1s;
    proxy_read_timeout 1s;
    proxy_next_upstream error timeout invalid_header http_500 http_502 http_503 http_504;
    proxy_next_upstream_tries 3;
END
}

# The paths of the scenarios `cached` and `cached-disk`. Files stay open, as Weir keeps them.
cached_paths() {
  local path
  grpc || for path in /bytes/16000 /bytes/16001; do
    cat <<END
    location = $path {
      proxy_cache lab;
      proxy_cache_key \$scheme\$host\$request_uri;
      proxy_cache_valid 200 1h;
      open_file_cache max=512 inactive=1h;
      open_file_cache_valid 1h;
      $1;
    }
END
  done
}

# The path of the scenario `gzip`.
gzip_path() {
  grpc || cat <<END
    location = /sample.json {
      gzip on;
      gzip_comp_level 1;
      gzip_types application/json;
      $1;
    }
END
}

# The server of the module stream.
stream_server() {
  case "$PROTOCOL" in
    udp) echo "server { listen $LISTEN udp reuseport; proxy_pass origin; proxy_timeout 60s; }" ;;
    tls-by-name)
      echo "map \$ssl_preread_server_name \$node { $SERVER_NAME origin; default ''; }"
      echo "  server { listen $LISTEN backlog=4096 reuseport; ssl_preread on; proxy_pass \$node; }"
      ;;
    *) echo "server { listen $LISTEN backlog=4096 reuseport; proxy_pass origin; }" ;;
  esac
}

configure_stream() {
  local module=''
  [ ! -e "$STREAM_MODULE" ] || module="load_module $STREAM_MODULE;"
  written "$DIRECTORY/nginx.conf" <<END
$module
daemon off;
$1
worker_processes $WORKERS;
worker_rlimit_nofile $(open_files);
pid $DIRECTORY/nginx.pid;
error_log stderr crit;
events { worker_connections $((2 * CONNECTIONS)); }
stream {
  access_log off;
  tcp_nodelay on;
  proxy_timeout 600s;
  upstream origin { server $ORIGIN max_fails=0; }
  $(stream_server)
}
END
}

contender_configure() {
  local change='' pass='proxy_pass http://origin' fields
  ! grpc || pass='grpc_pass grpc://origin'
  fields="$(grpc && client_fields grpc_set_header || client_fields proxy_set_header)"
  [ "$1" = 0 ] || change="location = /change { $pass; add_header X-Configuration $1; }"
  # As root its workers would become another user, which may not reach $DIRECTORY.
  local user=''
  [ "$(id -u)" != 0 ] || user='user root;'
  if layer4; then
    configure_stream "$user"
    return
  fi
  routes "location = @ { $pass; }" "location ^~ @ { $pass; }" \
    | written "$DIRECTORY/routes.conf"
  written "$DIRECTORY/nginx.conf" <<END
daemon off;
$user
worker_processes $WORKERS;
worker_rlimit_nofile $(open_files);
pid $DIRECTORY/nginx.pid;
error_log stderr crit;
events { worker_connections $((2 * CONNECTIONS)); }
http {
  access_log off;
  server_tokens off;
  sendfile on;
  proxy_cache_path $DIRECTORY/cache levels=1:2 keys_zone=lab:10m max_size=100m inactive=1h use_temp_path=off;
  tcp_nodelay on;
  keepalive_requests 1000000000;
  keepalive_timeout 600s;
  client_max_body_size 0;
  client_body_temp_path $DIRECTORY/body;
  proxy_temp_path $DIRECTORY/proxy;
  fastcgi_temp_path $DIRECTORY/fastcgi;
  uwsgi_temp_path $DIRECTORY/uwsgi;
  scgi_temp_path $DIRECTORY/scgi;
  upstream origin {
    $(each_endpoint endpoint)
    keepalive $KEEPALIVE;
    keepalive_requests 1000000000;
    keepalive_timeout 600s;
  }
  server {
    $(listener)
    proxy_http_version 1.1;
    $(connection_fields)
    $fields
    # Bodies are streamed, as by the others: no file in between, whatever their length.
    proxy_request_buffering off;
    proxy_max_temp_file_size 0;
    # The larger page fits into these buffers whole.
    proxy_buffer_size 8k;
    proxy_buffers 8 16k;
    $(next_upstream)
    location / { $pass; }
    $(cached_paths "$pass")
    $(gzip_path "$pass")
    location /sodik/ { proxy_pass http://origin/; }
    location /ten-plugins/ { proxy_pass http://origin/; }
    $change
    include $DIRECTORY/routes.conf;
  }
}
END
}

contender_run() { exec nginx -p "$DIRECTORY" -e stderr -c "$DIRECTORY/nginx.conf"; }

contender_reload() { kill -HUP "$(cat "$DIRECTORY/nginx.pid")"; }

main "$@"
