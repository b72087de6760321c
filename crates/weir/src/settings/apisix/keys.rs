//! The table of APISIX's `config.yaml`: every key that is known here, and its effect. The reference page is
//! made from it. Reads no file.

use super::draft::{Draft, Spot};
use super::{
    admin, cache, deployment, discovery, health_checks, listeners, logs, plugins, proxy_protocol, stream,
    wasm,
};

/// A key and its effect.
pub(super) struct ApisixKey {
    /// `apisix.node_listen`; `plugin_attr.*` covers each key of the section without a row of its own.
    pub(super) path: &'static str,
    pub(super) act: Act,
    /// The text for the reference page; for a key without effect, refused or fixed, also the reason in its
    /// message.
    pub(super) says: &'static str,
    /// Whether the key has an effect with an empty value.
    pub(super) takes_null: bool,
}

/// The effect of a key.
#[derive(Clone, Copy)]
pub(super) enum Act {
    /// Sets the setting of that name.
    Setting(&'static str),
    /// Sets a setting in milliseconds from a time of nginx.
    Time(&'static str),
    /// Calls a function of its own.
    Honour(fn(&mut Draft<'_>, &Spot<'_>)),
    /// Weir behaves as with this value; any other value has no effect.
    Same(&'static str),
    /// No effect, and no message, because nothing is missing.
    Moot,
    /// No effect; the warning names it.
    Ignore,
}

const fn key(path: &'static str, act: Act, says: &'static str) -> ApisixKey {
    ApisixKey { path, act, says, takes_null: false }
}

use Act::{Honour, Ignore, Moot, Same, Setting, Time};

/// The table, in the order of the page.
#[rustfmt::skip]
pub(super) const KEYS: &[ApisixKey] = &[
    key("apisix.node_listen", Honour(listeners::node_listen), "`proxy`; entries with `enable_http2: false` are in `http1_only` too"),
    key("apisix.id", Setting("instance_id"), ""),
    key("apisix.enable_ipv6", Honour(listeners::enable_ipv6), "`true`: `proxy` and `proxy_tls` have `[::]` too for ports without an address"),
    key("apisix.ssl", Honour(listeners::ssl), "`listen`: `proxy_tls`, entries with `enable_http3: true` `proxy_tls_http3`, those with `enable_http2: false` are in `http1_only` too; `enable_http2: false`: all of them; `enable: false`: `proxy_tls: off`; `ssl_protocols`, `ssl_ciphers` without suites that are not offered, `ssl_session_tickets`, `fallback_sni`; `ssl_trusted_certificate` is `trusted_certificates`, `etcd_ca` and `secret_ca`"),
    key("apisix.enable_http2", Setting("http2"), ""),
    key("apisix.proxy_protocol", Honour(proxy_protocol::convert_proxy_protocol), "`listen_http_port`: `proxy_protocol`; `listen_https_port`: `proxy_protocol_tls`; `enable_tcp_pp`: entries of `stream_proxy.tcp` are in `stream_proxy_protocol` or `stream_proxy_protocol_tls`; `enable_tcp_pp_to_upstream`: they are in `stream_send_proxy_protocol`. The header always names the client, also without `real_ip_header: proxy_protocol`"),
    key("apisix.proxy_mode", Honour(stream::proxy_mode), "`stream`: no listener of HTTP; `stream`, `http&stream`: `stream_proxy` and `admin_stream_routes: true`"),
    key("apisix.stream_proxy", Honour(stream::stream_proxy), "`tcp`: `stream_tcp`, entries with `tls: true` `stream_tls`, those with `proxy_protocol: true` `stream_proxy_protocol` or `stream_proxy_protocol_tls`, those with `proxy_protocol_to_upstream: true` are in `stream_send_proxy_protocol` too; `udp`: `stream_udp`; `only: true` is `proxy_mode: stream`, `only: false` is `http&stream`, where no mode is written"),
    key("apisix.enable_reuseport", Same("true"), "each worker has a socket of its own"),
    key("apisix.enable_admin", Honour(listeners::enable_admin), "`false`: `admin: off`"),
    key("apisix.enable_control", Honour(listeners::enable_control), "`false`: `control: off`"),
    key("apisix.control", Honour(listeners::control), "`control`"),
    key("apisix.status", Honour(listeners::status), "`status`"),
    key("apisix.enable_dev_mode", Honour(logs::dev_mode), "`true`: `workers: 1`"),
    key("apisix.enable_server_tokens", Honour(admin::server_tokens), "`false`: `server_header: weir`, `admin_emulated_version: off`"),
    key("apisix.show_upstream_status_in_response_header", Setting("show_upstream_status_in_response_header"), ""),
    key("apisix.router.http", Setting("router_mode"), ""),
    key("apisix.router.ssl", Same("radixtree_sni"), "certificates are found by SNI"),
    key("apisix.delete_uri_tail_slash", Setting("delete_uri_tail_slash"), ""),
    key("apisix.normalize_uri_like_servlet", Setting("normalize_uri_like_servlet"), ""),
    key("apisix.match_uri_encoded_slash", Setting("match_uri_encoded_slash"), ""),
    key("apisix.trusted_addresses", Setting("trusted_addresses"), ""),
    key("apisix.max_post_args_readable_size", Honour(plugins::post_args_limit), "`max_matched_body_bytes`, in MiB as in APISIX, at most 64; the larger of this and `graphql.max_size`"),
    key("apisix.dns_resolver", Setting("dns_servers"), ""),
    key("apisix.dns_resolver_valid", Honour(logs::dns_valid), "`dns_ttl_min_ms` and `dns_ttl_max_ms`"),
    key("apisix.resolver_timeout", Time("dns_timeout_ms"), ""),
    key("apisix.enable_resolv_search_opt", Setting("dns_search"), ""),
    key("apisix.data_encryption", Honour(deployment::data_encryption), "`encryption_keyring`; with etcd and nothing written, APISIX's published keys, told"),
    key("apisix.proxy_cache", Honour(cache::zones), "`proxy_cache`"),
    key("apisix.disable_upstream_healthcheck", Honour(health_checks::disable), "`upstream_health_checks: false`"),
    key("apisix.extra_lua_path", Honour(plugins::extra_lua_path), "`lua_path`, its folders; plugins of `plugins` with a file there are `lua_plugins`"),
    key("apisix.extra_lua_cpath", Same(""), "Lua has no modules in C"),
    key("apisix.lua_module_hook", Ignore, "Lua has no module at the start"),
    key("apisix.disable_sync_configuration_during_start", Same("false"), "a node is ready when it has its configuration"),
    key("apisix.worker_startup_time_threshold", Moot, "a worker that ended is started again at once"),
    key("apisix.events", Moot, "workers need no bus"),
    key("apisix.lru", Ignore, "memos have bounds of their own"),
    key("apisix.tracing", Ignore, "`spans` in the plugin metadata `opentelemetry` says which spans a request has"),

    key("nginx_config.error_log", Honour(logs::convert_error_log), "`error_log`; a relative path lies in the folder above `conf`"),
    key("nginx_config.error_log_level", Honour(logs::error_log_level), "`log_level`; `notice` is `info`, what is above `error` is `error`"),
    key("nginx_config.worker_processes", Setting("workers"), ""),
    key("nginx_config.enable_cpu_affinity", Setting("pin"), ""),
    key("nginx_config.worker_shutdown_timeout", Honour(logs::shutdown_timeout), "`grace`"),
    key("nginx_config.event", Ignore, "`max_connections` bounds the whole process"),
    key("nginx_config.worker_rlimit_nofile", Ignore, "the limit of the process counts: `ulimit -n`"),
    key("nginx_config.user", Ignore, "the process keeps the user it is started as"),
    key("nginx_config.envs", Honour(plugins::runner_environment), "`plugin_runner_environment`; the gateway itself sees every variable"),
    key("nginx_config.max_pending_timers", Moot, "there are no such timers"),
    key("nginx_config.max_running_timers", Moot, "there are no such timers"),
    key("nginx_config.meta", Ignore, "memory is not split beforehand"),
    key("nginx_config.stream", Ignore, "`stream_access_log` and `stream_access_log_format` are the log of sessions; memory is not split beforehand"),
    key("nginx_config.main_configuration_snippet", Same(""), "there is no nginx"),
    key("nginx_config.http_configuration_snippet", Same(""), "there is no nginx"),
    key("nginx_config.http_server_configuration_snippet", Same(""), "there is no nginx"),
    key("nginx_config.http_server_location_configuration_snippet", Same(""), "there is no nginx"),
    key("nginx_config.http_admin_configuration_snippet", Same(""), "there is no nginx"),
    key("nginx_config.http_end_configuration_snippet", Same(""), "there is no nginx"),
    key("nginx_config.stream_configuration_snippet", Same(""), "there is no nginx"),
    key("nginx_config.http.enable_access_log", Honour(logs::enable_access_log), "`false`: `access_log: off`"),
    key("nginx_config.http.access_log", Honour(logs::convert_access_log), "`access_log`; a relative path lies in the folder above `conf`"),
    key("nginx_config.http.access_log_format", Honour(logs::convert_access_log_format), "`access_log_format`, if every variable of it exists"),
    key("nginx_config.http.access_log_format_escape", Moot, "fields are escaped so that they stay one line"),
    key("nginx_config.http.access_log_buffer", Moot, "lines are written in batches"),
    key("nginx_config.http.keepalive_timeout", Honour(logs::keepalive_timeout), "`idle_timeout_ms`; 0 is `max_requests_per_connection: 1`"),
    key("nginx_config.http.client_header_timeout", Time("head_timeout_ms"), ""),
    key("nginx_config.http.client_body_timeout", Time("client_body_timeout_ms"), ""),
    key("nginx_config.http.send_timeout", Time("client_send_timeout_ms"), ""),
    key("nginx_config.http.client_max_body_size", Honour(logs::client_max_body_size), "`max_body_bytes`"),
    key("nginx_config.http.real_ip_header", Honour(proxy_protocol::real_ip_header), "`real_ip_header`; `proxy_protocol`: `real_ip_from` stays empty"),
    key("nginx_config.http.real_ip_from", Honour(proxy_protocol::real_ip_from), "`real_ip_from` and, with `apisix.proxy_protocol`, `proxy_protocol_from`, without `unix:`"),
    key("nginx_config.http.real_ip_recursive", Setting("real_ip_recursive"), ""),
    key("nginx_config.http.underscores_in_headers", Same("on"), "fields with underscores pass"),
    key("nginx_config.http.proxy_ssl_server_name", Same("true"), "SNI is always sent to nodes"),
    key("nginx_config.http.upstream.keepalive", Same("320"), "`keepalive_pool` of an upstream says it"),
    key("nginx_config.http.upstream.keepalive_requests", Same("1000"), "`keepalive_pool` of an upstream says it"),
    key("nginx_config.http.upstream.keepalive_timeout", Same("60s"), "`keepalive_pool` of an upstream says it"),
    key("nginx_config.http.charset", Ignore, "no charset is added to `Content-Type`"),
    key("nginx_config.http.variables_hash_max_size", Moot, "there is no such table"),
    key("nginx_config.http.lua_shared_dict", Ignore, "memory is not split beforehand"),
    key("nginx_config.http.custom_lua_shared_dict", Ignore, "there is no Lua"),

    key("deployment.role", Honour(deployment::convert_role), "`data_plane`: `admin: off`; `control_plane`: `proxy: off`"),
    key("deployment.role_traditional.config_provider", Honour(deployment::provider), "`etcd`; `yaml`, `json`: `resources`, if apisix.yaml or .json lies beside, else the Admin API alone"),
    key("deployment.role_data_plane.config_provider", Honour(deployment::provider), "`etcd`; `yaml`, `json`: `resources`, apisix.yaml or .json beside"),
    key("deployment.role_control_plane.config_provider", Honour(deployment::provider), "`etcd`"),
    key("deployment.role_control_plane.conf_server", Ignore, "data planes ask etcd themselves"),
    key("deployment.admin.admin_listen", Honour(listeners::convert_admin_listen), "`admin`"),
    key("deployment.admin.admin_key", Honour(admin::convert_admin_key), "`admin_keys`; an empty key of an admin is made at random and kept in the data folder"),
    key("deployment.admin.admin_key_required", Setting("admin_key_required"), ""),
    ApisixKey { path: "deployment.admin.allow_admin", act: Honour(admin::allow_admin), says: "`admin_allow`; an empty list lets everybody in; `admin` is `0.0.0.0:9180` if others than this machine are let in and `admin_listen` is not written", takes_null: true },
    key("deployment.admin.enable_admin_cors", Setting("admin_cors"), ""),
    key("deployment.admin.enable_admin_ui", Setting("admin_ui"), ""),
    key("deployment.admin.admin_api_version", Honour(admin::admin_api_version), "`v3`; another one is refused"),
    key("deployment.admin.https_admin", Honour(admin::https_admin), "`true`: HTTPS with the files of `admin_api_mtls`, which must be there"),
    key("deployment.admin.admin_api_mtls", Honour(admin::admin_api_mtls), "`admin_tls_cert`, `admin_tls_key` and `admin_tls_client_ca`, with `https_admin`"),
    key("deployment.etcd", Honour(deployment::convert_etcd), "the `etcd_` settings, where the provider is etcd or none is named"),
    key("deployment.certs", Ignore, "data planes ask etcd themselves"),

    key("plugins", Honour(plugins::convert_plugin_list), "`plugins`, those that are built in; `server-info` in it also is `server_info_report_seconds: 60`, and `log-rotate` is `log_rotate: true`"),
    key("stream_plugins", Honour(plugins::stream_list), "`plugins` of Weir says which plugins may be used, also by stream routes; plugins with a file in `apisix/stream/plugins` of a folder of `apisix.extra_lua_path` are `lua_plugins`"),
    key("plugin_attr.batch-requests.uri", Same("/apisix/batch-requests"), "the endpoint is at /apisix/batch-requests"),
    key("plugin_attr.prometheus.export_addr", Honour(listeners::metrics), "`metrics`"),
    key("plugin_attr.prometheus.enable_export_server", Honour(listeners::enable_export_server), "`false`: `metrics: off`"),
    key("plugin_attr.prometheus.export_uri", Same("/apisix/prometheus/metrics"), "metrics are at /apisix/prometheus/metrics and /metrics"),
    key("plugin_attr.prometheus.metric_prefix", Same("apisix_"), "names begin with apisix_"),
    key("plugin_attr.prometheus.refresh_interval", Moot, "figures are those of the moment they are asked for"),
    key("plugin_attr.prometheus.*", Ignore, "buckets are those of APISIX; labels are added by `extra_labels` of the metadata `prometheus`"),
    key("plugin_attr.opentelemetry.*", Ignore, "as in APISIX 3.18, these are in the plugin metadata `opentelemetry`"),
    key("plugin_attr.skywalking.*", Ignore, "write these fields as the plugin metadata `skywalking`"),
    key("plugin_attr.zipkin.set_ngx_var", Moot, "the variables `zipkin_…` are always set"),
    key("plugin_attr.server-info.report_ttl", Honour(plugins::server_info_ttl), "`server_info_report_seconds`, where `plugins` has `server-info`"),
    key("plugin_attr.redirect.https_port", Honour(plugins::redirect_https_port_number), "`redirect_https_port_number`; a number that is no port: 443, which is left out of the URI"),
    key("plugin_attr.log-rotate.interval", Setting("log_rotate_interval_seconds"), ""),
    key("plugin_attr.log-rotate.max_kept", Setting("log_rotate_max_kept"), ""),
    key("plugin_attr.log-rotate.max_size", Honour(logs::rotated_size), "`log_rotate_max_size`; `-1` is 0, by time alone"),
    key("plugin_attr.log-rotate.enable_compression", Setting("log_rotate_compression"), ""),
    key("plugin_attr.log-rotate.timeout", Setting("log_rotate_timeout_ms"), ""),
    key("plugin_attr.*", Ignore, "no plugin here reads it"),
    key("discovery", Honour(discovery::blocks), "`discovery`; registries that are not there yet are skipped"),
    key("graphql.max_size", Honour(plugins::graphql_limit), "`max_matched_body_bytes`, in bytes; the larger of this and `apisix.max_post_args_readable_size`"),
    key("ext-plugin.cmd", Honour(plugins::runner_command), "`plugin_runner`"),
    key("ext-plugin.path_for_test", Setting("plugin_runner_socket"), ""),
    key("wasm", Honour(wasm::convert_wasm_plugins), "`wasm`"),
    key("xrpc", Moot, "protocols of stream routes that are built in need no key"),
];
