//! The figures of a plugin, as text between processes and as rows of docs/reference/plugin-costs.md.

use std::fmt::{self, Display, Write};
use std::path::Path;
use std::str::FromStr;

use crate::run::{End, REQUESTS};

/// The cost of one request.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Measured {
    pub(crate) ns: f64,
    pub(crate) allocations: f64,
    /// Without valgrind there are none.
    pub(crate) instructions: Option<u64>,
    pub(crate) end: End,
}

impl Display for Measured {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let end = match self.end {
            End::Continues => 0,
            End::Waits => 1,
            End::Replies(status) => status,
        };
        write!(formatter, "{} {} {end}", self.ns, self.allocations)
    }
}

impl FromStr for Measured {
    type Err = ();

    fn from_str(text: &str) -> Result<Measured, ()> {
        let words: Vec<&str> = text.split(' ').collect();
        let [ns, allocations, end] = words[..] else { return Err(()) };
        let end = match end.parse::<u16>().map_err(drop)? {
            0 => End::Continues,
            1 => End::Waits,
            status => End::Replies(status),
        };
        let (ns, allocations) = (ns.parse().map_err(drop)?, allocations.parse().map_err(drop)?);
        Ok(Measured { ns, allocations, instructions: None, end })
    }
}

/// The row of the plugin `name`.
pub(crate) fn row(name: &str, measured: &Measured) -> String {
    let end = match measured.end {
        End::Continues => "passes".to_owned(),
        End::Waits => "passes to a server; up to the wait for it".to_owned(),
        End::Replies(status) => format!("answered {status}"),
    };
    let instructions = measured.instructions.map_or("".to_owned(), |count| count.to_string());
    let (ns, allocations) = (measured.ns, measured.allocations);
    format!("| [`{name}`](plugins/{name}.md) | {ns:.0} | {instructions} | {allocations:.1} | {end} |")
}

/// Writes docs/reference/plugin-costs.md.
pub(crate) fn write(measured: &[(&str, Result<Measured, String>)]) {
    let mut page = format!("{INTRODUCTION}\n{}\n\n{HEAD}\n", machine());
    for (name, result) in measured {
        let row = match result {
            Ok(measured) => row(name, measured),
            Err(_) => format!("| [`{name}`](plugins/{name}.md) | | | | not measured |"),
        };
        let _ = writeln!(page, "{row}");
    }
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/plugin-costs.md");
    std::fs::write(path, page).unwrap();
}

/// The processor that measured.
fn machine() -> String {
    let info = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model =
        info.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": ").map(|(_, name)| name));
    format!(
        "Measured on one core of {}; each figure is the fastest of 40 rounds of {REQUESTS} requests.",
        model.unwrap_or("an unknown processor")
    )
}

const INTRODUCTION: &str = "\
# Costs of plugins

<!-- Made by `cargo bench -p plugins --bench costs -- --write`; valgrind counts the instructions. -->

The cost of each plugin for one request with eight fields, besides the request itself: all phases of the plugin, in
the order in which plugins run. The configuration is the example of the plugin's [page](plugins.md) unless
`crates/plugins/benches/costs/rows.rs` has another one. A plugin that is not configured costs nothing.
";
const HEAD: &str = "\
| plugin | nanoseconds | instructions | allocations | the request |
|---|---|---|---|---|";
