//! The CPU accounting, compared with another measurement: the kernel's figure for a control group where one
//! can be made, otherwise the program's own figure.

use std::fs;
use std::path::{Path, PathBuf};

use lab::process::{ProcessGroup, Start};

/// Burns a second of CPU time, one half in a child that it waits for; prints the CPU time of both, and stays.
/// The wall-clock time does not matter.
const BURNER: &str = r#"
import os, resource, sys, time
def burn(seconds):
    until = time.process_time() + seconds
    while time.process_time() < until:
        os.getppid()
if os.fork() == 0:
    burn(0.5)
    os._exit(0)
os.wait()
burn(0.5)
usage = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
print(sum(one.ru_utime + one.ru_stime for one in usage), flush=True)
time.sleep(600)
"#;

/// Largest difference of the laboratory's figure, in percent.
const TOLERANCE_PERCENT: f64 = 3.0;

#[test]
fn cpu_agrees_with_another_measurement() {
    let folder = tempfile::tempdir().unwrap();
    let control = ControlGroup::make();
    let enter = control
        .as_ref()
        .map_or(String::new(), |group| format!("echo $$ > {}/cgroup.procs; ", group.0.display()));
    let script = folder.path().join("burner.py");
    fs::write(&script, BURNER).unwrap();
    let command = ["bash", "-c", &format!("{enter}exec python3 {}", script.display())].map(ToOwned::to_owned);
    let group = start(folder.path(), &command);
    let printed: f64 = testkit::wait_for("it has burnt", || {
        group.check_running().unwrap();
        group.output().trim().parse().ok()
    });
    let ours = group.tree().cpu().seconds();
    let (theirs, whose) = match &control {
        Some(control) => (control.cpu_seconds(), "the control group"),
        None => (printed, "the program"),
    };
    let difference = 100.0 * (ours - theirs).abs() / theirs;
    assert!(difference < TOLERANCE_PERCENT, "{ours} s, {whose} says {theirs} s: {difference:.1} %");
    let (memory, switches) = (group.tree().memory(), group.tree().switches());
    assert!(memory.pss_bytes > 0 && memory.pss_bytes <= memory.rss_bytes);
    assert!(switches.voluntary > 0, "it waited for its child");
    group.stop();
}

#[test]
fn orphans_are_accounted_and_ended() {
    let folder = tempfile::tempdir().unwrap();
    let command = ["bash", "-c", "(setsid sleep 601 &) ; exec sleep 602"].map(ToOwned::to_owned);
    let group = start(folder.path(), &command);
    let tree = group.tree();
    let pids = testkit::wait_for("both run", || {
        Some(tree.pids()).filter(|pids| pids.len() == 2 && pids.iter().all(|&pid| is_sleep(pid)))
    });
    group.stop();
    for pid in pids {
        assert!(!Path::new(&format!("/proc/{pid}")).exists(), "{pid} is left");
    }
}

#[test]
fn stopped_process_resumes_and_learns_of_the_end() {
    let folder = tempfile::tempdir().unwrap();
    let script = "trap 'echo heard; exit 0' TERM; echo begun; while :; do echo .; sleep 0.001; done";
    let command = ["bash", "-c", script].map(ToOwned::to_owned);
    let mut group = start(folder.path(), &command);
    testkit::wait_until("it runs", || group.output().len() > 10);
    group.hold();
    let state =
        |pid: i32| fs::read_to_string(format!("/proc/{pid}/stat")).map_or('?', |stat| state_of(&stat));
    let pid = group.tree().pids()[0];
    testkit::wait_until("it stands still", || state(pid) == 'T');
    let before = group.output().len();
    group.go_on();
    testkit::wait_until("it goes on", || group.output().len() > before);
    group.hold();
    testkit::wait_until("it stands still", || state(pid) == 'T');
    group.stop();
    let output = fs::read_to_string(folder.path().join("it.out")).unwrap();
    assert!(
        output.ends_with("heard\n"),
        "it was ended by force: {}",
        &output[output.len().saturating_sub(20)..]
    );
}

/// The state in `/proc/PID/stat`: R, S, T and so on, after the name in parentheses.
fn state_of(stat: &str) -> char {
    stat.rsplit_once(')').and_then(|(_, rest)| rest.trim_start().chars().next()).unwrap_or('?')
}

#[test]
fn ended_program_reports_code_cpu_and_output() {
    let folder = tempfile::tempdir().unwrap();
    let command = ["bash", "-c", "echo gone wrong >&2; exit 7"].map(ToOwned::to_owned);
    let mut group = start(folder.path(), &command);
    testkit::wait_until("it ended", || !group.is_running());
    assert!(group.check_running().unwrap_err().to_string().contains("it ended: gone wrong"));
    assert_eq!(group.ended().unwrap().unwrap().code, 7);
    let missing = ["/no/such/program".to_owned()];
    let mut group = start(folder.path(), &missing);
    let ended = testkit::wait_for("it ended", || group.ended().unwrap());
    assert_eq!(ended.code, 127);
    assert!(group.last_lines().contains("cannot start /no/such/program"), "{}", group.last_lines());
}

fn start(folder: &Path, command: &[String]) -> ProcessGroup {
    let guard = Path::new(env!("CARGO_BIN_EXE_weir"));
    let start = Start { guard, name: "it", command, environment: &[], cores: &[], directory: folder };
    ProcessGroup::start(&start).unwrap()
}

fn is_sleep(pid: i32) -> bool {
    fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|name| name.trim() == "sleep")
}

/// A control group of this test (cgroup v2), where this machine allows one.
struct ControlGroup(PathBuf);

impl ControlGroup {
    fn make() -> Option<Self> {
        ["/sys/fs/cgroup", "/sys/fs/cgroup/unified"].iter().find_map(|root| {
            let folder = Path::new(root).join(format!("weir-lab-test-{}", std::process::id()));
            if !Path::new(root).join("cgroup.procs").exists() {
                return None;
            }
            fs::create_dir(&folder).ok()?;
            let group = Self(folder);
            group.read().map(|_| group)
        })
    }

    fn cpu_seconds(&self) -> f64 {
        self.read().unwrap()
    }

    fn read(&self) -> Option<f64> {
        let text = fs::read_to_string(self.0.join("cpu.stat")).ok()?;
        let line = text.lines().find_map(|line| line.strip_prefix("usage_usec "))?;
        Some(line.parse::<f64>().ok()? / 1e6)
    }
}

impl Drop for ControlGroup {
    fn drop(&mut self) {
        // The kernel removes it after its last process has ended.
        let _ = fs::remove_dir(&self.0);
    }
}
