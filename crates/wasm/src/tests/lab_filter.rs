//! The filter of the laboratory's contenders weir-wasm and envoy-wasm.

use std::fs;
use std::path::{Path, PathBuf};

use exchange::testing::Scene;

use super::{conf, end, load, plugin};

fn contenders() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../lab/contenders")
}

/// `UPDATE=1` writes the compiled files.
#[test]
fn laboratory_has_the_filter_that_its_text_says() {
    let text = fs::read_to_string(contenders().join("weir/fields.wat")).unwrap();
    let compiled = wat::parse_str(text).unwrap();
    for folder in ["weir", "envoy"] {
        let file = contenders().join(folder).join("fields.wasm");
        if std::env::var_os("UPDATE").is_some() {
            fs::write(&file, &compiled).unwrap();
        }
        assert_eq!(fs::read(&file).unwrap(), compiled, "{}: UPDATE=1 writes it anew", file.display());
    }
}

#[test]
fn laboratory_filter_sets_a_field_of_two_others() {
    let module = fs::read(contenders().join("weir/fields.wasm")).unwrap();
    net::env::block_on(async {
        let extension = load("fields", &module).unwrap();
        let mut scene = Scene::new();
        let plugin = plugin(&extension, &scene, &conf());
        for _ in 0..3 {
            let request = b"GET / HTTP/1.1\r\nHost: a.example\r\nUser-Agent: test\r\n\r\n";
            let mut exchange = scene.exchange(request);
            assert!(end(plugin.access(&mut exchange)).await.is_none());
            assert_eq!(exchange.request.headers.get("x-seen"), Some(&b"a.example test"[..]));
        }
    })
    .unwrap();
}
