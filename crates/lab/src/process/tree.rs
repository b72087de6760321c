//! CPU, context switches and memory of a program and all its descendants, read from `/proc`. It starts and
//! ends nothing.

use std::collections::HashMap;
use std::fs;

/// CPU time in seconds. The sum is exact to a clock tick for each process; the kernel samples its split into
/// user and system.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Cpu {
    /// In user space.
    pub user_seconds: f64,
    /// In the kernel.
    pub system_seconds: f64,
}

impl Cpu {
    /// The sum of both.
    pub fn seconds(self) -> f64 {
        self.user_seconds + self.system_seconds
    }

    /// The CPU time between an earlier reading and this one.
    #[must_use]
    pub fn since(self, earlier: Self) -> Self {
        Self {
            user_seconds: (self.user_seconds - earlier.user_seconds).max(0.0),
            system_seconds: (self.system_seconds - earlier.system_seconds).max(0.0),
        }
    }
}

/// Context switches of threads that exist now.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Switches {
    /// Switches because the thread waited.
    pub voluntary: u64,
    /// Switches because another thread was scheduled.
    pub involuntary: u64,
}

/// Memory in bytes.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Memory {
    /// A page shared by n processes counts as 1/n for each.
    pub pss_bytes: u64,
    /// Resident pages, shared ones counted in full for each.
    pub rss_bytes: u64,
}

/// The processes below a guard. The guard itself is not counted, but the processes that it waited for are:
/// dead children of the program for which no other process waited.
#[derive(Clone, Copy, Debug)]
pub struct ProcessTree {
    guard: i32,
}

impl ProcessTree {
    /// The tree below the process with this number.
    pub fn beneath(guard: i32) -> Self {
        Self { guard }
    }

    /// CPU of all of them since their start, dead ones included.
    pub fn cpu(self) -> Cpu {
        let waited = Stat::of(self.guard).map_or((0, 0), |stat| (stat.children_user, stat.children_system));
        let (mut user, mut system) = waited;
        for stat in self.pids().into_iter().filter_map(Stat::of) {
            user += stat.user + stat.children_user;
            system += stat.system + stat.children_system;
        }
        let ticks = rustix::param::clock_ticks_per_second() as f64;
        Cpu { user_seconds: user as f64 / ticks, system_seconds: system as f64 / ticks }
    }

    /// Context switches of all their threads.
    pub fn switches(self) -> Switches {
        let mut sum = Switches::default();
        for pid in self.pids() {
            let Ok(threads) = fs::read_dir(format!("/proc/{pid}/task")) else { continue };
            for thread in threads.flatten() {
                let Ok(text) = fs::read_to_string(thread.path().join("status")) else { continue };
                sum.voluntary += number(&text, "voluntary_ctxt_switches:");
                sum.involuntary += number(&text, "nonvoluntary_ctxt_switches:");
            }
        }
        sum
    }

    /// Memory of all of them.
    pub fn memory(self) -> Memory {
        let mut sum = Memory::default();
        for pid in self.pids() {
            // A process that ended between the listing and the reading holds no memory.
            let Ok(text) = fs::read_to_string(format!("/proc/{pid}/smaps_rollup")) else { continue };
            sum.pss_bytes += number(&text, "Pss:") * 1024;
            sum.rss_bytes += number(&text, "Rss:") * 1024;
        }
        sum
    }

    /// The process ids.
    pub fn pids(self) -> Vec<i32> {
        descendants(self.guard)
    }
}

/// The number after this word at the beginning of a line; 0 if there is none.
fn number(text: &str, word: &str) -> u64 {
    let value = text.lines().find_map(|line| line.strip_prefix(word));
    value.and_then(|value| value.split_ascii_whitespace().next()?.parse().ok()).unwrap_or(0)
}

/// All processes below this one, without itself.
pub(super) fn descendants(root: i32) -> Vec<i32> {
    let mut children: HashMap<i32, Vec<i32>> = HashMap::new();
    for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
        if let Some(stat) = Stat::of(pid) {
            children.entry(stat.parent).or_default().push(pid);
        }
    }
    let (mut found, mut queue) = (Vec::new(), vec![root]);
    while let Some(pid) = queue.pop() {
        let below = children.remove(&pid).unwrap_or_default();
        found.extend(&below);
        queue.extend(below);
    }
    found
}

/// Fields of `/proc/PID/stat` (proc(5)), times in clock ticks.
#[derive(Debug, PartialEq)]
struct Stat {
    parent: i32,
    user: u64,
    system: u64,
    children_user: u64,
    children_system: u64,
}

impl Stat {
    fn of(pid: i32) -> Option<Self> {
        Self::parse(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
    }

    fn parse(text: &str) -> Option<Self> {
        // The program's name, in parentheses, may contain blanks and parentheses.
        let fields: Vec<&str> = text.rsplit_once(')')?.1.split_ascii_whitespace().collect();
        let at = |index: usize| fields.get(index)?.parse().ok();
        Some(Self {
            parent: fields.get(1)?.parse().ok()?,
            user: at(11)?,
            system: at(12)?,
            children_user: at(13)?,
            children_system: at(14)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stat_lines() {
        let text = "7 (a) b (c)) S 3 7 7 0 -1 4194560 1 2 3 4 11 12 13 14 20 0 1 0 5";
        let wanted = Stat { parent: 3, user: 11, system: 12, children_user: 13, children_system: 14 };
        assert_eq!(Stat::parse(text), Some(wanted));
        assert_eq!(Stat::parse("7 (a) S 3"), None);
        assert_eq!(Stat::parse(""), None);
    }

    #[test]
    fn numbers_of_lines() {
        let text = "Rss:   12 kB\nPss_Dirty: 3 kB\nPss:\t 7 kB\nnonvoluntary_ctxt_switches:\t5\nvoluntary_ctxt_switches:\t6\n";
        assert_eq!((number(text, "Pss:"), number(text, "Rss:")), (7, 12));
        assert_eq!(number(text, "voluntary_ctxt_switches:"), 6);
        assert_eq!(number(text, "none:"), 0);
    }
}
