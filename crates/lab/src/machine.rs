//! The machine that a figure depends on: kernel, processor, memory, system. It measures nothing.

use std::fs;

use crate::placement::Placement;
use crate::result::Machine;

/// Describes this machine: its usable cores, those of a run, and its warnings.
pub(crate) fn describe(cores: usize, placement: &Placement, warnings: Vec<String>) -> Machine {
    Machine {
        kernel: rustix::system::uname().release().to_string_lossy().into_owned(),
        cpu: value(&read("/proc/cpuinfo"), "model name", ':')
            .unwrap_or_else(|| std::env::consts::ARCH.to_owned()),
        cores,
        memory_bytes: memory_bytes(&read("/proc/meminfo")),
        system: value(&read("/etc/os-release"), "PRETTY_NAME", '=').unwrap_or_else(|| "Linux".to_owned()),
        gateway_cores: placement.gateway.clone(),
        load_cores: placement.load.clone(),
        origin_cores: placement.origin.clone(),
        warnings,
    }
}

fn read(path: &str) -> String {
    fs::read_to_string(path).unwrap_or_default()
}

/// The first value of this name, without quotation marks.
fn value(text: &str, name: &str, sign: char) -> Option<String> {
    text.lines().find_map(|line| {
        let (found, value) = line.split_once(sign)?;
        (found.trim() == name).then(|| value.trim().trim_matches('"').to_owned())
    })
}

fn memory_bytes(meminfo: &str) -> u64 {
    let text = value(meminfo, "MemTotal", ':').unwrap_or_default();
    text.split(' ').next().and_then(|number| number.parse::<u64>().ok()).unwrap_or(0) * 1024
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernel_values_are_parsed() {
        assert_eq!(value("a\t: b\nmodel name\t: Some CPU: 3\n", "model name", ':').unwrap(), "Some CPU: 3");
        assert_eq!(value("ID=x\nPRETTY_NAME=\"A B\"\n", "PRETTY_NAME", '=').unwrap(), "A B");
        assert_eq!(memory_bytes("MemTotal:       24689432 kB\n"), 24_689_432 * 1024);
        let machine = describe(4, &Placement::default(), Vec::new());
        assert!(machine.cores == 4 && machine.memory_bytes > 0 && !machine.kernel.is_empty());
    }
}
