//! Tables: the listeners, and the refusal of those that do not exist yet.

use super::{check, gives, refused, warns};

#[test]
fn proxy_listens_on_its_addresses() {
    gives("apisix: {node_listen: 9081}", &["proxy [0.0.0.0:9081]"]);
    gives("apisix: {node_listen: [9081, 9082]}", &["proxy [0.0.0.0:9081, 0.0.0.0:9082]"]);
    gives(
        "apisix:\n  node_listen:\n    - {ip: 127.0.0.2, port: 9081}\n    - {port: 9082}\n    - {ip: '::1'}\n",
        &["proxy [127.0.0.2:9081, 0.0.0.0:9082, [::1]:9080]"],
    );
    let tls = "proxy_tls [0.0.0.0:9443, [::]:9443]";
    gives("apisix: {enable_ipv6: true}", &["proxy [0.0.0.0:9080, [::]:9080]", tls]);
    gives(
        "apisix: {enable_ipv6: true, node_listen: [9081, {ip: 127.0.0.1, port: 1}]}",
        &["proxy [0.0.0.0:9081, [::]:9081, 127.0.0.1:1]", tls],
    );
    gives("apisix: {enable_ipv6: false}", &[]);
    gives("apisix: {enable_http2: false}", &["http2 false"]);
    gives("apisix: {node_listen: ${{PORT}}}", &["proxy [0.0.0.0:9000]"]);
    gives("apisix: {node_listen: '${{OTHER:=9001}}'}", &["proxy [0.0.0.0:9001]"]);
    check(
        "apisix:\n  node_listen:\n    - port: 1\n      enable_http2: false\n      prot: 2\n",
        &["proxy [0.0.0.0:1]", "http1_only [0.0.0.0:1]"],
        &["5: apisix.node_listen[0].prot: warning: there is no such key; did you mean `port`?"],
        &[],
    );
    refused(
        "apisix:\n  node_listen:\n    - 9080\n    - 99999\n    - {ip: gateway, port: 1}\n    - [1]\n",
        &[
            "4: apisix.node_listen[1]: `0.0.0.0:99999` is not `IP:PORT`: the port is a number",
            "5: apisix.node_listen[2]: `gateway:1` is not `IP:PORT`: write an IP address",
            "6: apisix.node_listen[3]: takes a plain value",
        ],
    );
}

#[test]
fn entries_without_http2_are_listed_too() {
    gives(
        "apisix: {enable_ipv6: true, node_listen: [{port: 1, enable_http2: false}, {port: 2}]}",
        &[
            "proxy [0.0.0.0:1, [::]:1, 0.0.0.0:2, [::]:2]",
            "proxy_tls [0.0.0.0:9443, [::]:9443]",
            "http1_only [0.0.0.0:1, [::]:1]",
        ],
    );
    gives(
        "apisix:\n  node_listen: [{port: 1, enable_http2: false}]\n  ssl:\n    listen:\n\
         \x20     - {port: 2, enable_http2: false}\n      - {port: 3, enable_http2: false, enable_http3: true}\n\
         \x20     - {port: 4, enable_http2: true}\n",
        &[
            "proxy [0.0.0.0:1]",
            "proxy_tls [0.0.0.0:2, 0.0.0.0:4]",
            "proxy_tls_http3 [0.0.0.0:3]",
            "http1_only [0.0.0.0:1, 0.0.0.0:2, 0.0.0.0:3]",
        ],
    );
    gives("apisix: {ssl: {enable_http2: false}}", &["http1_only [0.0.0.0:9443]"]);
    gives("apisix: {ssl: {enable: false, listen: [{port: 2, enable_http2: false}]}}", &["proxy_tls []"]);
}

#[test]
fn ssl_gives_the_listeners_and_settings_of_tls() {
    gives("apisix:\n  ssl: {enable: true}\n", &[]);
    gives("apisix: {ssl: {enable: false, listen: [{port: 8443}]}}", &["proxy_tls []"]);
    gives(
        "apisix:\n  ssl:\n    listen: [{ip: 127.0.0.3, port: 8443}, {port: 8444, enable_http3: false}]\n",
        &["proxy_tls [127.0.0.3:8443, 0.0.0.0:8444]"],
    );
    gives(
        "apisix:\n  ssl:\n    listen: [{port: 8443}, {port: 8444, enable_http3: true}]\n",
        &["proxy_tls [0.0.0.0:8443]", "proxy_tls_http3 [0.0.0.0:8444]"],
    );
    gives(
        "apisix: {ssl: {listen: [{port: 8444, enable_http3: true}]}}",
        &["proxy_tls []", "proxy_tls_http3 [0.0.0.0:8444]"],
    );
    gives("apisix: {ssl: {enable_http3: true}}", &["proxy_tls []", "proxy_tls_http3 [0.0.0.0:9443]"]);
    gives(
        "apisix: {ssl: {ssl_protocols: TLSv1.3, fallback_sni: a.example, ssl_session_tickets: false}}",
        &[
            "ssl_protocols Versions { tls12: false, tls13: true }",
            "fallback_sni Some(\"a.example\")",
            "ssl_session_tickets false",
        ],
    );
    check(
        "apisix:\n  ssl:\n    ssl_ciphers: ECDHE-RSA-AES128-GCM-SHA256:DHE-RSA-AES128-GCM-SHA256\n",
        &["ssl_ciphers Some(\"ECDHE-RSA-AES128-GCM-SHA256\")"],
        &["3: apisix.ssl.ssl_ciphers: warning: not offered: DHE-RSA-AES128-GCM-SHA256"],
        &[],
    );
    refused(
        "apisix:\n  ssl:\n    ssl_protocols: TLSv1.1 TLSv1.2\n    ssl_ciphers: RC4-MD5\n    listen: [{port: x}, {port: 1}]\n",
        &[
            "5: apisix.ssl.listen[0]: `0.0.0.0:x` is not `IP:PORT`",
            "3: apisix.ssl.ssl_protocols: TLSv1.1 is not supported because its protection is broken",
            "4: apisix.ssl.ssl_ciphers: RC4-MD5 is no cipher suite that can be used",
        ],
    );
    warns(
        "apisix:\n  node_listen:\n    - {port: 9080, enable_http3: true}\n",
        &[
            "3: apisix.node_listen[0].enable_http3: warning: HTTP/3 needs TLS; write it in `apisix.ssl.listen`",
        ],
    );
}

