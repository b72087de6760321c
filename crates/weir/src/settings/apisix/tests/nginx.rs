//! Tables: keys that are settings of the same meaning, and keys of nginx.

use super::{check, gives, read, refused, warns};

#[test]
fn plugin_runner_is_read_as_apisix_has_it() {
    gives(
        "ext-plugin:\n  cmd: [java, -jar, '/opt/my runner.jar']\n  path_for_test: /tmp/x.sock\n\
         nginx_config:\n  envs: [MY_VARIABLE, OTHER=1]\n",
        &[
            "plugin_runner [\"java\", \"-jar\", \"/opt/my runner.jar\"]",
            "plugin_runner_socket Some(\"/tmp/x.sock\")",
            "plugin_runner_environment [\"MY_VARIABLE\", \"OTHER=1\"]",
        ],
    );
    warns(
        "apisix: {}\nnginx_config:\n  envs: [WEIR_ADMIN_KEY]\n",
        &["3: nginx_config.envs: warning: no plugin runner gets"],
    );
    refused("apisix: {}\nnginx_config:\n  envs: ['A B']\n", &["3: nginx_config.envs: `A B` is no variable"]);
}

#[test]
fn keys_become_settings_of_same_meaning() {
    gives(
        "apisix:\n  router: {http: radixtree_uri, ssl: radixtree_sni}\n  delete_uri_tail_slash: true\n  \
         normalize_uri_like_servlet: true\n  match_uri_encoded_slash: true\n  trusted_addresses: [10.0.0.0/8, 192.0.2.1]\n  \
         show_upstream_status_in_response_header: true\n  enable_server_tokens: false\n  enable_dev_mode: true\n",
        &[
            "admin_emulated_version None",
            "workers 1",
            "router_mode RadixtreeUri",
            "delete_uri_tail_slash true",
            "normalize_uri_like_servlet true",
            "match_uri_encoded_slash true",
            "trusted_addresses [10.0.0.0/8, 192.0.2.1/32]",
            "server_header Some(\"weir\")",
            "show_upstream_status_in_response_header true",
        ],
    );
    // No difference, because these are the defaults of both APISIX and Weir.
    gives(
        "apisix:\n  delete_uri_tail_slash: false\n  normalize_uri_like_servlet: false\n  \
         match_uri_encoded_slash: false\n  enable_server_tokens: true\n",
        &[],
    );
    gives(
        "apisix:\n  dns_resolver: [192.0.2.53, '192.0.2.54:5353', '::1']\n  dns_resolver_valid: 30\n  \
         resolver_timeout: 2\n  enable_resolv_search_opt: false\n",
        &[
            "dns_servers [192.0.2.53:53, 192.0.2.54:5353, [::1]:53]",
            "dns_search false",
            "dns_timeout_ms 2000",
            "dns_ttl_min_ms 30000",
            "dns_ttl_max_ms 30000",
        ],
    );
    gives("apisix: {}\ngraphql: {max_size: 2097152}\n", &["max_matched_body_bytes 2097152"]);
    for (mib, bytes, is_remarked) in [
        (2, 2 << 20, false),
        (4, 4 << 20, false),
        (64, 64 << 20, false),
        (0, 64 << 20, true),
        (4_194_304, 64 << 20, true),
    ] {
        let remark = "1: apisix.max_post_args_readable_size: warning: it is a number of MiB, and 64 MiB is the most that is read";
        check(
            &format!("apisix: {{max_post_args_readable_size: {mib}}}\ngraphql: {{max_size: 10}}\n"),
            &[&format!("max_matched_body_bytes {bytes}")],
            &[remark][..usize::from(is_remarked)],
            &[],
        );
    }
    gives(
        "apisix: {max_post_args_readable_size: 1}\ngraphql: {max_size: 2097152}\n",
        &["max_matched_body_bytes 2097152"],
    );
    refused(
        "apisix:\n  router:\n    http: radix\n",
        &["3: apisix.router.http: `radix` is not a router mode"],
    );
    refused("apisix:\n  router: radix\n", &["2: apisix.router: is a map of keys"]);
    refused(
        "apisix: {trusted_addresses: [here]}",
        &["1: apisix.trusted_addresses: `here` is not an address"],
    );
    refused("apisix: {enable_admin: maybe}", &["1: apisix.enable_admin: `maybe` is neither"]);
    refused("apisix: {resolver_timeout: soon}", &["1: apisix.resolver_timeout: `soon` is not a time"]);
}

