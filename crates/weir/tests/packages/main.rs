//! Tests of the packages: their contents, that two builds are equal, and that the image runs without rights. The program in them
//! is the debug build; `WEIR_TEST_PROGRAM=PATH` packs and runs another one, such as the static one of `make package`.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on says so by panicking")]

mod bill;
mod builds;
mod container;
mod debian;
mod image;
mod pack;
mod redhat;
mod stand_in;
mod static_names;
mod tarball;
