//! The corpora of the fuzz targets for heads, chunks and field lists hold in an ordinary test run, too.
#![expect(unreachable_pub, reason = "the same files are public in the fuzz targets' workspace")]

#[path = "../../../../fuzz/oracles/chunked.rs"]
pub mod chunked;
#[path = "../../../../fuzz/oracles/corpus.rs"]
pub mod corpus;
#[path = "../../../../fuzz/oracles/fields.rs"]
pub mod fields;
#[path = "../../../../fuzz/oracles/naive_head.rs"]
pub mod naive_head;
#[path = "../../../../fuzz/oracles/request_head.rs"]
pub mod request_head;
#[path = "../../../../fuzz/oracles/response_head.rs"]
pub mod response_head;
#[path = "../../../../fuzz/oracles/steering.rs"]
pub mod steering;

#[test]
fn request_heads() {
    corpus::run("request_head", request_head::check);
}

#[test]
fn response_heads() {
    corpus::run("response_head", response_head::check);
}

#[test]
fn chunked_bodies() {
    corpus::run("chunked", chunked::check);
}

#[test]
fn field_lists() {
    corpus::run("fields", fields::check);
}