#[test]
fn nginx_keys_become_settings() {
    gives(
        "nginx_config:\n  error_log_level: notice\n  worker_processes: 3\n  enable_cpu_affinity: true\n  \
         worker_shutdown_timeout: 1500ms\n  http:\n    keepalive_timeout: 75s\n    client_header_timeout: 1m\n    \
         client_body_timeout: 90\n    send_timeout: 10s\n    client_max_body_size: 10m\n    \
         real_ip_header: X-Forwarded-For\n    real_ip_recursive: 'on'\n    real_ip_from: [127.0.0.1, 'unix:']\n",
        &[
            "workers 3",
            "pin true",
            "grace_seconds 2",
            "real_ip_from [127.0.0.1/32]",
            "real_ip_header \"X-Forwarded-For\"",
            "real_ip_recursive true",
            "head_timeout_ms 60000",
            "idle_timeout_ms 75000",
            "client_body_timeout_ms 90000",
            "client_send_timeout_ms 10000",
            "max_body_bytes 10485760",
        ],
    );
    gives("nginx_config: {http: {keepalive_timeout: 0}}", &["max_requests_per_connection 1"]);
    gives("nginx_config: {error_log_level: emerg}", &["log_level \"error\""]);
    refused(
        "nginx_config:\n  error_log_level: loud\n  worker_processes: many\n  http:\n    send_timeout: 0\n    \
         client_max_body_size: big\n    real_ip_header: a b\n",
        &[
            "2: nginx_config.error_log_level: `loud` is not a level",
            "6: nginx_config.http.client_max_body_size: `big` is not a size",
            "3: nginx_config.worker_processes: `many` is not a whole number",
            "7: nginx_config.http.real_ip_header: `a b` is not the name of a header field",
            "5: nginx_config.http.send_timeout: 0 is not between",
        ],
    );
    warns(
        "nginx_config:\n  http_configuration_snippet: ''\n  http_server_configuration_snippet: |\n    gzip on;\n  \
         meta: {lua_shared_dict: {x: 1m}}\n  http: {underscores_in_headers: 'on', charset: utf-8}\n",
        &[
            "3: nginx_config.http_server_configuration_snippet: warning: there is no nginx",
            "5: nginx_config.meta: warning: memory",
            "6: nginx_config.http.charset: warning: no charset",
        ],
    );
}

#[test]
fn log_paths_follow_apisix() {
    let of = |path: &str, text: &str| read(path, text).0;
    let file = "nginx_config: {error_log: logs/error.log, http: {access_log: logs/access.log}}";
    assert_eq!(
        of("/opt/apisix/conf/config.yaml", file),
        [
            "access_log File(\"/opt/apisix/conf/../logs/access.log\")",
            "error_log File(\"/opt/apisix/conf/../logs/error.log\")"
        ]
    );
    assert_eq!(
        of("/etc/apisix/config.yaml", "nginx_config: {http: {enable_access_log: true}}"),
        ["access_log File(\"/etc/apisix/logs/access.log\")"]
    );
    gives("nginx_config: {error_log: /dev/stderr, http: {access_log: /dev/stdout}}", &["access_log Stdout"]);
    gives("nginx_config: {http: {access_log: /a.log, enable_access_log: false}}", &[]);
    gives(
        "nginx_config:\n  http:\n    access_log: /dev/stdout\n    access_log_format: |\n      \
         $remote_addr \\\"$request\\\" $status\n",
        &["access_log Stdout", "access_log_format Template(\"$remote_addr \\\"$request\\\" $status\")"],
    );
    gives(
        "nginx_config: {http: {access_log_format: '{\"a\": \"$status\"}', access_log_format_escape: json}}",
        &["access_log_format Json([(\"a\", \"$status\")])"],
    );
    warns(
        "nginx_config:\n  error_log: syslog:server=10.0.0.1\n  http:\n    access_log_format: $remote_adr\n",
        &[
            "2: nginx_config.error_log: warning: there is no syslog target",
            "4: nginx_config.http.access_log_format: warning: the usual format is written: there is no variable `$remote_adr`; did you mean `$remote_addr`?",
        ],
    );
}

#[test]
fn zones_of_the_cache_are_taken_over() {
    let text = "apisix:\n  proxy_cache:\n    cache_ttl: 5m\n    zones:\n      \
                - {name: d, memory_size: 50m, disk_size: 1G, disk_path: cache/d, cache_levels: 1:2}\n      \
                - {name: m, memory_size: 1m}\n";
    let (settings, remarks, faults) = super::read("conf/config.yaml", text);
    assert_eq!((remarks, faults), (Vec::<String>::new(), Vec::<String>::new()));
    let [zones] = &settings[..] else { panic!("{settings:?}") };
    assert!(zones.starts_with("proxy_cache") && zones.contains("../cache/d"), "{zones}");
    super::refused(
        "apisix:\n  proxy_cache:\n    zones: [{name: d, memory_size: 1}]\n",
        &["2: apisix.proxy_cache: zones[0]: memory_size: is a size such as `50m`"],
    );
}
