//! Runs the corpora of the fuzz targets for paths, routes and variables in an ordinary test.

use crate::oracles::{corpus, path, router, vars};

#[test]
fn paths() {
    corpus::run("path", path::check);
}

#[test]
fn routers() {
    corpus::run("router", router::check);
}

#[test]
fn expressions_templates_and_names() {
    corpus::run("vars", vars::check);
}
