//! Name lookups of a static program: the source file of Weir in a program of a few lines, because the program
//! under test is usually not static.

use std::fs;
use std::process::Command;

use crate::pack::{folder, is_root_for, output, repository};

/// Looks a name up, with an argument after the modules were chosen as Weir chooses them.
const SOURCE: &str = r#"
use std::net::ToSocketAddrs;

#[path = "PLACE/crates/weir/src/static_names.rs"]
mod static_names;

fn main() {
    if std::env::args().len() > 1 {
        static_names::choose();
    }
    let found = ("in-hosts.test", 80).to_socket_addrs().ok().and_then(|mut all| all.next());
    println!("{found:?}");
}
"#;

#[test]
fn static_program_asks_no_module_of_the_machine() {
    if !is_root_for("name lookups in a root of their own") {
        return;
    }
    let folder = folder("static-names");
    let (source, root) = (folder.join("main.rs"), folder.join("root"));
    fs::write(&source, SOURCE.replace("PLACE", repository().to_str().unwrap())).unwrap();
    fs::create_dir_all(root.join("etc")).unwrap();
    let mut compiler = Command::new("rustc");
    compiler.args([
        "--edition",
        "2024",
        "--target",
        "x86_64-unknown-linux-gnu",
        "-C",
        "target-feature=+crt-static",
    ]);
    output(compiler.arg("-o").arg(root.join("lookup")).arg(&source));
    // A module that is not there stands for all that are shared libraries.
    fs::write(root.join("etc/nsswitch.conf"), "hosts: shared_library\n").unwrap();
    fs::write(root.join("etc/hosts"), "192.0.2.7 in-hosts.test\n").unwrap();
    let lookup =
        |arguments: &[&str]| output(Command::new("chroot").arg(&root).arg("/lookup").args(arguments));
    assert_eq!(lookup(&[]), "None\n");
    assert_eq!(lookup(&["chosen"]), "Some(192.0.2.7:80)\n");
}
