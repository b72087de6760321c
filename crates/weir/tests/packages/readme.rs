//! The README alone leads from the package to an answered request within a minute, on a small Debian with
//! systemd. The rest of its tour is run by the test `guides`.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::time::{Duration, Instant};

use crate::clean_root::CleanRoot;
use crate::output::is_shown;
use crate::pack::{package, repository};
use crate::page::{Block, Step, blocks};

/// From the package to an answered request.
const REQUEST_LIMIT: Duration = Duration::from_secs(60);

/// The commands from the installation to the first request through the gateway, without those that build from
/// source.
fn steps() -> Vec<Step> {
    let text = fs::read_to_string(repository().join("README.md")).unwrap();
    let blocks = blocks("README.md", &text);
    let packaged = blocks
        .iter()
        .map(Block::steps)
        .filter(|steps| !steps.iter().any(|step| step.command.starts_with("make ")));
    let steps: Vec<Step> = packaged.take(3).flatten().collect();
    let (first, last) = (&steps[0].command, &steps[steps.len() - 1].command);
    assert!(first.starts_with("sudo apt install ./weir_"), "{first}");
    assert!(last.contains("$proxy/hello"), "{last}");
    steps
}

#[test]
fn readme_alone_leads_to_a_request_in_a_minute() {
    let Some(root) = CleanRoot::boot() else { return };
    root.take(&package(".deb"));
    // The root has one user, with all rights.
    let sudo = root.path("/usr/local/bin/sudo");
    fs::write(&sudo, "#!/bin/sh\nexec \"$@\"\n").unwrap();
    fs::set_permissions(&sudo, fs::Permissions::from_mode(0o755)).unwrap();
    let steps = steps();
    // Output goes to files, because a program in the background would keep a pipe open.
    let mut script = "cd /root\n".to_owned();
    for (index, step) in steps.iter().enumerate() {
        script += &format!("{{ {}\n}} >/root/told-{index} 2>/root/faults-{index}\n", step.command);
    }
    fs::write(root.path("/root/script"), script).unwrap();
    let begin = Instant::now();
    root.must("bash /root/script </dev/null >/dev/null 2>&1");
    let took = begin.elapsed();
    for (index, step) in steps.iter().enumerate() {
        let read = |name: &str| fs::read_to_string(root.path(&format!("/root/{name}-{index}"))).unwrap();
        if let Some(shown) = step.output.as_deref().filter(|shown| !shown.is_empty()) {
            let output = read("told");
            assert!(is_shown(shown, &output), "{}: {}\n{output}{}", step.place, step.command, read("faults"));
        }
    }
    println!("the first answer came after {took:.1?}");
    assert!(took < REQUEST_LIMIT, "{took:?}");
}
