//! The route that a request takes: each route answers from an origin that sends the route's id.

use std::fmt::Write;

use testkit::{Origin, Reply, Weir};

use crate::support::builder;

/// Routes to an origin that answers with the route's id. Each is given as its id, and its fields as YAML
/// flow.
struct Routes {
    weir: Weir,
    _origin: Origin,
}

impl Routes {
    fn new(routes: &[(&str, &str)]) -> Routes {
        Routes::with("", routes, &[])
    }

    /// As [`Routes::new`], with the text `before` in front of the routes and with further settings.
    fn with(before: &str, routes: &[(&str, &str)], arguments: &[&str]) -> Routes {
        // The Host that the upstream sends is the id of the route.
        let origin = Origin::start(|request| {
            if request.method == "HEAD" {
                return Reply::raw(b"HTTP/1.1 200 OK\r\n\r\n");
            }
            Reply::ok(&format!("{} {}", request.header("host").unwrap_or("-"), request.target))
        });
        let mut text = format!("{before}\nroutes:\n");
        for (id, fields) in routes {
            let upstream =
                format!("{{nodes: {{'{}': 1}}, pass_host: rewrite, upstream_host: {id}}}", origin.address());
            writeln!(text, "  - {{id: {id}, {fields}, upstream: {upstream}}}").unwrap();
        }
        Routes { weir: builder(&text).arguments(arguments).start(), _origin: origin }
    }

    /// The route that answers, or the status.
    fn ask(&self, method: &str, target: &str, headers: &[(&str, &str)]) -> String {
        let response = self.weir.client().request(method, target, headers, b"");
        match response.status {
            200 if method == "HEAD" => "200".to_owned(),
            200 => response.text().split(' ').next().unwrap_or_default().to_owned(),
            status => status.to_string(),
        }
    }

    fn check(&self, cases: &[(&str, &str)]) {
        for (target, want) in cases {
            assert_eq!(self.ask("GET", target, &[]), *want, "{target}");
        }
    }
}

#[test]
fn without_a_route_there_is_nothing() {
    let routes = Routes::new(&[("off", "uri: /off, status: 0"), ("on", "uri: /on")]);
    routes.check(&[("/on", "on"), ("/off", "404"), ("/", "404"), ("/on/", "404"), ("/On", "404")]);
    let response = routes.weir.get("/nowhere");
    assert_eq!(response.json(), serde_json::json!({"error_msg": "404 Route Not Found"}));
    assert_eq!(response.header("content-type"), Some("application/json"));
}

#[test]
fn exact_beats_prefix_and_long_beats_short() {
    let routes = Routes::new(&[
        ("all", "uri: /*, priority: 100"),
        ("long", "uri: /a/b/*, priority: -1"),
        ("short", "uri: /a/*, priority: 50"),
        ("exact", "uri: /a/b/c, priority: -100"),
        ("two", "uris: [/x, /y/*]"),
        ("low", "uri: /same/*, priority: 1"),
        ("high", "uri: /same/*, priority: 2"),
        ("glob", "uri: '/g*'"),
    ]);
    routes.check(&[
        ("/a/b/c", "exact"),
        ("/a/b/d", "long"),
        ("/a/b/", "long"),
        ("/a/b", "short"),
        ("/a/", "short"),
        ("/a", "all"),
        ("/x", "two"),
        ("/x/", "all"),
        ("/y/z", "two"),
        ("/same/x", "high"),
        ("/g", "glob"),
        ("/go/on", "glob"),
        ("/a/b/c?q=/x", "exact"),
    ]);
}

