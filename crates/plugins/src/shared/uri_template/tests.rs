//! Texts of clients in every place of a URI, and in every plugin that writes one.

use super::*;
use crate::{fault_injection, mocking, proxy_rewrite, redirect, response_rewrite};
use exchange::plugin::{PluginKind, ResponseStep};
use exchange::testing::{Scene, decide};
use message::query::{arguments, decode};
use serde_json::{Value, json};

const REFERENCE: UriUse = UriUse::Reference { encodes_path: false };

fn rendered(template: &str, uri_use: UriUse, target: &str) -> String {
    let mut scene = Scene::new();
    let exchange = scene
        .exchange(format!("GET {target} HTTP/1.1\r\nHost: h\r\nX-To: https://t/?a=1#x\r\n\r\n").as_bytes());
    let mut out = Vec::new();
    UriTemplate::compile(template, uri_use).unwrap().render(&exchange, &mut out);
    String::from_utf8(out).unwrap()
}

#[test]
fn pieces_are_written_by_their_place() {
    let check = |template: &str, target: &str, as_target: &str, as_reference: &str| {
        assert_eq!(rendered(template, UriUse::Target, target), as_target, "{template} {target}");
        assert_eq!(rendered(template, REFERENCE, target), as_reference, "{template} {target}");
    };
    let both = |template: &str, target: &str, want: &str| check(template, target, want, want);
    both(
        "/s?u=$arg_x&r=1",
        "/?x=a%26b%3Dc%2Bd%23%25e%22%3C%3E%3B%0D",
        "/s?u=a%26b%3Dc%2Bd%23%25e%22%3C%3E%3B%0D&r=1",
    );
    both("/s?u=$uri", "/a/b%3Fc%2541", "/s?u=/a/b?c%2541");
    both("/n/$arg_x", "/?x=a%3Fb%23c%2541", "/n/a%3Fb%23c%2541");
    both("/n$uri?x", "/a%3Fb", "/n/a%3Fb?x");
    // A query stays one, also behind an argument of the template.
    both("/s?$args", "/?a=%20&b=1", "/s?a=%20&b=1");
    both("/s?x=1&$query_string", "/?a=%20&b=\"%z", "/s?x=1&a=%20&b=%22%25z");
    both("/s?x=$args", "/?a=%20&b=1", "/s?x=a%3D%2520%26b%3D1");
    both("/s?back=$request_uri&r=1", "/a%20b?c=d&e", "/s?back=/a%2520b?c%3Dd%26e&r=1");
    both("/s?$request_uri", "/a%20b?c=d&e", "/s?/a%20b?c=d&e");
    check("/n$is_args$args", "/?a=1&b=%26", "/n%3Fa=1&b=%26", "/n?a=1&b=%26");
    check("/p$request_uri", "/a%2541?b", "/p/a%2541%3Fb", "/p/a%2541?b");
    check("/a%20b?c=%20&d=5%", "/", "/a%2520b?c=%20&d=5%25", "/a%20b?c=%20&d=5%25");
    check("/a#b?c=$arg_x", "/?x=%23", "/a%23b?c=%23", "/a#b?c=%23");
    check("/a?b#$arg_x", "/?x=%23c/d", "/a?b%23%23c/d", "/a?b#%23c/d");
    // A name may have a default with a question mark in it.
    both("/s/${arg_x ?? y}?u=${arg_z ?? a&b}", "/", "/s/y?u=a%26b");
    assert_eq!(rendered("/s/${arg_x ?? y}", UriUse::Target, "/?x=%3F"), "/s/%3F");
}

#[test]
fn references_begin_with_whole_uris() {
    let check = |template: &str, target: &str, want: &str| {
        assert_eq!(rendered(template, REFERENCE, target), want, "{template} {target}");
    };
    check("$http_x_to", "/", "https://t/?a=1%23x");
    check("$http_x_to&u=$arg_x", "/?x=a%26b", "https://t/?a=1%23x&u=a%26b");
    check("$scheme://$host$request_uri", "/a=b?c&d", "http://h/a=b?c&d");
    check("$scheme://$host$uri", "/a=b&c", "http://h/a=b&c");
    check("$request_uri&u=$arg_x", "/a?x=b%26c", "/a?x=b%26c&u=b%26c");
    check("$uri/index.html", "/a%3Fb%23", "/a%3Fb%23/index.html");
    let encoding = UriUse::Reference { encodes_path: true };
    assert_eq!(rendered("$uri/a%20b?c=%20", encoding, "/x%20"), "/x%20/a%2520b?c=%20");
}

#[test]
fn raw_targets_keep_what_the_client_sent() {
    let mut scene = Scene::new();
    let exchange = scene.exchange(b"GET / HTTP/1.1\r\nHost: h\r\n\r\n");
    let check = |pattern: &str, template: &str, text: &str, want: &str| {
        let substitution = UriSubstitution::compile(pattern, template, UriUse::RawTarget).unwrap();
        let (uri, _) = substitution.once(&exchange, text.as_bytes()).unwrap().unwrap();
        assert_eq!(String::from_utf8(uri).unwrap(), want, "{pattern} {template} {text}");
    };
    check("^/a(.*)", "$1", "/a/b%2fc?x=1&y", "/b%2fc?x=1&y");
    check("^/q/([^?]*)", "/s?u=$1&r=1", "/q/a&b%26%zz", "/s?u=a%26b%26%25zz&r=1");
    check("^/q/([^?]*)[?](.*)", "/s?u=$1&$2", "/q/a?x=1&y=2", "/s?u=a&x=1&y=2");
}

