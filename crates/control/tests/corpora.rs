//! The corpus of the fuzz target for declarative files holds in an ordinary test run, too.

#[path = "../../../fuzz/oracles/catalog.rs"]
pub mod catalog;
#[path = "../../../fuzz/oracles/corpus.rs"]
pub mod corpus;
#[path = "../../../fuzz/oracles/resource_file.rs"]
pub mod resource_file;

#[test]
fn resource_files() {
    corpus::run("resource_file", resource_file::check);
}
