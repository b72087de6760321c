//! A small Debian with systemd, booted for one test: `lab/install.sh test` makes it, systemd-nspawn boots it
//! with an overlay in memory on top, and nothing of it is left when its value is dropped or the test process
//! ends.
//!
//! It has a network of its own with a loopback only, so that tests use the default ports of the package side
//! by side.

use std::fs::{self, File};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use testkit::{wait_for, wait_until};

use crate::host;

/// A booted root.
#[derive(Debug)]
pub(crate) struct CleanRoot {
    supervisor: Child,
    /// The first process of the root, by its number on this machine.
    leader: u32,
    cgroup: String,
}

/// A command that has ended in the root.
#[derive(Clone, Debug)]
pub(crate) struct Ran {
    pub(crate) code: i32,
    /// Standard output and standard error.
    pub(crate) text: String,
}

/// Boots a root from a copy-on-write layer; the shell moves itself into a cgroup of its own first, because
/// the systemd of the root takes over the cgroup that it finds itself in. `$1` is the Debian, `$2` a folder
/// for mounts, `$3` the cgroup.
const BOOT: &str = r#"
for hierarchy in /sys/fs/cgroup/systemd /sys/fs/cgroup/unified /sys/fs/cgroup; do
    [ -w "$hierarchy/cgroup.procs" ] || continue
    mkdir -p "$hierarchy/$3" && echo 0 >"$hierarchy/$3/cgroup.procs"
done
mount -t tmpfs -o mode=0755 weir-test "$2" && mkdir "$2/up" "$2/work" "$2/root" || exit 1
mount -t overlay -o "lowerdir=$1,upperdir=$2/up,workdir=$2/work" weir-test "$2/root" || exit 1
systemd-nspawn --quiet --directory="$2/root" --register=no --keep-unit --private-network --hostname=clean-root \
    --resolv-conf=off --timezone=off --link-journal=no --console=pipe --boot
"#;

/// Seconds that a command may take in the root; an installation takes about three, and twenty on a busy
/// machine.
const COMMAND_LIMIT_S: &str = "120";

/// How long the kernel may take to end all processes of a root, and how often that is looked at.
const END_LIMIT: Duration = Duration::from_secs(10);
const END_POLL: Duration = Duration::from_millis(5);

/// Numbers for the roots of this process.
static NUMBER: AtomicU32 = AtomicU32::new(0);

impl CleanRoot {
    /// Boots a root. None where this machine cannot; the reason is printed.
    pub(crate) fn boot() -> Option<CleanRoot> {
        let debian = host::target().join("test-root/debian");
        if let Some(reason) = reason_against(&debian) {
            println!("skipped, because {reason}");
            return None;
        }
        let mounts = host::target().join("test-root/mounts");
        fs::create_dir_all(&mounts).unwrap();
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let cgroup = format!("weir-test-{}-{number}", std::process::id());
        let log = host::target().join(format!("test-root/boot-{number}.log"));
        let output = File::create(&log).unwrap();
        // The kernel kills `unshare` with the thread that started it, `unshare` its child, and that child, as
        // the first process of a namespace of processes, everything inside.
        let supervisor = Command::new("setpriv")
            .args([
                "--pdeathsig",
                "KILL",
                "unshare",
                "--mount",
                "--propagation",
                "private",
                "--pid",
                "--fork",
            ])
            .args(["--kill-child=KILL", "--mount-proc", "sh", "-c", BOOT, "boot"])
            .args([&debian, &mounts])
            .arg(&cgroup)
            .stdin(Stdio::null())
            .stdout(output.try_clone().unwrap())
            .stderr(output)
            .spawn()
            .unwrap();
        let mut root = CleanRoot { supervisor, leader: 0, cgroup };
        root.leader = wait_for("systemd runs in the root", || {
            let ended = root.supervisor.try_wait().unwrap();
            assert!(ended.is_none(), "{ended:?}: {}", fs::read_to_string(&log).unwrap());
            first_process_below(root.supervisor.id())
        });
        wait_until("the root has booted", || {
            let state = root.run("systemctl is-system-running").text;
            // Degraded: a unit of Debian itself has no use for a container.
            ["running", "degraded"].contains(&state.trim())
        });
        Some(root)
    }

    /// Runs a shell script as root of the root.
    pub(crate) fn run(&self, script: &str) -> Ran {
        let leader = self.leader.to_string();
        let output = Command::new("timeout")
            .args(["--kill-after=5", COMMAND_LIMIT_S, "nsenter", "--target", &leader])
            .args(["--mount", "--uts", "--ipc", "--net", "--pid", "--root", "--wd", "env", "-i"])
            .args([
                "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
                "HOME=/root",
                "LC_ALL=C",
            ])
            .args(["DEBIAN_FRONTEND=noninteractive", "SYSTEMD_PAGER=", "sh", "-c", &format!("{script}\n")])
            .stdin(Stdio::null())
            .output()
            .unwrap();
        Ran::of(&output)
    }

