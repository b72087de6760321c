//! Builds of packages: two are equal, sums are right, and faults are told with their reasons.

use std::fs;
use std::os::unix::fs::symlink;
use std::process::Command;

use crate::pack::{build, failure, folder, output, packages, program, repository};
use crate::stand_in::stand_in;

#[test]
fn two_builds_write_the_same_bytes() {
    let first = packages();
    // Another time zone, language, file mode mask, folder and name of the program.
    let out = folder("again");
    let copy = folder("copy").join("other-name");
    output(Command::new("cp").arg(program()).arg(&copy));
    let command = build(&copy, &out);
    let mut masked = Command::new("sh");
    masked.args(["-c", "umask 077 && exec \"$@\"", "sh"]).arg(command.get_program()).args(command.get_args());
    output(masked.env("TZ", "Asia/Tokyo").env("LC_ALL", "C.UTF-8").current_dir("/"));
    let mut compared = 0;
    for entry in fs::read_dir(first).unwrap() {
        let path = entry.unwrap().path();
        let other = out.join(path.file_name().unwrap());
        assert!(fs::read(&path).unwrap() == fs::read(&other).unwrap(), "{} differs", other.display());
        compared += 1;
    }
    assert_eq!(compared, fs::read_dir(&out).unwrap().count());
    assert!(compared >= 6, "{compared} files");
}

#[test]
fn checksums_match_every_package() {
    let out = packages();
    let sums = output(Command::new("sha256sum").args(["--check", "--strict", "SHA256SUMS"]).current_dir(out));
    // All files but the sums.
    assert_eq!(sums.lines().count(), fs::read_dir(out).unwrap().count() - 1, "{sums}");
    assert!(sums.lines().all(|line| line.ends_with(": OK")), "{sums}");
}

#[test]
fn missing_tool_is_named_with_its_package() {
    let folder = folder("tools");
    for tool in ["cargo", "git", "rustc"] {
        let path = output(Command::new("sh").args(["-c", &format!("command -v {tool}")]));
        symlink(path.trim(), folder.join(tool)).unwrap();
    }
    let mut command = build(stand_in(), &folder.join("out"));
    let message = failure(command.args(["--only", "rpm"]).env("PATH", &folder));
    assert_eq!(message, "package: strip is missing; install binutils, or run lab/install.sh package\n");
    symlink("/usr/bin/strip", folder.join("strip")).unwrap();
    let message = failure(&mut command);
    assert_eq!(message, "package: rpmbuild is missing; install rpm, or run lab/install.sh package\n");
}

#[test]
fn bad_arguments_are_refused_with_a_reason() {
    let folder = folder("bad");
    let script = folder.join("script");
    fs::write(&script, "#!/bin/sh\n").unwrap();
    let check = |program: &str, arguments: &[&str], reason: &str| {
        let message = failure(build(program.as_ref(), &folder.join("out")).args(arguments));
        assert!(message.starts_with("package: ") && message.contains(reason), "{arguments:?}: {message}");
    };
    let good = stand_in().to_str().unwrap();
    check(good, &["--version", "1.0"], "--version 1.0: not a version such as 1.2.3");
    check(good, &["--only", "deb,snap"], "--only snap: no such package; there are ");
    check("/nowhere/weir", &[], "--binary /nowhere/weir: no such file");
    check(script.to_str().unwrap(), &[], "script");
    let mut command = build(stand_in(), &folder.join("out"));
    let message = failure(command.env("SOURCE_DATE_EPOCH", "yesterday"));
    assert!(message.contains("SOURCE_DATE_EPOCH=yesterday: not a number of seconds since 1970"), "{message}");
}

#[test]
fn missing_profile_is_refused() {
    let mut command = Command::new("/usr/bin/python3");
    command.arg(repository().join("packaging/build.py")).args([
        "--profile",
        "/nowhere/profile",
        "--only",
        "tar",
    ]);
    command.arg("--out").arg(folder("profile"));
    assert_eq!(failure(&mut command), "package: --profile /nowhere/profile: no such file\n");
}
