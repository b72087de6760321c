//! Tests of the table of modules.

use super::{ABSENT, SOURCES, missing, source};

#[test]
fn tables_are_in_order_and_name_no_module_twice() {
    assert!(SOURCES.is_sorted_by(|left, right| left.0 < right.0));
    assert!(ABSENT.is_sorted_by(|left, right| left.0 < right.0));
    for (name, _) in ABSENT {
        assert!(source(name).is_none(), "{name}");
    }
}

#[test]
fn each_module_begins_with_its_name() {
    for (name, text) in SOURCES {
        assert!(text.starts_with(&format!("-- {name}: ")), "{name}");
    }
}

#[test]
fn missing_module_is_named_with_the_reason() {
    assert!(missing("ffi").starts_with("not available in Weir: ffi (foreign functions"));
    assert!(missing("no.such").starts_with("not available in Weir: no.such;"));
}
