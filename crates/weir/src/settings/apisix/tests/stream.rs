//! Tables: the listeners of layer 4.

use super::{check, gives, refused, warns};

const TAKEN: &str = "admin_stream_routes Taken";

#[test]
fn mode_decides_which_layers_are_served() {
    gives("apisix: {proxy_mode: http}", &[]);
    gives("apisix: {proxy_mode: http&stream}", &[TAKEN]);
    gives("apisix: {proxy_mode: stream}", &["proxy []", "proxy_tls []", TAKEN]);
    // Listeners of HTTP are not opened, whatever is written about them.
    gives(
        "apisix:\n  proxy_mode: stream\n  node_listen: [{port: 1, enable_http2: false}]\n\
         \x20 ssl: {listen: [{port: 2, enable_http3: true}]}\n  proxy_protocol: {listen_http_port: 9181}\n",
        &["proxy []", "proxy_tls []", TAKEN],
    );
    refused("apisix: {proxy_mode: tcp}", &["1: apisix.proxy_mode: `tcp` is not `http`"]);
    let no_mode = "1: apisix.stream_proxy: warning: has no effect without `apisix.proxy_mode: stream`";
    warns("apisix: {stream_proxy: {tcp: [9100]}}", &[no_mode]);
    warns("apisix: {proxy_mode: http, stream_proxy: {tcp: [9100]}}", &[no_mode]);
    // A control plane keeps stream routes and serves none.
    let file = "apisix: {proxy_mode: stream, stream_proxy: {tcp: [9100]}}\n\
                deployment: {role: control_plane, role_control_plane: {config_provider: etcd}, etcd: {host: ['http://a:1']}}";
    let (settings, _, faults) = super::read("c.yaml", file);
    assert_eq!(faults, Vec::<String>::new());
    assert!(settings.iter().any(|setting| setting == TAKEN), "{settings:?}");
    assert!(!settings.iter().any(|setting| setting.starts_with("stream_")), "{settings:?}");
}

#[test]
fn older_versions_say_only_in_place_of_a_mode() {
    let tcp = "stream_tcp [0.0.0.0:9100]";
    gives("apisix: {stream_proxy: {only: false, tcp: [9100]}}", &[tcp, TAKEN]);
    gives("apisix: {stream_proxy: {only: true, tcp: [9100]}}", &["proxy []", "proxy_tls []", tcp, TAKEN]);
    check(
        "apisix: {proxy_mode: http&stream, stream_proxy: {only: true, tcp: [9100]}}",
        &[tcp, TAKEN],
        &["1: apisix.stream_proxy.only: warning: has no effect beside `apisix.proxy_mode`"],
        &[],
    );
}

#[test]
fn entries_are_ports_addresses_ranges_and_maps() {
    gives(
        "apisix:\n  proxy_mode: http&stream\n  stream_proxy:\n    tcp:\n      - 9100\n      - 127.0.0.1:9101\n\
         \x20     - 2000-2002\n      - {addr: '127.0.0.1:4000-4001', tls: true}\n      - {addr: '[::1]:5'}\n\
         \x20   udp: [9200, '127.0.0.1:9100', '9300-9301', '*:7']\n",
        &[
            "stream_tcp [0.0.0.0:9100, 127.0.0.1:9101, 0.0.0.0:2000, 0.0.0.0:2001, 0.0.0.0:2002, [::1]:5]",
            "stream_tls [127.0.0.1:4000, 127.0.0.1:4001]",
            "stream_udp [0.0.0.0:9200, 127.0.0.1:9100, 0.0.0.0:9300, 0.0.0.0:9301, 0.0.0.0:7]",
            TAKEN,
        ],
    );
    refused(
        "apisix:\n  proxy_mode: stream\n  stream_proxy:\n    tcp:\n      - 0\n      - 99999\n      - 3-2\n\
         \x20     - {tls: true}\n      - unix:/run/a.sock\n      - 1-65535\n      - '80.5'\n    udp: []\n",
        &[
            "5: apisix.stream_proxy.tcp[0]: `0.0.0.0:0`: the port is between 1 and 65535",
            "6: apisix.stream_proxy.tcp[1]: `0.0.0.0:99999` is not `IP:PORT`: the port is a number up to 65535",
            "7: apisix.stream_proxy.tcp[2]: `0.0.0.0:3-2`: the first port of a range is not above the last one",
            "8: apisix.stream_proxy.tcp[3]: has no `addr`",
            "9: apisix.stream_proxy.tcp[4]: `unix:/run/a.sock` is not `IP:PORT`",
            "10: apisix.stream_proxy.tcp[5]: `0.0.0.0:1-65535` makes 65535 addresses",
            "11: apisix.stream_proxy.tcp[6]: `80.5` is not `IP:PORT`",
            "12: apisix.stream_proxy.udp: is a list of one or more ports and addresses",
        ],
    );
    refused("apisix: {proxy_mode: stream, stream_proxy: 9100}", &["1: apisix.stream_proxy: is a map"]);
    refused(
        "apisix: {proxy_mode: stream, stream_proxy: {tcp: [9100, '9098-9100']}}",
        &["1: apisix.stream_proxy.tcp: `stream_tcp` and `stream_tcp` both take 0.0.0.0:9100"],
    );
    refused(
        "apisix: {proxy_mode: http&stream, stream_proxy: {tcp: [9080]}}",
        &[
            "1: apisix.stream_proxy.tcp: `proxy` and `stream_tcp` both take 0.0.0.0:9080; give each its own port",
        ],
    );
}

#[test]
fn proxy_protocol_of_layer_4() {
    let all = "apisix:\n  proxy_mode: http&stream\n  proxy_protocol: {enable_tcp_pp: true, enable_tcp_pp_to_upstream: true}\n\
               \x20 stream_proxy:\n    tcp: [9100, {addr: 9101, tls: true}, {addr: 9102, proxy_protocol: false, \
               proxy_protocol_to_upstream: false}]\n";
    let settings = [
        "stream_tcp [0.0.0.0:9102]",
        "stream_proxy_protocol [0.0.0.0:9100]",
        "stream_proxy_protocol_tls [0.0.0.0:9101]",
        "stream_send_proxy_protocol [0.0.0.0:9100, 0.0.0.0:9101]",
    ];
    let with = |from: &'static str| [from].into_iter().chain(settings).chain([TAKEN]).collect::<Vec<_>>();
    let remark = "5: apisix.stream_proxy.tcp: warning: takes connections of 127.0.0.1 only";
    check(all, &with("proxy_protocol_from [127.0.0.1/32]"), &[remark], &[]);
    let named = format!(
        "{all}nginx_config: {{http: {{real_ip_header: proxy_protocol, real_ip_from: [10.0.0.0/8]}}}}"
    );
    gives(&named, &with("proxy_protocol_from [10.0.0.0/8]"));
    warns("apisix:\n  proxy_protocol: {enable_tcp_pp: true, enable_tcp_pp_to_upstream: true}\n", &[]);
    gives(
        "apisix: {proxy_mode: stream, stream_proxy: {tcp: [{addr: 1, proxy_protocol_to_upstream: true}, 2]}}",
        &[
            "proxy []",
            "proxy_tls []",
            "stream_tcp [0.0.0.0:1, 0.0.0.0:2]",
            "stream_send_proxy_protocol [0.0.0.0:1]",
            TAKEN,
        ],
    );
}
