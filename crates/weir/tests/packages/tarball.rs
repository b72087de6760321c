//! The tar ball: one folder that holds a program, settings and everything that an installation by hand needs.

use std::fs;

use crate::pack::{VERSION, folder, package, run};

#[test]
fn tar_ball_unpacks_to_a_program_and_its_files() {
    let place = folder("tar");
    run("tar", &[&"-xzf", &package(".tar.gz"), &"-C", &place]);
    let entries: Vec<_> = fs::read_dir(&place).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(entries, [format!("weir-{VERSION}-x86_64-linux").as_str()]);
    let root = place.join(&entries[0]);
    for file in [
        "LICENSE",
        "README.md",
        "CHANGELOG.md",
        "THIRD-PARTY-LICENSES",
        "systemd/weir.service",
        "systemd/weir.env",
        "systemd/weir.service.d/low-ports.conf",
        "systemd/weir.service.d/transparent.conf",
        "logrotate/weir",
        "man/man1/weir.1",
        "man/man1/weir-run.1",
        "completions/weir.bash",
        "completions/_weir",
        "completions/weir.fish",
    ] {
        assert!(fs::metadata(root.join(file)).is_ok_and(|file| file.len() > 0), "{file}");
    }
    let program = root.join("weir");
    let printed = run(program.to_str().unwrap(), &[&"check", &root.join("weir.yaml")]);
    assert!(printed.trim_end().ends_with("ok"), "{printed}");
}

#[test]
fn tar_ball_has_one_folder_that_belongs_to_root() {
    let listed = run("tar", &[&"-tvzf", &package(".tar.gz")]);
    assert!(listed.lines().all(|line| line.contains(" root/root ")), "{listed}");
    let paths = listed.lines().filter_map(|line| line.split_whitespace().last());
    let folders: Vec<_> = paths.map(|path| path.split('/').next().unwrap().to_owned()).collect();
    assert!(folders.iter().all(|folder| *folder == folders[0]), "{folders:?}");
}
