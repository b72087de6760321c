//! Forms of a [`RunReport`](crate::result::RunReport): medians, ratios, verdicts, tables and pages. It
//! measures nothing and changes no measured number.

pub mod compare;
pub mod faults;
pub mod figure;
#[cfg(test)]
pub(crate) mod golden;
pub mod group;
pub mod headline;
pub mod html;
pub mod json;
mod libraries;
pub mod number;
#[cfg(test)]
mod pages;
#[cfg(test)]
pub(crate) mod sample;
pub mod statistics;
pub mod summary;
pub mod table;
pub mod terminal;
pub mod texts;

use crate::result::Machine;

/// A machine in one sentence.
pub fn machine_line(machine: &Machine) -> String {
    let cores = |cores: &[usize]| {
        let numbers: Vec<String> = cores.iter().map(usize::to_string).collect();
        if numbers.is_empty() { "not pinned".to_owned() } else { format!("on core {}", numbers.join(", ")) }
    };
    format!(
        "{}, {} cores, {} GB of memory, {}, kernel {}; gateway {}, load {}, origin {}",
        machine.cpu,
        machine.cores,
        number::format_number(machine.memory_bytes as f64 / 1e9),
        machine.system,
        machine.kernel,
        cores(&machine.gateway_cores),
        cores(&machine.load_cores),
        cores(&machine.origin_cores),
    )
}
