//! Takes the versions of the TLS libraries from `Cargo.lock`, for `weir version`: the libraries have no
//! constant for them.

use std::path::Path;
use std::{env, fs, io};

fn main() -> io::Result<()> {
    let lock = Path::new(&env::var("CARGO_MANIFEST_DIR").expect("cargo sets it")).join("../../Cargo.lock");
    println!("cargo:rerun-if-changed={}", lock.display());
    let text = fs::read_to_string(&lock)?;
    for (package, variable) in [("rustls", "RUSTLS_VERSION"), ("aws-lc-rs", "AWS_LC_RS_VERSION")] {
        let version = version(&text, package).unwrap_or("unknown");
        println!("cargo:rustc-env={variable}={version}");
    }
    Ok(())
}

/// The version of a package in a lock file.
fn version<'a>(lock: &'a str, package: &str) -> Option<&'a str> {
    let start = format!("name = \"{package}\"\nversion = \"");
    let rest = &lock[lock.find(&start)? + start.len()..];
    rest.split('"').next()
}