#[test]
fn hosts_select() {
    let routes = Routes::new(&[
        ("none", "uri: /*"),
        ("exact", "uri: /*, host: Api.Example.com"),
        ("wild", "uri: /*, host: '*.example.com'"),
        ("deep", "uri: /only, host: '*.deep.example.com'"),
        ("several", "uri: /*, hosts: [one.test, two.test]"),
    ]);
    for (host, target, want) in [
        ("api.example.com", "/", "exact"),
        ("API.EXAMPLE.COM:8080", "/", "exact"),
        ("www.example.com", "/", "wild"),
        ("a.b.example.com", "/", "wild"),
        ("x.deep.example.com", "/only", "deep"),
        ("x.deep.example.com", "/other", "wild"),
        ("example.com", "/", "none"),
        ("two.test", "/", "several"),
        ("three.test", "/", "none"),
        ("xapi.example.org", "/", "none"),
    ] {
        assert_eq!(routes.ask("GET", target, &[("Host", host)]), want, "{host} {target}");
    }
    let weir = &routes.weir;
    let absolute = weir.client().request("GET", "http://one.test/", &[("Host", "two.example")], b"");
    assert!(absolute.text().starts_with("several "), "the target's authority counts: {}", absolute.text());
}

#[test]
fn methods_and_addresses_select() {
    let routes = Routes::new(&[
        ("get", "uri: /m, methods: [GET, HEAD]"),
        ("post", "uri: /m, methods: [POST]"),
        ("near", "uri: /r, remote_addrs: ['127.0.0.0/8', '::1']"),
        ("far", "uri: /r, remote_addrs: ['10.0.0.0/8']"),
        ("one", "uri: /s, remote_addr: 127.0.0.1"),
        ("nobody", "uri: /t, remote_addr: 192.0.2.1"),
    ]);
    assert_eq!(routes.ask("GET", "/m", &[]), "get");
    assert_eq!(routes.ask("HEAD", "/m", &[]), "200");
    assert_eq!(routes.ask("POST", "/m", &[]), "post");
    assert_eq!(routes.ask("PUT", "/m", &[]), "404");
    routes.check(&[("/r", "near"), ("/s", "one"), ("/t", "404")]);
    assert_eq!(
        routes.ask("GET", "/t", &[("X-Forwarded-For", "192.0.2.1"), ("X-Real-IP", "192.0.2.1")]),
        "404"
    );
}

#[test]
fn expressions_select() {
    let headers =
        [("X-Version", "2"), ("Cookie", "user=jack; theme=dark"), ("User-Agent", "Mozilla/5.0 (X11)")];
    let check = |vars: &str, want: bool| {
        let routes =
            Routes::new(&[("yes", &format!("uri: /*, vars: {vars}, priority: 1")), ("no", "uri: /*")]);
        let answer = routes.ask("GET", "/v/x?name=jack&age=30&empty=&list=b", &headers);
        assert_eq!(answer, if want { "yes" } else { "no" }, "{vars}");
    };
    for (vars, want) in [
        ("[[arg_name, '==', jack]]", true),
        ("[[arg_name, jack]]", true),
        ("[[arg_name, '~=', jack]]", false),
        ("[[arg_age, '>', 18], [arg_age, '<', 65]]", true),
        ("[[arg_age, '>=', 30], [arg_age, '<=', 29]]", false),
        ("[[arg_name, '>', 5]]", false),
        ("[[arg_name, '~~', '^ja.k$']]", true),
        ("[[arg_name, '~*', '^JA']]", true),
        ("[[arg_name, '!', '~~', '^ja']]", false),
        ("[[arg_name, in, [jill, jack]]]", true),
        ("[[arg_name, '!', in, [jill, jack]]]", false),
        ("[[remote_addr, ipmatch, ['10.0.0.0/8', '127.0.0.1']]]", true),
        ("[[remote_addr, '!', ipmatch, ['127.0.0.0/8']]]", false),
        ("[[http_x_version, '==', '2']]", true),
        ("[[cookie_user, '==', jack]]", true),
        ("[[cookie_none, '==', jack]]", false),
        ("[[http_user_agent, '~~', Mozilla]]", true),
        ("[[request_method, '==', GET]]", true),
        ("[[uri, '==', /v/x]]", true),
        ("[[request_uri, '~~', 'name=jack']]", true),
        ("[[query_string, '~~', '^name=']]", true),
        ("[[scheme, '==', http]]", true),
        ("[[host, '~~', '^127']]", true),
        ("[OR, [arg_name, '==', jill], [arg_age, '==', '30']]", true),
        ("[AND, [arg_name, '==', jill], [arg_age, '==', '30']]", false),
        ("['!OR', [arg_name, '==', jill], [arg_age, '==', '31']]", true),
        ("['!AND', [arg_name, '==', jack], [arg_age, '==', '30']]", false),
        ("[[OR, [arg_name, '==', jill], [AND, [arg_age, '>', 20], [cookie_theme, '==', dark]]]]", true),
    ] {
        check(vars, want);
    }
}

