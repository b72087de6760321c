//! The filter in `tests/fixtures/assembly-filter`, made with an old library for AssemblyScript: it allocates
//! by `malloc` and exits by the first name of WASI.

use exchange::testing::{Scene, finish, lines, respond};
use serde_json::json;

use super::{end, load, plugin, run};

const FILTER: &[u8] = include_bytes!("../../tests/fixtures/assembly-filter.wasm");

#[test]
fn assembly_filter_finds_its_code_by_the_name() {
    run(async {
        let extension = load("assembly-filter", FILTER).unwrap();
        let mut scene = Scene::new();
        let plugin = plugin(&extension, &scene, &json!({ "conf": "given" }));
        let mut exchange = scene.exchange(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n");
        assert!(end(plugin.access(&mut exchange)).await.is_none());
        assert_eq!(lines(&exchange.request.headers), ["Host: a", "x-guest: assembly given"]);
        respond(&mut exchange, 404, &[]);
        finish(plugin.response_head(&mut exchange));
        assert_eq!(lines(&exchange.response.headers), ["x-answer: seen 404"]);
        plugin.before_log(&mut exchange);
        let mut stopped = scene.exchange(b"GET / HTTP/1.1\r\nHost: a\r\nX-Stop: 1\r\n\r\n");
        let reply = end(plugin.access(&mut stopped)).await.unwrap();
        assert_eq!((reply.status, &*reply.body), (451, &b"stopped"[..]));
    });
}
