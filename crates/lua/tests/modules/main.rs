//! The modules that plugins of APISIX require, in the interpreter of code of users, without a request.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on says so by panicking")]

mod apisix;
mod clients;
mod isolation;
mod natives;
mod reference;
mod texts;

use lua::modules::{absent, missing, names, source};
use lua::testing::Engine;

/// Runs each text as the body of a function and compares its first result.
fn check_all(before: &str, checks: &[(&str, &str)]) {
    let engine = Engine::open().unwrap();
    for (code, expected) in checks {
        assert_eq!(engine.run(&format!("{before} {code}")).as_deref(), Ok(*expected), "{code}");
    }
}

#[test]
fn tables_are_in_order_and_name_no_module_twice() {
    assert!(names().is_sorted_by(|left, right| left < right));
    assert!(absent().is_sorted_by(|left, right| left.0 < right.0));
    for (name, _) in absent() {
        assert!(source(name).is_none(), "{name}");
    }
}

#[test]
fn each_module_begins_with_its_name() {
    for name in names() {
        let text = source(name).unwrap();
        assert!(text.starts_with(&format!("-- {name}: ")), "{name}");
    }
}

#[test]
fn each_module_is_required_without_an_error() {
    let engine = Engine::open().unwrap();
    for name in names() {
        let loaded = engine.run(&format!("return type(require('{name}'))"));
        assert!(matches!(loaded.as_deref(), Ok("table" | "function")), "{name}: {loaded:?}");
    }
}

#[test]
fn missing_module_is_named_with_the_reason() {
    assert!(missing("ffi").starts_with("not available in Weir: ffi (foreign functions"));
    assert!(missing("no.such").starts_with("not available in Weir: no.such, module 'no.such' not found;"));
}