/// A plugin that writes a query with the text of a client, and the request that carries the text.
struct Row {
    kind: &'static PluginKind,
    config: Value,
    carrier: &'static str,
}

impl Row {
    /// The target or the `Location` that the plugin writes for a text, percent-encoded as a client does.
    fn written(&self, encoded: &str) -> String {
        let mut scene = Scene::new();
        let plugin = scene.build(self.kind, &self.config);
        let head = format!("GET {}{encoded} HTTP/1.1\r\nHost: h\r\n\r\n", self.carrier);
        let mut exchange = scene.exchange(head.as_bytes());
        let location = |reply: exchange::plugin::BufferedReply| {
            reply.headers.into_iter().find(|(name, _)| name == "Location").expect("a Location").1
        };
        if let Some(reply) = decide(plugin.rewrite(&mut exchange)) {
            return location(reply);
        }
        if let Some(reply) = decide(plugin.access(&mut exchange)) {
            return location(reply);
        }
        assert!(matches!(plugin.response_head(&mut exchange), ResponseStep::Done));
        if let Some(location) = exchange.response.headers.get("Location") {
            return String::from_utf8(location.to_vec()).unwrap();
        }
        let path = String::from_utf8(exchange.forward_path().to_vec()).unwrap();
        let query = String::from_utf8(exchange.forward_query().unwrap().to_vec()).unwrap();
        format!("{path}?{query}")
    }
}

fn rows() -> Vec<Row> {
    let by_variable = "/s?user=$uri&role=guest";
    let by_argument = "/s?user=$arg_u&role=guest";
    let by_group = json!(["^/q/(.*)$", "/s?user=$1&role=guest"]);
    let fields = json!({ "Location": by_variable });
    let row = |kind, config, carrier| Row { kind, config, carrier };
    vec![
        row(&proxy_rewrite::KIND, json!({ "uri": by_variable }), "/q/"),
        row(&proxy_rewrite::KIND, json!({ "uri": by_argument }), "/q/?u="),
        row(&proxy_rewrite::KIND, json!({ "regex_uri": by_group }), "/q/"),
        row(&redirect::KIND, json!({ "uri": by_variable }), "/q/"),
        row(&redirect::KIND, json!({ "uri": by_variable, "encode_uri": true }), "/q/"),
        row(&redirect::KIND, json!({ "uri": by_argument }), "/q/?u="),
        row(&redirect::KIND, json!({ "regex_uri": by_group }), "/q/"),
        row(&fault_injection::KIND, json!({ "abort": { "http_status": 302, "headers": fields } }), "/q/"),
        row(&mocking::KIND, json!({ "response_example": "", "response_headers": fields }), "/q/"),
        row(&response_rewrite::KIND, json!({ "headers": fields }), "/q/"),
        row(&response_rewrite::KIND, json!({ "headers": { "set": fields } }), "/q/"),
        row(
            &response_rewrite::KIND,
            json!({ "headers": { "add": [format!("Location: {by_variable}")] } }),
            "/q/",
        ),
    ]
}

#[test]
fn text_of_clients_stays_in_its_argument() {
    let texts = [
        ("plain", "plain"),
        ("x%23y", "x#y"),
        ("bob%26role%3Dadmin", "bob&role=admin"),
        ("x%25zz", "x%zz"),
        ("x%2541", "x%41"),
        ("%22%3C%3E", "\"<>"),
        ("a%2Bb%20c", "a+b c"),
        ("a%3Fb%3B", "a?b;"),
        ("%C3%A4", "ä"),
    ];
    for row in rows() {
        for (encoded, text) in texts {
            let place = format!("{} {} {encoded}", row.kind.name, row.config);
            let uri = row.written(encoded);
            let (path, query) = uri.split_once('?').unwrap_or_else(|| panic!("{place}: {uri}"));
            assert_eq!(path, "/s", "{place}: {uri}");
            let found: Vec<(String, String)> =
                arguments(query.as_bytes()).map(|(_, name, value)| (decoded(name), decoded(value))).collect();
            assert_eq!(found[0].0, "user", "{place}: {uri}");
            assert_eq!(found[0].1.trim_start_matches("/q/"), text, "{place}: {uri}");
            assert_eq!(found[1], ("role".to_owned(), "guest".to_owned()), "{place}: {uri}");
            assert!(!uri.contains(['#', '"', '<', '>', ' ']) && uri.is_ascii(), "{place}: {uri}");
        }
    }
}

fn decoded(text: &[u8]) -> String {
    String::from_utf8(decode(text).into_owned()).unwrap()
}
