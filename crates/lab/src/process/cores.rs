//! Cores of the machine: which ones this process may use, pinning, and their load. It does not assign them.

use std::fs;

use anyhow::Context;
use rustix::thread::CpuSet;

/// The cores that this process may run on, in ascending order.
pub fn usable() -> Vec<usize> {
    match rustix::thread::sched_getaffinity(None) {
        Ok(set) => (0..CpuSet::MAX_CPU).filter(|&core| set.is_set(core)).collect(),
        Err(_) => vec![0],
    }
}

/// Pins the calling thread, and what it starts from now on, to these cores.
pub fn pin(cores: &[usize]) -> anyhow::Result<()> {
    let mut set = CpuSet::new();
    for &core in cores.iter().filter(|&&core| core < CpuSet::MAX_CPU) {
        set.set(core);
    }
    rustix::thread::sched_setaffinity(None, &set)
        .with_context(|| format!("cores {cores:?} cannot be pinned to; --no-pin goes without"))
}

/// Time that cores have spent since the machine started, in clock ticks, added up over the cores.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Ticks {
    /// Not idle; interrupts and time taken by the hypervisor included.
    pub busy: u64,
    /// Taken by the hypervisor for other machines.
    pub stolen: u64,
    /// All ticks.
    pub all: u64,
}

impl Ticks {
    /// The ticks of these cores, as the kernel reports now.
    pub fn read(cores: &[usize]) -> Self {
        // `/proc/stat` exists on every Linux; without it the busy share is reported as zero.
        Self::parse(&fs::read_to_string("/proc/stat").unwrap_or_default(), cores)
    }

    fn parse(text: &str, cores: &[usize]) -> Self {
        let mut sum = Self::default();
        for line in text.lines() {
            let mut words = line.split_ascii_whitespace();
            let core =
                words.next().and_then(|name| name.strip_prefix("cpu")).and_then(|core| core.parse().ok());
            if !core.is_some_and(|core: usize| cores.contains(&core)) {
                continue;
            }
            // user, nice, system, idle, iowait, irq, softirq, steal (proc(5)); guests are in user already.
            let numbers: Vec<u64> = words.take(8).map(|word| word.parse().unwrap_or(0)).collect();
            let at = |index: usize| numbers.get(index).copied().unwrap_or(0);
            let all: u64 = numbers.iter().sum();
            sum.all += all;
            sum.busy += all - at(3) - at(4);
            sum.stolen += at(7);
        }
        sum
    }

    /// The ticks between an earlier reading and this one.
    #[must_use]
    pub fn since(self, earlier: Self) -> Self {
        Self {
            busy: self.busy.saturating_sub(earlier.busy),
            stolen: self.stolen.saturating_sub(earlier.stolen),
            all: self.all.saturating_sub(earlier.all),
        }
    }

    /// The busy share, in percent.
    pub fn busy_percent(self) -> f64 {
        100.0 * self.busy as f64 / self.all.max(1) as f64
    }

    /// The share that the hypervisor took, in percent.
    pub fn stolen_percent(self) -> f64 {
        100.0 * self.stolen as f64 / self.all.max(1) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_of_the_cores_asked_for() {
        let text = "cpu  9 9 9 9 9 9 9 9 0 0\ncpu0 10 0 5 80 5 1 2 7 3 0\ncpu1 1 0 1 98 0 0 0 0 0 0\ncpu10 5 5 5 5 5 5 5 5\nintr 1\n";
        let one = Ticks::parse(text, &[0]);
        assert_eq!(one, Ticks { busy: 25, stolen: 7, all: 110 });
        let both = Ticks::parse(text, &[0, 1]);
        assert_eq!(both, Ticks { busy: 27, stolen: 7, all: 210 });
        assert_eq!(both.since(one), Ticks { busy: 2, stolen: 0, all: 100 });
        assert!((both.since(one).busy_percent() - 2.0).abs() < 1e-9);
    }

    #[test]
    fn this_machine_has_cores_that_tick() {
        let cores = usable();
        assert!(!cores.is_empty() && Ticks::read(&cores).all > 0);
    }
}