#[test]
fn proxy_protocol_listens_for_peers_of_real_ip_from() {
    let both =
        "apisix: {proxy_protocol: {listen_http_port: 9181, listen_https_port: 9182, enable_tcp_pp: false}}\n";
    let (http, https) = ("proxy_protocol [0.0.0.0:9181]", "proxy_protocol_tls [0.0.0.0:9182]");
    gives(
        &format!("{both}nginx_config: {{http: {{real_ip_from: [10.0.0.0/8, 'unix:']}}}}"),
        &[http, https, "proxy_protocol_from [10.0.0.0/8]", "real_ip_from [10.0.0.0/8]"],
    );
    // The header alone names the client, so that no field of a request does.
    gives(
        &format!(
            "{both}nginx_config: {{http: {{real_ip_header: proxy_protocol, real_ip_from: [10.0.0.0/8]}}}}"
        ),
        &[http, https, "proxy_protocol_from [10.0.0.0/8]"],
    );
    gives("nginx_config: {http: {real_ip_header: proxy_protocol, real_ip_from: [10.0.0.0/8]}}", &[]);
    gives("apisix: {proxy_protocol: {}}", &[]);
    check(
        both,
        &[http, https, "proxy_protocol_from [127.0.0.1/32]"],
        &["1: apisix.proxy_protocol.listen_http_port: warning: takes connections of 127.0.0.1 only"],
        &[],
    );
    check(
        "apisix:\n  ssl: {enable: false}\n  proxy_protocol:\n    listen_https_port: 9182\n",
        &["proxy_tls []"],
        &["4: apisix.proxy_protocol.listen_https_port: warning: TLS is off"],
        &[],
    );
    refused(
        "apisix:\n  proxy_protocol:\n    listen_http_port: 99999\n    listen_https_port: [1]\n",
        &[
            "3: apisix.proxy_protocol.listen_http_port: `0.0.0.0:99999` is not `IP:PORT`",
            "4: apisix.proxy_protocol.listen_https_port: takes a plain value",
        ],
    );
    warns(
        "apisix:\n  proxy_protocol:\n    listen_htp_port: 9181\n",
        &[
            "3: apisix.proxy_protocol.listen_htp_port: warning: there is no such key; did you mean `listen_http_port`?",
        ],
    );
}

#[test]
fn admin_control_and_metrics_listeners() {
    gives(
        "apisix:\n  control: {ip: 0.0.0.0, port: 9190}\n  status: {port: 7086}\n\
         deployment: {admin: {admin_listen: {ip: 127.0.0.1, port: 9280}}}\n\
         plugin_attr: {prometheus: {export_addr: {ip: 0.0.0.0, port: 9191}}}\n",
        &[
            "admin Some(127.0.0.1:9280)",
            "control Some(0.0.0.0:9190)",
            "status Some(127.0.0.1:7086)",
            "metrics Some(0.0.0.0:9191)",
        ],
    );
    gives("deployment: {admin: {admin_listen: {port: 1}}}", &["admin Some(0.0.0.0:1)"]);
    gives(
        "apisix: {enable_admin: false, enable_control: false}\n\
         deployment: {admin: {admin_listen: {port: 1}}}\n\
         plugin_attr: {prometheus: {enable_export_server: false, export_addr: {port: 1}}}\n",
        &["admin None", "control None", "metrics None"],
    );
    refused(
        "apisix:\n  control: 9090\n  status: {ip: here}\n",
        &["2: apisix.control: is a map of `ip` and `port`", "3: apisix.status: `here:7085` is not `IP:PORT`"],
    );
    refused(
        "apisix:\n  node_listen: 9090\n",
        &["2: apisix.node_listen: `proxy` and `control` both take 127.0.0.1:9090; give each its own port"],
    );
}

#[test]
fn missing_features_are_reported_or_refused() {
    check(
        "apisix: {}\ndiscovery:\n  dns: {servers: ['127.0.0.1:53']}\n  tars: {}\n",
        &["discovery [\"dns\"]"],
        &["4: discovery.tars: warning: there is no such registry"],
        &[],
    );
}
