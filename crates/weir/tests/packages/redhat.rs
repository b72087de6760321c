//! The RPM package, as rpm reads and installs it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::pack::{build, failure, folder, is_root_for, only, output, package, run};
use crate::stand_in::stand_in;

/// An RPM package of the stand-in with this version.
fn small(version: &str) -> PathBuf {
    let out = folder(&format!("rpm-{version}"));
    output(build(stand_in(), &out).args(["--only", "rpm", "--version", version]));
    only(&out, ".rpm")
}

/// `rpm` on a root of its own: without the scripts and the requirements, because the root has no programs.
fn on_root(root: &Path, action: &str, rpm: &Path) -> Command {
    let mut command = Command::new("rpm");
    command.arg("--root").arg(root).args([action, "--nodeps", "--noscripts"]).arg(rpm);
    command
}

#[test]
fn rpm_has_the_files_of_the_deb() {
    let listed = run(
        "rpm",
        &[&"-qp", &"--qf", &"[%{FILENAMES} %{FILEMODES:perms} %{FILEGROUPNAME}\n]", &package(".rpm")],
    );
    for line in [
        "/usr/bin/weir -rwxr-xr-x root",
        "/usr/lib/systemd/system/weir.service -rw-r--r-- root",
        "/etc/weir/weir.yaml -rw-r--r-- root",
        "/etc/weir/weir.env -rw-r----- weir",
        "/etc/logrotate.d/weir -rw-r--r-- root",
        "/usr/share/zsh/site-functions/_weir -rw-r--r-- root",
        "/var/lib/weir drwx------ weir",
        "/var/log/weir drwxr-x--- weir",
    ] {
        assert!(listed.lines().any(|each| each == line), "{line}: {listed}");
    }
    let other_places =
        ["/usr/share/zsh/", "/usr/share/doc/weir/changelog.gz", "/usr/share/doc/weir/copyright"];
    let of_deb = run("sh", &[&"-c", &"dpkg-deb --fsys-tarfile \"$1\" | tar t", &"sh", &package(".deb")]);
    for path in of_deb.lines().map(|line| line.trim_start_matches('.')).filter(|path| !path.ends_with('/')) {
        if !other_places.iter().any(|place| path.starts_with(place)) {
            assert!(listed.lines().any(|each| each.starts_with(&format!("{path} "))), "{path}: {listed}");
        }
    }
}

#[test]
fn rpm_digests_configs_and_scripts_are_good() {
    let rpm = package(".rpm");
    assert!(run("rpm", &[&"-K", &rpm]).trim_end().ends_with(": digests OK"));
    let configs = run("rpm", &[&"-qpc", &rpm]);
    assert_eq!(configs, "/etc/logrotate.d/weir\n/etc/weir/weir.env\n/etc/weir/weir.yaml\n");
    let flags = run("rpm", &[&"-qp", &"--qf", &"[%{FILENAMES} %{FILEFLAGS:fflags}\n]", &rpm]);
    // c: a configuration file, n: a changed one is kept.
    assert!(flags.contains("/etc/weir/weir.yaml cn\n"), "{flags}");
    for script in ["PREIN", "POSTIN", "PREUN", "POSTUN"] {
        let text = run("rpm", &[&"-qp", &"--qf", &format!("%{{{script}}}"), &rpm]);
        let path = folder("rpm-scripts").join(script);
        fs::write(&path, &text).unwrap();
        assert!(text.contains("weir") || script == "POSTUN", "{script}: {text}");
        run("sh", &[&"-n", &path]);
    }
}

#[test]
fn rpm_upgrade_keeps_a_changed_config_file() {
    if !is_root_for("installation of RPM packages") {
        return;
    }
    let (old, new) = (small("0.9.0"), small("0.10.0"));
    let root = folder("rpm-root");
    output(&mut on_root(&root, "-i", &old));
    let config = root.join("etc/weir/weir.yaml");
    fs::write(&config, "log_level: warn\n").unwrap();
    output(&mut on_root(&root, "-U", &new));
    assert_eq!(fs::read_to_string(&config).unwrap(), "log_level: warn\n");
    let installed = |root: &Path| run("rpm", &[&"--root", &root, &"-q", &"weir"]);
    assert_eq!(installed(&root), "weir-0.10.0-1.x86_64\n");
    let fault = failure(&mut on_root(&root, "-U", &old));
    assert!(
        fault.contains("weir-0.10.0-1.x86_64 (which is newer than weir-0.9.0-1.x86_64) is already installed"),
        "{fault}"
    );
    output(Command::new("rpm").arg("--root").arg(&root).args(["-e", "--noscripts", "weir"]));
    assert!(!root.join("usr/bin/weir").exists());
    assert_eq!(fs::read_to_string(root.join("etc/weir/weir.yaml.rpmsave")).unwrap(), "log_level: warn\n");
}

#[test]
fn rpm_installs_the_program_into_an_empty_root() {
    if !is_root_for("installation of the RPM package") {
        return;
    }
    let root = folder("rpm-whole-root");
    output(&mut on_root(&root, "-i", &package(".rpm")));
    let printed =
        run(root.join("usr/bin/weir").to_str().unwrap(), &[&"check", &root.join("etc/weir/weir.yaml")]);
    assert!(printed.trim_end().ends_with("ok"), "{printed}");
}
