//! Prints the changes between two OpenAPI documents in JSON, one a line: level, rule, operation, place and
//! sentence. Used to compare with other tools: `cargo run -p contract --example diff OLD NEW [OLD NEW …]`.
#![allow(clippy::print_stdout)]

use std::error::Error;

use contract::diff::{DiffOptions, diff_documents};

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    for files in arguments.chunks_exact(2) {
        let old = serde_json::from_slice(&std::fs::read(&files[0])?)?;
        let new = serde_json::from_slice(&std::fs::read(&files[1])?)?;
        println!("# {} {}", files[0], files[1]);
        for change in diff_documents(&old, &new, &DiffOptions::default())? {
            let (level, rule, operation) = (change.level, change.rule, &change.operation);
            println!("{level:?}\t{rule}\t{operation}\t{}\t{}", change.place, change.text);
        }
    }
    Ok(())
}
