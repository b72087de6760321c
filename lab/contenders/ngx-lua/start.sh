#!/usr/bin/env bash
# nginx with the Lua module as Debian ships them, and one function in the access phase. weir-lua runs the same function.
PROGRAM=ngx-lua
. "$(dirname "${BASH_SOURCE[0]}")/../lib.sh"
MODULES=/usr/lib/nginx/modules

contender_install() {
  debian nginx nginx
  debian "$MODULES/ndk_http_module.so" libnginx-mod-http-ndk
  debian "$MODULES/ngx_http_lua_module.so" libnginx-mod-http-lua
  debian /usr/share/lua/5.1/resty/core.lua lua-resty-core
}

contender_version() {
  echo "$(nginx -v 2>&1), ngx_lua $(dpkg-query -W -f '${Version}' libnginx-mod-http-lua 2>/dev/null || echo unknown)"
}

contender_configure() {
  local user=''
  [ "$(id -u)" != 0 ] || user='user root;'
  written "$DIRECTORY/nginx.conf" <<END
daemon off;
$user
load_module $MODULES/ndk_http_module.so;
load_module $MODULES/ngx_http_lua_module.so;
worker_processes $WORKERS;
worker_rlimit_nofile $(open_files);
pid $DIRECTORY/nginx.pid;
error_log stderr crit;
events { worker_connections $((2 * CONNECTIONS)); }
http {
  access_log off;
  server_tokens off;
  sendfile on;
  tcp_nodelay on;
  keepalive_requests 1000000000;
  keepalive_timeout 600s;
  client_max_body_size 0;
  client_body_temp_path $DIRECTORY/body;
  proxy_temp_path $DIRECTORY/proxy;
  fastcgi_temp_path $DIRECTORY/fastcgi;
  uwsgi_temp_path $DIRECTORY/uwsgi;
  scgi_temp_path $DIRECTORY/scgi;
  lua_code_cache on;
  init_by_lua_block { require "resty.core" }
  upstream origin {
    server $ORIGIN max_fails=0;
    keepalive $KEEPALIVE;
    keepalive_requests 1000000000;
    keepalive_timeout 600s;
  }
  server {
    listen $LISTEN backlog=4096 reuseport;
    location / {
      access_by_lua_block {
        local fields = ngx.req.get_headers()
        ngx.req.set_header("X-Seen", (fields["host"] or "") .. " " .. (fields["user-agent"] or ""))
      }
      proxy_http_version 1.1;
      proxy_set_header Connection "";
      proxy_set_header Host \$host;
      proxy_set_header X-Real-IP \$remote_addr;
      proxy_set_header X-Forwarded-For \$proxy_add_x_forwarded_for;
      proxy_request_buffering off;
      proxy_max_temp_file_size 0;
      proxy_buffer_size 8k;
      proxy_buffers 8 16k;
      proxy_pass http://origin;
    }
  }
}
END
}

contender_run() { exec nginx -p "$DIRECTORY" -e stderr -c "$DIRECTORY/nginx.conf"; }

main "$@"
