//! The first line of `weir check` for common mistakes: each row is a mistake and the first line of the
//! output.

use crate::command::weir_with;

/// Checks `text` as the file `f.yaml`: its exit code and the first line of its output.
fn check(text: &str, code: i32, expected: &str) {
    let outcome = weir_with(&[("f.yaml", text)], &["check", "f.yaml"], &[]);
    let first = outcome.stdout.lines().next().unwrap_or_default();
    let first = first.strip_prefix("f.yaml:").unwrap_or(first);
    assert_eq!((outcome.code, first), (code, expected), "{text}\n{}", outcome.stdout);
}

fn fault(text: &str, expected: &str) {
    check(text, 1, expected);
}

/// Checks a warning: the exit code is 0 and the last line is `ok`.
fn warning(text: &str, expected: &str) {
    check(text, 0, expected);
    let outcome = weir_with(&[("f.yaml", text)], &["check", "f.yaml"], &[]);
    assert!(outcome.stdout.ends_with("f.yaml: ok\n"), "{}", outcome.stdout);
    let strict = weir_with(&[("f.yaml", text)], &["check", "--strict", "f.yaml"], &[]);
    assert_eq!(strict.code, 1, "{text}\n{}", strict.stdout);
}

/// A route with `/a`, a node and these lines.
fn route(lines: &str) -> String {
    let mut text = "routes:\n- id: r\n  uri: /a\n  upstream: {nodes: {'127.0.0.1:80': 1}}\n".to_owned();
    for line in lines.lines() {
        text.push_str(&format!("  {line}\n"));
    }
    text
}

/// A route with these nodes.
fn nodes(nodes: &str) -> String {
    format!("routes:\n- id: r\n  uri: /a\n  upstream: {{nodes: {nodes}}}\n")
}

#[test]
fn names_and_kinds() {
    fault("routes:\n- id: a\n uri: /a\n", "3: while parsing a block mapping, did not find expected key");
    fault(
        "routes:\n- id: r\n  urri: /a\n  upstream: {nodes: {'127.0.0.1:80': 1}}\n",
        "3: routes[0].urri: additional properties forbidden, found urri; did you mean `uri`?",
    );
    fault("route:\n- uri: /a\n", "2: route: `route` is no kind of object; did you mean `routes`?");
    fault("upstream: []\n", "1: upstream: `upstream` is no kind of object; did you mean `upstreams`?");
    fault(
        &route("plugins: {limit-counts: {}}"),
        "5: routes[0].plugins.limit-counts: unknown plugin [limit-counts]; did you mean `limit-count`?",
    );
    fault(
        &route("plugins: {saml-auth: {}}"),
        "5: routes[0].plugins.saml-auth: unknown plugin [saml-auth]: APISIX has it, this version of Weir has not",
    );
    fault("admn: 127.0.0.1:9180\n", "1: admn: no such setting; did you mean `admin`?");
    fault(
        &route("plugins: {cors: {allow_origin: '*'}}"),
        "5: routes[0].plugins.cors.allow_origin: unknown field `allow_origin`; did you mean `allow_origins`?",
    );
    fault(
        &route("plugins: {limit-count: {cuont: 1, time_window: 1}}"),
        "5: routes[0].plugins.limit-count.cuont: unknown field `cuont`; did you mean `count`?",
    );
    fault(
        "consumers:\n- {username: ann, plugins: {key-auth: {key: k}}}\n- {username: bob, plugins: {key-auth: {key: k}}}\n",
        "3: consumers[1].plugins.key-auth.key: duplicate key found with consumer: ann",
    );
}

