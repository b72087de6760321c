//! `weir lab compare`: the changes between two kept runs. It measures nothing.

use std::path::PathBuf;
use std::process::ExitCode;

use crate::report::{compare, json};
use crate::terminal::{Paint, print_error, print_line};

/// Arguments of `weir lab compare`.
#[derive(Clone, Debug, clap::Args)]
pub struct CompareArguments {
    /// The earlier run
    #[arg(value_name = "A.json")]
    before: PathBuf,
    /// The later run
    #[arg(value_name = "B.json")]
    after: PathBuf,
    /// End with status 3 if throughput, p99 or CPU per request of one of the contenders became worse
    #[arg(long, value_enum, value_name = "WHAT")]
    fail_on: Option<FailOn>,
    /// The contenders that --fail-on checks; may be repeated
    #[arg(long = "contender", value_name = "NAME", default_value = crate::report::headline::SUBJECT)]
    contenders: Vec<String>,
}

/// The kind of change that makes the command fail.
#[derive(Clone, Copy, Debug, Eq, PartialEq, clap::ValueEnum)]
enum FailOn {
    /// Something is slower
    Slower,
}

/// Prints the comparison.
pub fn execute_lab_compare(arguments: &CompareArguments) -> anyhow::Result<ExitCode> {
    let (before, after) = (json::read_report(&arguments.before)?, json::read_report(&arguments.after)?);
    let comparison = compare::of(&before, &after);
    if comparison.scenarios.is_empty() {
        anyhow::bail!("the two runs have no scenario in common");
    }
    print_line(comparison.table(Paint::for_stdout()).trim_end());
    let slower = comparison.slower(&arguments.contenders);
    if arguments.fail_on.is_none() || slower.is_empty() {
        return Ok(ExitCode::SUCCESS);
    }
    for (scenario, contender, figure) in slower {
        print_error(format_args!("{contender} is slower in {scenario}: {}", figure.title()));
    }
    Ok(ExitCode::from(SLOWER))
}

/// The exit status if --fail-on found a change; 1 is an error of the command, 2 one of its arguments.
const SLOWER: u8 = 3;

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::report::sample;
    use crate::result::RunReport;

    #[derive(Parser)]
    struct Program {
        #[command(flatten)]
        arguments: CompareArguments,
    }

    /// The status, or the error that makes it 1.
    fn compare(before: &RunReport, after: &RunReport, more: &[&str]) -> Result<String, String> {
        let directory = tempfile::tempdir().unwrap();
        let paths = ["a.json", "b.json"].map(|name| directory.path().join(name));
        json::write_report(before, &paths[0]).unwrap();
        json::write_report(after, &paths[1]).unwrap();
        let given = ["compare", paths[0].to_str().unwrap(), paths[1].to_str().unwrap()];
        let program = Program::try_parse_from(given.iter().chain(more)).unwrap();
        execute_lab_compare(&program.arguments)
            .map(|code| format!("{code:?}"))
            .map_err(|error| format!("{error:#}"))
    }

    #[test]
    fn statuses() {
        let (before, slower) = (sample::small(1, 15, 1.0), sample::small(3, 15, 1.08));
        let mut other = before.clone();
        other.scenarios[0].scenario.name = "another".to_owned();
        let fail: &[&str] = &["--fail-on", "slower"];
        let nobody: &[&str] = &["--fail-on", "slower", "--contender", "haproxy"];
        let status = |code: u8| Ok(format!("{:?}", ExitCode::from(code)));
        let rows = [
            (&slower, [].as_slice(), status(0)),
            (&slower, fail, status(3)),
            (&slower, nobody, status(0)),
            (&before, fail, status(0)),
            (&other, fail, Err("the two runs have no scenario in common".to_owned())),
        ];
        for (after, more, expected) in rows {
            assert_eq!(compare(&before, after, more), expected, "{more:?}");
        }
    }
}