#[test]
fn router_modes_differ() {
    let routes = [("host", "uri: /a/*, host: h.test"), ("path", "uri: /a/b/*")];
    let host = [("Host", "h.test")];
    let ask = |mode: &str| Routes::with("", &routes, &["--router-mode", mode]).ask("GET", "/a/b/c", &host);
    assert_eq!(ask("radixtree_host_uri"), "host", "the host comes first");
    assert_eq!(ask("radixtree_uri"), "path", "the path comes first");
    let parameters = [("user", "uri: '/u/:id/posts'"), ("rest", "uri: '/f/*path'"), ("other", "uri: /u/*")];
    let routes = Routes::with("", &parameters, &["--router-mode", "radixtree_uri_with_parameter"]);
    routes.check(&[("/u/7/posts", "user"), ("/u/7/8/posts", "other"), ("/f/a/b", "rest"), ("/f", "404")]);
    let literal = Routes::new(&[("user", "uri: '/u/:id'")]);
    literal.check(&[("/u/7", "404"), ("/u/:id", "user")]);
}

#[test]
fn a_route_inherits_its_services_hosts() {
    let services = "services:\n  - {id: s, hosts: [s.test]}";
    let routes = Routes::with(
        services,
        &[("in", "uri: /*, service_id: s"), ("own", "uri: /own, service_id: s, host: own.test")],
        &[],
    );
    for (host, target, want) in [
        ("s.test", "/", "in"),
        ("other.test", "/", "404"),
        ("own.test", "/own", "own"),
        ("s.test", "/own", "in"),
    ] {
        assert_eq!(routes.ask("GET", target, &[("Host", host)]), want, "{host} {target}");
    }
}

#[test]
fn one_canonical_path_is_matched_and_forwarded() {
    let routes = Routes::new(&[("admin", "uri: /admin/*"), ("all", "uri: /*")]);
    let check = |target: &str, want: &str| {
        let response = routes.weir.client().request("GET", target, &[], b"");
        let answer = if response.status == 200 { response.text() } else { response.status.to_string() };
        assert_eq!(answer, want, "{target}");
    };
    for (target, want) in [
        ("/admin/x", "admin /admin/x"),
        ("/%61dmin/x", "admin /admin/x"),
        ("//admin//x", "admin /admin/x"),
        ("/./admin/x", "admin /admin/x"),
        ("/a/../admin/x", "admin /admin/x"),
        ("/a/%2e%2e/admin/x", "admin /admin/x"),
        ("/admin/%7e", "admin /admin/~"),
        ("/admin/a%20b", "admin /admin/a%20b"),
        ("/admin%2fx", "admin /admin%2Fx"),
        ("/%2fadmin/x", "admin /%2Fadmin/x"),
        ("/%2f%2Fadmin%2f%2fx", "admin /%2F%2Fadmin%2F%2Fx"),
        ("/caf%C3%A9%2Fx", "all /caf%C3%A9%2Fx"),
        ("/%2561dmin/x", "all /%2561dmin/x"),
        ("/ADMIN/x", "all /ADMIN/x"),
        ("/a/..;/admin/x", "400"),
        ("/a/..%2fadmin/x", "400"),
        ("/a\\..\\admin", "400"),
        ("/a%5c..%5cadmin", "400"),
        ("/../admin/x", "400"),
        ("/admin%00/x", "400"),
        ("/%c0%ae%c0%ae/admin", "400"),
        ("/%", "400"),
        ("/caf%C3%A9", "all /caf%C3%A9"),
    ] {
        check(target, want);
    }
}

/// Routes that refuse all paths under `/admin`, before a route for every path.
const ADMIN_REFUSED: [(&str, &str); 2] = [
    (
        "refused",
        "uris: ['/admin', '/admin/*'], plugins: {mocking: {response_status: 403, response_example: no}}",
    ),
    ("all", "uri: /*"),
];