#[test]
fn values_of_plugins() {
    let both = weir_with(
        &[("f.yaml", &route("plugins:\n  limit-count:\n    time_window: 0\n    count: many"))],
        &["check", "f.yaml"],
        &[],
    );
    let place = "f.yaml:LINE: routes[0].plugins.limit-count";
    let expected = [
        format!("{place}.time_window: expected 0 to be greater than 0").replace("LINE", "7"),
        format!(
            "{place}.count: \"many\" is not a whole number or a text with variables, such as ${{http_x_quota}}"
        )
        .replace("LINE", "8"),
    ];
    assert_eq!(both.stdout.lines().collect::<Vec<_>>(), expected);
    fault(
        &route("plugins: {limit-count: {count: 1, time_window: 1, policy: redis, redis_host: r}}"),
        "5: routes[0].plugins.limit-count.redis_host: string too short, expected at least 2, got 1",
    );
    fault(
        &route("plugins: {ip-restriction: {whitelist: [10.0.0.0/99]}}"),
        "5: routes[0].plugins.ip-restriction.whitelist[0]: \"10.0.0.0/99\" is none of IPv4, IPv4/CIDR, IPv6, IPv6/CIDR",
    );
    fault(
        &route("plugins: {ip-restriction: {}}"),
        "5: routes[0].plugins.ip-restriction: needs `whitelist` or `blacklist`",
    );
    fault(
        &route("plugins: {ip-restriction: {whitelist: ['::1'], blacklist: ['::1']}}"),
        "5: routes[0].plugins.ip-restriction: only one may be written: `whitelist` or `blacklist`",
    );
}

#[test]
fn nodes_and_upstreams() {
    fault(
        &nodes("{'a:99999': 1}"),
        "4: routes[0].upstream.nodes.a:99999: invalid node \"a:99999\": a port is 1 to 65535",
    );
    fault(
        &nodes("{'http://127.0.0.1:80': 1}"),
        "4: routes[0].upstream.nodes.http://127.0.0.1:80: invalid node \"http://127.0.0.1:80\": a node is HOST:PORT, \
         without a scheme: write \"127.0.0.1:80\", and `scheme: http` beside `nodes`",
    );
    fault(
        &nodes("[{host: 'http://x', port: 80, weight: 1}]"),
        "4: routes[0].upstream.nodes[0].host: invalid node \"http://x\": a node is HOST:PORT, without a scheme: write \
         \"x\", and `scheme: http` beside `nodes`",
    );
    fault(
        "upstreams:\n- id: u\n  type: round_robin\n  nodes: {'127.0.0.1:80': 1}\n",
        "3: upstreams[0].type: \"round_robin\" is none of chash, roundrobin, ewma, least_conn, random, maglev, chash_bounded, original_dst; did you mean `roundrobin`?",
    );
    fault(
        "upstreams:\n- id: u\n  scheme: kafka\n  nodes: {'127.0.0.1:80': 1}\n",
        "3: upstreams[0].scheme: scheme kafka of an upstream is not supported yet: no plugin speaks to Kafka; supported are http, https, grpc, grpcs, tcp, tls, udp",
    );
    fault(
        "upstreams:\n- id: u\n  type: roundrobin\n",
        "2: upstreams[0]: an upstream needs nodes, service_name with discovery_type, or original_dst",
    );
}

#[test]
fn references_to_missing_objects() {
    for (field, words) in
        [("upstream_id", "upstream"), ("service_id", "service"), ("plugin_config_id", "plugin config")]
    {
        let text = format!("routes:\n- id: r\n  uri: /a\n  plugins: {{}}\n  {field}: nope\n");
        fault(&text, &format!("5: routes[0].{field}: {words} \"nope\" does not exist"));
    }
    fault(
        "consumers:\n- username: ann\n  group_id: nope\n",
        "3: consumers[0].group_id: consumer group \"nope\" does not exist",
    );
    let faulty =
        "upstreams:\n- {id: u, nodes: {}, type: none}\nroutes:\n- {id: r, uri: /a, upstream_id: u}\n";
    let outcome = weir_with(&[("f.yaml", faulty)], &["check", "f.yaml"], &[]);
    let second = outcome.stdout.lines().nth(1).unwrap_or_default();
    let expected = "f.yaml:4: routes[0].upstream_id: upstream \"u\" is not in force, because it is faulty";
    assert_eq!(second, expected, "{}", outcome.stdout);
    fault(
        "routes:\n- {id: a, uri: /a, plugins: {}}\n- {id: a, uri: /b, plugins: {}}\n",
        "3: routes[1]: the id `a` is there twice; the first one counts",
    );
}