    /// As [`CleanRoot::run`]; panics unless the script ends with 0. Returns its output.
    pub(crate) fn must(&self, script: &str) -> String {
        let ran = self.run(script);
        assert_eq!(ran.code, 0, "{script}\n{}", ran.text);
        ran.text
    }

    /// A file or folder of the root, by its path on this machine.
    pub(crate) fn path(&self, inside: &str) -> PathBuf {
        PathBuf::from(format!("/proc/{}/root{inside}", self.leader))
    }

    /// Copies a file of this machine into the folder `/root`; returns its path there.
    pub(crate) fn take(&self, file: &Path) -> String {
        let inside = format!("/root/{}", file.file_name().unwrap().to_str().unwrap());
        fs::copy(file, self.path(&inside)).unwrap();
        inside
    }

    /// Does `work` in the network of the root, on a thread of its own; threads that it starts are in that
    /// network too.
    pub(crate) fn in_network<T: Send>(&self, work: impl FnOnce() -> T + Send) -> T {
        let network = File::open(self.network()).unwrap();
        let entered = || {
            move_into_link_name_space(network.as_fd(), Some(LinkNameSpaceType::Network)).unwrap();
            work()
        };
        thread::scope(|scope| {
            scope.spawn(entered).join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })
    }

    /// The network of the root, for `nsenter --net`.
    pub(crate) fn network(&self) -> String {
        format!("/proc/{}/ns/net", self.leader)
    }
}

impl Drop for CleanRoot {
    fn drop(&mut self) {
        // Both calls fail only if it has ended already.
        let _ = self.supervisor.kill();
        let _ = self.supervisor.wait();
        // Without a panic, because a test that fails comes here while it unwinds.
        let (leader, limit) = (format!("/proc/{}", self.leader), Instant::now() + END_LIMIT);
        while self.leader != 0 && Path::new(&leader).exists() && Instant::now() < limit {
            thread::sleep(END_POLL);
        }
        for hierarchy in ["/sys/fs/cgroup/systemd", "/sys/fs/cgroup/unified", "/sys/fs/cgroup"] {
            let folder = format!("{hierarchy}/{}", self.cgroup);
            // It is empty now. One that is left costs nothing.
            let _ = Command::new("find").args([&folder, "-depth", "-type", "d", "-delete"]).output();
        }
    }
}

impl Ran {
    fn of(output: &Output) -> Ran {
        let text = [&output.stdout[..], &output.stderr].concat();
        Ran { code: output.status.code().unwrap_or(-1), text: String::from_utf8_lossy(&text).into_owned() }
    }
}

/// Why this machine cannot boot a root; none if it can.
fn reason_against(debian: &Path) -> Option<String> {
    if !rustix::process::geteuid().is_root() {
        return Some("only root can boot a root".to_owned());
    }
    if !debian.join("usr/lib/systemd/systemd").exists() {
        return Some(format!("{} is not there; `lab/install.sh test` makes it", debian.display()));
    }
    let probe = "mount -t tmpfs weir-test /mnt && command -v systemd-nspawn";
    let arguments =
        ["--mount", "--propagation", "private", "--pid", "--fork", "--mount-proc", "sh", "-c", probe];
    let probed = Command::new("unshare").args(arguments).output();
    match probed.map(|output| Ran::of(&output)) {
        Ok(ran) if ran.code == 0 => None,
        Ok(ran) => Some(format!("namespaces or systemd-nspawn are missing: {}", ran.text.trim())),
        Err(error) => Some(format!("`unshare` cannot be run: {error}")),
    }
}

/// The first process of the innermost namespace of processes below `ancestor`, once it is systemd.
fn first_process_below(ancestor: u32) -> Option<u32> {
    let entries = fs::read_dir("/proc").ok()?.flatten();
    let processes = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    processes.into_iter().find(|process| {
        let Ok(status) = fs::read_to_string(format!("/proc/{process}/status")) else { return false };
        let field = |name: &str| status.lines().find_map(|line| line.strip_prefix(name)).unwrap_or("").trim();
        // Its numbers on this machine, in the namespace of `unshare` and in its own.
        let numbers: Vec<&str> = field("NSpid:").split_ascii_whitespace().collect();
        field("Name:") == "systemd"
            && numbers.len() >= 3
            && numbers.last() == Some(&"1")
            && is_below(*process, ancestor)
    })
}

/// Whether `ancestor` is the parent of a process, or of one of its parents.
fn is_below(process: u32, ancestor: u32) -> bool {
    let parent = |process: u32| {
        let status = fs::read_to_string(format!("/proc/{process}/status")).ok()?;
        status.lines().find_map(|line| line.strip_prefix("PPid:"))?.trim().parse::<u32>().ok()
    };
    std::iter::successors(Some(process), |process| parent(*process)).any(|process| process == ancestor)
}
