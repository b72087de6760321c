//! Chooses the cores of each program of a run, and finds conditions that disturb measurements. It pins no
//! process.

use std::collections::BTreeSet;
use std::fs;
use std::time::Duration;

use crate::process::cores::{self, Ticks};

/// Cores of a run; all empty if nothing is pinned.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Placement {
    /// Cores of the gateway.
    pub gateway: Vec<usize>,
    /// Cores of the load generator, and of the laboratory itself.
    pub load: Vec<usize>,
    /// Cores of the origin.
    pub origin: Vec<usize>,
}

impl Placement {
    /// Places a gateway with this many workers. The gateway's cores come first and are shared with no other
    /// program if there are enough; a core's twin (hyper-threading) stays empty if others are left.
    pub fn choose(usable: &[usize], workers: usize, twin_of: impl Fn(usize) -> Vec<usize>) -> Self {
        if usable.len() < 2 {
            return Self { gateway: usable.to_vec(), load: usable.to_vec(), origin: usable.to_vec() };
        }
        let gateway: Vec<usize> = usable.iter().copied().take(workers).collect();
        let twins: BTreeSet<usize> = gateway.iter().flat_map(|&core| twin_of(core)).collect();
        let others: Vec<usize> = usable.iter().copied().filter(|core| !gateway.contains(core)).collect();
        let apart: Vec<usize> = others.iter().copied().filter(|core| !twins.contains(core)).collect();
        let rest = match (apart.len(), others.len()) {
            (2.., _) => apart,
            (_, 1..) => others,
            // As many workers as cores: load and origin share their cores.
            _ => usable.to_vec(),
        };
        if rest.len() == 1 || rest.len() == usable.len() {
            return Self { gateway, load: rest.clone(), origin: rest };
        }
        // A load generator that checks every answer works harder than the origin.
        let (load, origin) = rest.split_at(rest.len().div_ceil(2));
        Self { gateway, load: load.to_vec(), origin: origin.to_vec() }
    }

    /// Places a run on these cores of this machine. They are passed in, because the laboratory pins itself
    /// and can use fewer afterwards.
    pub fn on(usable: &[usize], workers: u16) -> Self {
        Self::choose(usable, usize::from(workers), twins)
    }

    /// Warnings about the placement, in plain sentences.
    pub fn warnings(&self) -> Vec<String> {
        let mut warnings = Vec::new();
        if self.gateway.iter().any(|core| self.load.contains(core)) {
            warnings.push(format!(
                "The gateway shares its cores with the load generator: {} of them are too few for {} workers, so requests per second and latency say little; CPU per request still stands.",
                self.load.len(),
                self.gateway.len()
            ));
        } else if self.load == self.origin && !self.load.is_empty() {
            warnings.push(
                "Load generator and origin share a core: where the gateway's core is less than 95 % busy, they were the limit."
                    .to_owned(),
            );
        }
        warnings
    }
}

/// The other hardware threads of a core.
fn twins(core: usize) -> Vec<usize> {
    let path = format!("/sys/devices/system/cpu/cpu{core}/topology/thread_siblings_list");
    let list = fs::read_to_string(path).unwrap_or_default();
    parse_list(&list).into_iter().filter(|&other| other != core).collect()
}

/// A list of the kernel's: `0-2,5`.
fn parse_list(text: &str) -> Vec<usize> {
    let mut cores = Vec::new();
    for part in text.trim().split(',') {
        let (from, to) = part.split_once('-').unwrap_or((part, part));
        if let (Ok(from), Ok(to)) = (from.parse::<usize>(), to.parse::<usize>()) {
            cores.extend(from..=to);
        }
    }
    cores
}

/// How long the load of a machine is observed before anything is started.
const LOOK: Duration = Duration::from_millis(1000);
/// Other programs may use this share of a machine without a warning.
const BUSY_PERCENT: f64 = 5.0;
/// The hypervisor may take this share without a warning.
const STOLEN_PERCENT: f64 = 1.0;

/// Conditions that disturb measurements on this machine now, in plain sentences. Takes a second.
pub(crate) fn disturbances() -> Vec<String> {
    let all = cores::usable();
    let before = Ticks::read(&all);
    std::thread::sleep(LOOK);
    let ticks = Ticks::read(&all).since(before);
    let mut warnings = Vec::new();
    if ticks.busy_percent() > BUSY_PERCENT {
        warnings.push(format!(
            "Other programs take {:.0} % of this machine: requests per second and latency suffer from them, CPU per request less.",
            ticks.busy_percent()
        ));
    }
    if ticks.stolen_percent() > STOLEN_PERCENT {
        warnings.push(format!(
            "The hypervisor gives {:.0} % of the cores to other machines.",
            ticks.stolen_percent()
        ));
    }
    let governor =
        fs::read_to_string("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor").unwrap_or_default();
    if !matches!(governor.trim(), "" | "performance") {
        warnings.push(format!(
            "The cores' frequency is governed by `{}`: with `cpupower frequency-set -g performance` it stays the same.",
            governor.trim()
        ));
    }
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile).maximum;
    if let Some(limit) = limit.filter(|&limit| limit < WANTED_DESCRIPTORS) {
        warnings.push(format!(
            "A process may open {limit} files only: scenarios with many connections will show failures. `ulimit -Hn {WANTED_DESCRIPTORS}` as root raises it."
        ));
    }
    warnings
}

/// 10,000 idle connections, those of the load and as many to the origin.
const WANTED_DESCRIPTORS: u64 = 12_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gateways_have_cores_of_their_own() {
        let check = |usable: &[usize], workers, gateway: &[usize], load: &[usize], origin: &[usize]| {
            let wanted =
                Placement { gateway: gateway.to_vec(), load: load.to_vec(), origin: origin.to_vec() };
            assert_eq!(Placement::choose(usable, workers, |_| Vec::new()), wanted, "{usable:?} {workers}");
        };
        check(&[0], 1, &[0], &[0], &[0]);
        check(&[0, 1], 1, &[0], &[1], &[1]);
        check(&[0, 1], 2, &[0, 1], &[0, 1], &[0, 1]);
        check(&[2, 5, 7], 1, &[2], &[5], &[7]);
        check(&[0, 1, 2, 3, 4, 5, 6, 7], 2, &[0, 1], &[2, 3, 4], &[5, 6, 7]);
    }

    #[test]
    fn twins_stay_empty_while_cores_are_left() {
        let twin = |core: usize| vec![core ^ 1];
        let placed = Placement::choose(&[0, 1, 2, 3], 1, twin);
        assert_eq!((placed.gateway, placed.load, placed.origin), (vec![0], vec![2], vec![3]));
        let placed = Placement::choose(&[0, 1], 1, twin);
        assert_eq!((placed.gateway, placed.load), (vec![0], vec![1]));
    }

    #[test]
    fn poor_placements_are_reported() {
        let shared = Placement { gateway: vec![0, 1], load: vec![0, 1], origin: vec![0, 1] };
        assert!(shared.warnings()[0].contains("shares its cores"));
        let tight = Placement { gateway: vec![0], load: vec![1], origin: vec![1] };
        assert!(tight.warnings()[0].contains("share a core"));
        let wide = Placement { gateway: vec![0], load: vec![1], origin: vec![2] };
        assert_eq!(wide.warnings(), Vec::<String>::new());
    }

    #[test]
    fn lists_of_the_kernel() {
        assert_eq!(parse_list("0-2,5\n"), [0, 1, 2, 5]);
        assert_eq!(parse_list(""), Vec::<usize>::new());
    }
}
