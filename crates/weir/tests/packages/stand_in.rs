//! A small static program in the place of Weir, for tests about packages and not about the program.

use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::sync::OnceLock;

use crate::pack::{folder, output};

/// Answers as Weir does for manual pages and completions, without which a program is not packed.
const SOURCE: &str = r#"
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

int main(int count, char **arguments) {
    if (count == 3 && !strcmp(arguments[1], "completions")) {
        return printf("completions of %s\n", arguments[2]) < 0;
    }
    if (count == 3 && !strcmp(arguments[1], "man")) {
        char path[4096];
        mkdir(arguments[2], 0755);
        snprintf(path, sizeof path, "%s/weir.1", arguments[2]);
        FILE *page = fopen(path, "w");
        return page == NULL || fputs(".TH weir 1\n", page) < 0 || fclose(page) != 0;
    }
    return 2;
}
"#;

/// The path of the program, compiled once.
pub(crate) fn stand_in() -> &'static PathBuf {
    static COMPILED: OnceLock<PathBuf> = OnceLock::new();
    COMPILED.get_or_init(|| compiled("stand-in", "-static"))
}

/// The same program with shared libraries.
pub(crate) fn dynamic_stand_in() -> &'static PathBuf {
    static COMPILED: OnceLock<PathBuf> = OnceLock::new();
    COMPILED.get_or_init(|| compiled("dynamic-stand-in", "-pie"))
}

fn compiled(name: &str, kind: &str) -> PathBuf {
    let folder = folder(name);
    let (source, program) = (folder.join("weir.c"), folder.join("weir"));
    fs::write(&source, SOURCE).unwrap();
    output(Command::new("gcc").arg(kind).arg("-o").arg(&program).arg(&source));
    program
}
