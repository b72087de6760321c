//! Lists the laboratory's files, so that the program holds all of them: the scenarios and the contenders'
//! folders.

use std::fmt::Write as _;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::{env, fs, io};

fn main() -> io::Result<()> {
    let root = Path::new(&env::var("CARGO_MANIFEST_DIR").expect("cargo sets it")).join("../../lab");
    let mut files = Vec::new();
    for folder in ["scenarios", "contenders"] {
        // A changed folder or file makes the list anew; cargo looks at every file beneath.
        println!("cargo:rerun-if-changed={}", root.join(folder).display());
        collect(&root.join(folder), &mut files)?;
    }
    files.sort();
    let mut text = String::from("&[\n");
    for file in files {
        let name = file.strip_prefix(&root).expect("it was found beneath").display().to_string();
        let runs = fs::metadata(&file)?.permissions().mode() & 0o111 != 0;
        let path = fs::canonicalize(&file)?;
        let _ =
            writeln!(text, "    File {{ name: {name:?}, runs: {runs}, bytes: include_bytes!({path:?}) }},");
    }
    text.push(']');
    fs::write(Path::new(&env::var("OUT_DIR").expect("cargo sets it")).join("files.rs"), text)
}

fn collect(folder: &Path, files: &mut Vec<PathBuf>) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        let hidden = path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"."));
        // Build output of a contender is not one of its files.
        if hidden || path.file_name().is_some_and(|name| name == "target") {
            continue;
        }
        if path.is_dir() { collect(&path, files)? } else { files.push(path) }
    }
    Ok(())
}
