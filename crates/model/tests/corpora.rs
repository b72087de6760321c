//! The corpus of the fuzz target for objects holds in an ordinary test run, too.

#[path = "../../../fuzz/oracles/admin_body.rs"]
pub mod admin_body;
#[path = "../../../fuzz/oracles/catalog.rs"]
pub mod catalog;
#[path = "../../../fuzz/oracles/corpus.rs"]
pub mod corpus;

#[test]
fn admin_bodies() {
    corpus::run("admin_body", admin_body::check);
}
