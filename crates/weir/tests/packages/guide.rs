//! Runs the commands of `docs/guide/install.md`, in the order of the page and in one shell for each root: on
//! a small Debian with the package, and on another one for the tar ball. Blocks with `not-run` need programs
//! that Debian's root lacks.

use std::fs;
use std::process::Command;

use crate::clean_root::CleanRoot;
use crate::pack::{build, folder, output, package, packages, program, repository};

/// The version that the page upgrades to.
const NEXT_VERSION: &str = "0.3.0";
/// The section that runs in a root without the package.
const BY_HAND: &str = "Any Linux";
/// Blocks that are not run, by their first word, and the reason.
const NOT_RUN: &[(&str, &str)] = &[
    ("dnf", "Debian has no dnf; redhat.rs installs the package by rpm"),
    ("podman", "no container engine is taken for given; container.rs runs the image by crun"),
    ("make", "the build takes ten minutes; packages of these tests are built by the same script"),
];

/// A command and the output that the page shows.
struct Step {
    section: String,
    command: String,
    shown: String,
}

/// The commands of the page. Panics at a block that is neither run nor listed.
fn steps() -> Vec<Step> {
    let text = fs::read_to_string(repository().join("docs/guide/install.md")).unwrap();
    let (mut section, mut steps, mut fence) = (String::new(), Vec::<Step>::new(), None::<String>);
    for line in text.lines() {
        match (fence.clone().as_deref(), line) {
            (None, line) if line.starts_with("## ") => section = line[3..].to_owned(),
            (None, line) if line.starts_with("```") => fence = Some(line[3..].to_owned()),
            (Some(_), "```") => fence = None,
            (Some("console"), line) => match line.strip_prefix("$ ") {
                Some(command) => {
                    let (section, command) = (section.clone(), command.to_owned());
                    steps.push(Step { section, command, shown: String::new() });
                }
                None => continued(steps.last_mut().unwrap(), line),
            },
            (Some("console not-run"), line) => {
                let word = line.trim_start_matches("$ ").split(' ').next().unwrap();
                let follows = ["systemctl", "skopeo", "docker"];
                assert!(follows.contains(&word) || NOT_RUN.iter().any(|(first, _)| *first == word), "{line}");
            }
            (Some(kind), _) => panic!("a block of {kind} in install.md is not run"),
            _ => {}
        }
    }
    steps
}

/// Adds a line to a command that ends with a backslash, otherwise to its output.
fn continued(step: &mut Step, line: &str) {
    let part = if step.command.ends_with('\\') { &mut step.command } else { &mut step.shown };
    if !part.is_empty() {
        part.push('\n');
    }
    part.push_str(line);
}

/// Runs commands in one shell of a root, and compares what they print with the page where the page shows
/// something.
fn run_all(root: &CleanRoot, steps: &[Step]) {
    // Output goes to files, because a program in the background would keep a pipe open.
    let mut script = "cd /root\n".to_owned();
    for (index, step) in steps.iter().enumerate() {
        script +=
            &format!("{{ {}\n}} >/root/told-{index} 2>&1\necho $? >/root/status-{index}\n", step.command);
    }
    fs::write(root.path("/root/script"), script).unwrap();
    root.must("bash /root/script </dev/null >/dev/null 2>&1");
    for (index, step) in steps.iter().enumerate() {
        let read = |name: &str| fs::read_to_string(root.path(&format!("/root/{name}-{index}"))).unwrap();
        let (printed, status) = (read("told"), read("status"));
        let fails = step.shown.contains("cannot access");
        assert_eq!(status.trim() == "0", !fails, "{}: status {status}{printed}", step.command);
        if !step.shown.is_empty() {
            assert_eq!(printed.trim_end(), step.shown, "{}", step.command);
        }
    }
}

#[test]
fn install_page_runs_on_a_debian() {
    let Some(root) = CleanRoot::boot() else { return };
    let next = folder("next");
    output(build(&program(), &next).args(["--only", "deb", "--version", NEXT_VERSION]));
    root.take(&package(".deb"));
    root.take(&next.join(format!("weir_{NEXT_VERSION}_amd64.deb")));
    root.take(&packages().join("SHA256SUMS"));
    let steps: Vec<Step> = steps().into_iter().filter(|step| step.section != BY_HAND).collect();
    assert!(steps.len() > 20, "{} commands", steps.len());
    run_all(&root, &steps);
}

#[test]
fn install_page_runs_by_hand_from_the_tar_ball() {
    let Some(root) = CleanRoot::boot() else { return };
    root.take(&package(".tar.gz"));
    let steps: Vec<Step> = steps().into_iter().filter(|step| step.section == BY_HAND).collect();
    assert!(steps.len() > 10, "{} commands", steps.len());
    run_all(&root, &steps);
}

#[test]
fn install_page_names_the_files_that_are_built() {
    let text = fs::read_to_string(repository().join("docs/guide/install.md")).unwrap();
    let listed = output(Command::new("ls").arg(packages()));
    for name in listed.lines() {
        assert!(text.contains(&format!("| `{name}` |")), "{name}");
    }
}
