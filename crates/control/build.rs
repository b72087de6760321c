//! Lists the reference pages of the plugins, so that the Admin API has all of them and names none.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::{env, fs, io};

fn main() -> io::Result<()> {
    let root = PathBuf::from(env::var("CARGO_MANIFEST_DIR").expect("cargo sets it"));
    let folder = root.join("../../docs/reference/plugins");
    // A changed folder or file makes the list anew; cargo looks at every file beneath.
    println!("cargo:rerun-if-changed={}", folder.display());
    let mut pages = Vec::new();
    for entry in fs::read_dir(&folder)? {
        let path = fs::canonicalize(entry?.path())?;
        if path.extension().is_some_and(|ending| ending == "md") {
            pages.push(path);
        }
    }
    pages.sort();
    let mut text = String::from("&[\n");
    for page in pages {
        let name = page.file_stem().and_then(|name| name.to_str()).expect("plugins have names in ASCII");
        let _ = writeln!(text, "    ({name:?}, include_str!({page:?})),");
    }
    text.push(']');
    fs::write(Path::new(&env::var("OUT_DIR").expect("cargo sets it")).join("plugin_pages.rs"), text)
}