#[test]
fn encoded_slash_meets_the_rules_of_a_slash() {
    let routes = Routes::new(&ADMIN_REFUSED);
    routes.check(&[
        ("/admin", "403"),
        ("/%2fadmin", "403"),
        ("/%2Fadmin", "403"),
        ("/%2f%2fadmin", "403"),
        ("/admin%2fx", "403"),
        ("/admin%2f", "403"),
        ("//%2fadmin/%2f/x", "403"),
        ("/x/..%2fadmin", "400"),
        ("/x%2f..%2fadmin", "400"),
        ("/%252fadmin", "all"),
        ("/administrator%2fx", "all"),
    ]);
    let prefix =
        "uri: /admin*, priority: 10, plugins: {mocking: {response_status: 403, response_example: no}}";
    let routes = Routes::new(&[("refused", prefix), ("all", "uri: /*")]);
    routes.check(&[("/admin", "403"), ("/%2fadmin", "403"), ("/%2f%2fadmin", "403"), ("/admin%2fx", "403")]);
}

#[test]
fn encoded_slash_stays_in_its_segment_if_so_set() {
    let keeping = ["--match-uri-encoded-slash"];
    let routes = Routes::with("", &ADMIN_REFUSED, &keeping);
    routes.check(&[
        ("/admin/x", "403"),
        ("/admin%2fx", "all"),
        ("/%2fadmin", "all"),
        ("/x/..%2fadmin", "400"),
        ("/x%2f..%2fadmin", "400"),
    ]);
    let by_name = [("item", "uri: '/items/:name'"), ("all", "uri: /*")];
    let mode = ["--router-mode", "radixtree_uri_with_parameter"];
    let routes = Routes::with("", &by_name, &mode);
    routes.check(&[("/items/a", "item"), ("/items/a%2Fb", "all")]);
    let routes = Routes::with("", &by_name, &[&mode[..], &keeping].concat());
    routes.check(&[("/items/a", "item"), ("/items/a%2Fb", "item"), ("/items/a/b", "all")]);
}

#[test]
fn slash_at_the_end_counts_unless_it_is_deleted() {
    let routes = Routes::new(&ADMIN_REFUSED[..1]);
    routes.check(&[("/admin", "403"), ("/admin/", "403"), ("/admin%2f", "403")]);
    let exact = [("exact", "uri: /a"), ("rest", "uri: /*")];
    Routes::new(&exact).check(&[("/a", "exact"), ("/a/", "rest"), ("/a%2f", "rest")]);
    let deleting = Routes::with("", &exact, &["--delete-uri-tail-slash"]);
    deleting.check(&[("/a", "exact"), ("/a/", "exact"), ("/a%2f", "exact"), ("/a/b/", "rest")]);
}

#[test]
fn parameters_count_unless_paths_are_servlets() {
    let routes = Routes::new(&ADMIN_REFUSED);
    routes.check(&[("/admin;x", "all"), ("/admin;x/y", "all"), ("/x/..;/admin", "400")]);
    let servlet = Routes::with("", &ADMIN_REFUSED, &["--normalize-uri-like-servlet"]);
    servlet.check(&[
        ("/admin;x", "403"),
        ("/admin;x/y", "403"),
        ("/admin;x%2fy", "400"),
        ("/x;%2fadmin", "400"),
        ("/%2f;x/admin", "400"),
        ("/x/..;/admin", "400"),
        ("/x;y", "all"),
    ]);
}

#[test]
fn wildcard_alone_is_any_host() {
    let routes = Routes::new(&[
        ("any", "uri: /*, host: '*'"),
        ("exact", "uri: /*, host: a.test"),
        ("none", "uri: /n"),
    ]);
    for (host, target, want) in [
        ("a.test", "/", "exact"),
        ("b.test", "/", "any"),
        ("b.test:8080", "/n", "any"),
        ("[::1]", "/", "any"),
    ] {
        assert_eq!(routes.ask("GET", target, &[("Host", host)]), want, "{host} {target}");
    }
}
