//! The Debian package, as dpkg reads it.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;

use crate::pack::{VERSION, build, folder, only, output, package, run};
use crate::stand_in::{dynamic_stand_in, stand_in};

/// Mode with owner of each path in a package.
fn contents(deb: &Path) -> BTreeMap<String, String> {
    let listed = run("dpkg-deb", &[&"-c", &deb]);
    let fields = listed.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
    fields
        .map(|each| (each[5].trim_start_matches('.').to_owned(), format!("{} {}", each[0], each[1])))
        .collect()
}

/// A field of the control file.
fn field(deb: &Path, name: &str) -> String {
    run("dpkg-deb", &[&"-f", &deb, &name]).trim().to_owned()
}

#[test]
fn deb_has_files_with_modes_and_owners() {
    let found = contents(&package(".deb"));
    for (path, wanted) in [
        ("/usr/bin/weir", "-rwxr-xr-x root/root"),
        ("/usr/lib/systemd/system/weir.service", "-rw-r--r-- root/root"),
        ("/etc/weir/weir.yaml", "-rw-r--r-- root/root"),
        // The group is set when the package is configured, because dpkg unpacks before the group is made.
        ("/etc/weir/weir.env", "-rw-r----- root/root"),
        ("/etc/logrotate.d/weir", "-rw-r--r-- root/root"),
        ("/usr/share/man/man1/weir.1.gz", "-rw-r--r-- root/root"),
        ("/usr/share/man/man1/weir-run.1.gz", "-rw-r--r-- root/root"),
        ("/usr/share/bash-completion/completions/weir", "-rw-r--r-- root/root"),
        ("/usr/share/zsh/vendor-completions/_weir", "-rw-r--r-- root/root"),
        ("/usr/share/fish/vendor_completions.d/weir.fish", "-rw-r--r-- root/root"),
        ("/usr/share/doc/weir/copyright", "-rw-r--r-- root/root"),
        ("/usr/share/doc/weir/changelog.gz", "-rw-r--r-- root/root"),
        ("/usr/share/doc/weir/third-party-licenses.gz", "-rw-r--r-- root/root"),
        ("/usr/share/doc/weir/examples/low-ports.conf", "-rw-r--r-- root/root"),
        ("/usr/share/doc/weir/examples/transparent.conf", "-rw-r--r-- root/root"),
    ] {
        assert_eq!(found.get(path).map(String::as_str), Some(wanted), "{path}");
    }
    let is_odd = |mode: &str| !mode.ends_with("root/root") || mode[4..].contains('w') && &mode[5..6] == "w";
    let odd: Vec<_> = found.iter().filter(|(_, mode)| is_odd(mode)).collect();
    assert!(odd.is_empty(), "{odd:?}");
}

#[test]
fn deb_describes_itself_and_its_conffiles() {
    let deb = package(".deb");
    assert_eq!((field(&deb, "Package"), field(&deb, "Version")), ("weir".to_owned(), VERSION.to_owned()));
    assert_eq!(field(&deb, "Architecture"), run("dpkg", &[&"--print-architecture"]).trim());
    let control = folder("control");
    run("dpkg-deb", &[&"-e", &deb, &control]);
    let configs = fs::read_to_string(control.join("conffiles")).unwrap();
    assert_eq!(configs, "/etc/logrotate.d/weir\n/etc/weir/weir.env\n/etc/weir/weir.yaml\n");
    for script in ["preinst", "postinst", "prerm", "postrm"] {
        let path = control.join(script);
        let text = fs::read_to_string(&path).unwrap();
        assert!(text.starts_with("#!/bin/sh\n") && !text.contains("@DEB_"), "{script}: {text}");
        run("sh", &[&"-n", &path]);
    }
}

#[test]
fn deb_sums_and_size_match_its_files() {
    let deb = package(".deb");
    let root = folder("deb-root");
    run("dpkg-deb", &[&"-x", &deb, &root]);
    let control = folder("deb-control");
    run("dpkg-deb", &[&"-e", &deb, &control]);
    output(Command::new("md5sum").arg("--check").arg(control.join("md5sums")).current_dir(&root));
    let kilobytes: u64 = field(&deb, "Installed-Size").parse().unwrap();
    let on_disk = run("du", &[&"-sk", &"--apparent-size", &root]);
    let on_disk: u64 = on_disk.split_whitespace().next().unwrap().parse().unwrap();
    assert!(kilobytes.abs_diff(on_disk) < 300, "{kilobytes} KiB stated, {on_disk} KiB unpacked");
    let printed = run(root.join("usr/bin/weir").to_str().unwrap(), &[&"version"]);
    assert!(printed.contains(VERSION), "{printed}");
}

#[test]
fn shipped_settings_pass_the_check() {
    let root = folder("deb-settings");
    run("dpkg-deb", &[&"-x", &package(".deb"), &root]);
    let program = root.join("usr/bin/weir");
    for file in ["etc/weir/weir.yaml", "usr/share/doc/weir/examples/weir.yaml"] {
        let printed = run(program.to_str().unwrap(), &[&"check", &root.join(file)]);
        assert!(printed.trim_end().ends_with("ok"), "{file}: {printed}");
    }
}

#[test]
fn deb_depends_on_the_libraries_of_its_program() {
    let check = |program: &Path, name: &str, wanted: &str| {
        let out = folder(name);
        output(build(program, &out).args(["--only", "deb"]));
        let depends = field(&only(&out, ".deb"), "Depends");
        assert!(depends.starts_with(wanted), "{name}: {depends}");
        depends
    };
    assert_eq!(check(stand_in(), "static", "passwd"), "passwd");
    check(dynamic_stand_in(), "dynamic", "passwd, libc6 (>= 2.");
}

#[test]
fn pre_release_sorts_before_its_release() {
    let out = folder("pre-release");
    output(build(stand_in(), &out).args(["--only", "deb,rpm", "--version", "1.0.0-rc.1"]));
    let deb = only(&out, "weir_1.0.0~rc.1_amd64.deb");
    run("dpkg", &[&"--compare-versions", &field(&deb, "Version"), &"lt", &"1.0.0"]);
    let rpm = only(&out, "weir-1.0.0~rc.1-1.x86_64.rpm");
    assert_eq!(run("rpm", &[&"-qp", &"--qf", &"%{VERSION}", &rpm]), "1.0.0~rc.1");
}