#[test]
fn needs_and_values_of_routes() {
    let needs = "a route needs uri or uris, and one of upstream, upstream_id, service_id, plugins";
    fault("routes:\n- id: r\n  upstream: {nodes: {'a:80': 1}}\n", &format!("2: routes[0]: {needs}"));
    fault("routes:\n- id: r\n  uri: /a\n", &format!("2: routes[0]: {needs}"));
    fault("routes:\n- id: r\n", &format!("2: routes[0]: {needs}"));
    fault(
        &route("methods: [get]"),
        "5: routes[0].methods[0]: \"get\" is none of GET, POST, PUT, DELETE, PATCH, HEAD, OPTIONS, CONNECT, TRACE, PURGE; \
         did you mean `GET`?",
    );
    fault(&route("host: '*.*.com'"), "5: routes[0].host: the host has a `*` that is not its first character");
    fault(
        &route("remote_addr: 10.0.0.0/99"),
        "5: routes[0].remote_addr: \"10.0.0.0/99\" is neither an IP address nor a network (ADDRESS/BITS)",
    );
    fault(&route("host: a\nhosts: [b]"), "2: routes[0]: only one may be written: `host` or `hosts`");
    fault(
        &route("vars: [[uri, '~~', '([']]"),
        "5: routes[0].vars: [0]: `([` is not a usable regular expression: Parsing error at position 2: Invalid \
         character class",
    );
    fault(
        "ssls:\n- id: s\n  sni: a.example\n  cert: short\n  key: short\n",
        "4: ssls[0].cert: failed to parse cert: it has no PEM block that begins with -----BEGIN CERTIFICATE-----",
    );
    fault(
        "ssls:\n- id: s\n  cert: $env://CERT\n  key: $env://KEY\n",
        "2: ssls[0]: a certificate needs cert and key, and sni or snis unless its type is client",
    );
}

#[test]
fn warnings_for_what_has_no_effect() {
    warning(
        "routes:\n- {id: r, uri: noslash, plugins: {}}\n",
        "2: routes[0].uri: warning: no request matches this path, because a path begins with `/`: `/noslash`",
    );
    warning(
        "routes:\n- {id: r, uri: '/h/:id', plugins: {}}\n",
        "2: routes[0].uri: warning: `:id` matches only these letters; parameters in paths need the setting \
         `router_mode: radixtree_uri_with_parameter`",
    );
    warning(
        "routes:\n- {id: a, uri: /a, plugins: {}}\n- {id: b, uri: /a, plugins: {}}\n",
        "3: routes[1]: warning: it matches the same requests as route `a`, so that one of them never serves",
    );
    for empty in ["", "\n", "# a comment\n"] {
        warning(empty, "1: warning: the file is empty: it has neither settings nor objects");
    }
    warning(
        &route("plugins: {limit-count: {count: 1, time_window: 1, valkey_host: r}}"),
        "5: routes[0].plugins.limit-count.valkey_host: warning: unknown field `valkey_host` is not read and has no effect",
    );
    let with_parameters = "router_mode: radixtree_uri_with_parameter\nresources: f.yaml\n";
    let files =
        [("weir.yaml", with_parameters), ("f.yaml", "routes:\n- {id: r, uri: '/h/:id', plugins: {}}\n")];
    let outcome = weir_with(&files, &["check", "weir.yaml"], &[]);
    assert_eq!((outcome.code, outcome.stdout.as_str()), (0, "weir.yaml: ok\n"));
}
