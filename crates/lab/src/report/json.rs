//! The stored form of a run: the measured numbers, and beside them medians and verdicts for users of JSON
//! tools. Only the measured numbers are read back.

use std::fs;
use std::path::Path;

use anyhow::{Context, bail};
use serde_json::{Value, json};

use super::figure::Figure;
use super::statistics::{CONFIDENCE_PERCENT, Ratio, Spread};
use super::summary::{self, Summary};
use crate::result::{FORMAT, RunReport, ScenarioResult};

/// Reads a stored run. Fails on other files, and on another format.
pub fn read_report(path: &Path) -> anyhow::Result<RunReport> {
    let text = fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    parse(&text).with_context(|| format!("{} is no result that this program reads", path.display()))
}

/// Reads a stored run from its text.
pub fn parse(text: &str) -> anyhow::Result<RunReport> {
    let value: Value = serde_json::from_str(text).context("it is no JSON")?;
    match value.get("format").and_then(Value::as_u64) {
        Some(format) if format == u64::from(FORMAT) => {}
        Some(format) => bail!(
            "its format is {format}, this program writes and reads {FORMAT}: use the program that wrote it, or measure again"
        ),
        None => bail!(
            "it has no `format`: only files that `weir lab run` wrote can be read, which begin with `\"format\": {FORMAT}`{}",
            value.get("kind").and_then(Value::as_str).map_or_else(String::new, |kind| format!(
                "; this one has `\"kind\": \"{kind}\"` and was written by a script of the folder lab"
            ))
        ),
    }
    serde_json::from_value(value).context("it is damaged or was changed by hand")
}

/// Writes a run completely or not at all, so that a reader never finds a part of one.
pub fn write_report(report: &RunReport, path: &Path) -> anyhow::Result<()> {
    let name = path.file_name().with_context(|| format!("{} is no file name", path.display()))?;
    let mut beside = name.to_owned();
    beside.push(".part");
    let beside = path.with_file_name(beside);
    fs::write(&beside, text(report)?).with_context(|| format!("cannot write {}", beside.display()))?;
    fs::rename(&beside, path).with_context(|| format!("cannot write {}", path.display()))
}

/// A run as text.
pub fn text(report: &RunReport) -> anyhow::Result<String> {
    let mut value = serde_json::to_value(report).context("a report cannot be written as JSON")?;
    value["summary"] = summary_of(report);
    Ok(serde_json::to_string_pretty(&value)? + "\n")
}

/// Medians, spreads, ratios and verdicts by scenario and contender.
pub fn summary_of(report: &RunReport) -> Value {
    report.scenarios.iter().map(|result| (result.scenario.name.clone(), of_scenario(result))).collect()
}

fn of_scenario(result: &ScenarioResult) -> Value {
    let contenders: serde_json::Map<String, Value> = summary::summarise_scenario(result)
        .iter()
        .map(|summary| (summary.name.to_owned(), of_contender(summary)))
        .collect();
    json!({
        "title": result.scenario.title,
        "baseline": result.baseline,
        "confidence_percent": CONFIDENCE_PERCENT,
        "contenders": contenders,
    })
}

fn of_contender(summary: &Summary<'_>) -> Value {
    let figures: serde_json::Map<String, Value> =
        summary.figures.iter().map(|(figure, spread)| (key(*figure), of_spread(spread))).collect();
    let ratios: serde_json::Map<String, Value> =
        summary.ratios.iter().map(|(figure, ratio)| (key(*figure), of_ratio(*figure, ratio))).collect();
    json!({
        "absent": summary.absent,
        "rounds": summary.rounds,
        "requests": summary.requests,
        "failures": summary.failures.all(),
        "warm_up_failures": summary.warm_up_failures,
        "unsent": summary.unsent,
        "loss_percent": summary.loss_percent.as_ref().map(of_spread),
        "busy_percent": summary.busy_percent,
        "saturated": summary.busy_percent.map(|_| !summary.unsaturated()),
        "figures": figures,
        "over_baseline": ratios,
    })
}

fn of_spread(spread: &Spread) -> Value {
    json!({
        "median": spread.median,
        "min": spread.min,
        "max": spread.max,
        "median_deviation": spread.median_deviation,
    })
}

fn of_ratio(figure: Figure, ratio: &Ratio) -> Value {
    json!({
        "median": ratio.median,
        "min": ratio.min,
        "max": ratio.max,
        "interval": ratio.interval.map(|(low, high)| [low, high]),
        "verdict": figure.word(ratio.verdict),
    })
}

/// The figure's name in JSON.
pub fn key(figure: Figure) -> String {
    match serde_json::to_value(figure) {
        Ok(Value::String(key)) => key,
        _ => figure.title().to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::sample;

    #[test]
    fn written_report_is_read_back() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("result.json");
        let report = sample::report();
        write_report(&report, &path).unwrap();
        // Written again over the first, as during a run.
        write_report(&report, &path).unwrap();
        assert!(read_report(&path).unwrap() == report);
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1, "nothing is left beside it");
    }

    #[test]
    fn a_foreign_file_is_refused_with_the_reason() {
        let report = text(&sample::small(1, 3, 1.0)).unwrap();
        let rows = [
            ("", "it is no JSON"),
            (
                "[1, 2]",
                "it has no `format`: only files that `weir lab run` wrote can be read, which begin with `\"format\": 1`",
            ),
            (
                r#"{"kind": "soak"}"#,
                "this one has `\"kind\": \"soak\"` and was written by a script of the folder lab",
            ),
            (r#"{"format": 99}"#, "its format is 99, this program writes and reads 1"),
            (r#"{"format": 1}"#, "missing field `weir`"),
            (&report[..report.len() / 2], "it is no JSON"),
        ];
        for (given, expected) in rows {
            let error = format!("{:#}", parse(given).unwrap_err());
            assert!(error.contains(expected), "{given:.40}: {error}");
        }
        let missing = format!("{:#}", read_report(Path::new("/nowhere/result.json")).unwrap_err());
        assert!(missing.starts_with("cannot read /nowhere/result.json"), "{missing}");
    }

    /// Checks the statement of `lab/README.md` about the stored results.
    #[test]
    fn kept_results_are_readable_as_documented() {
        let lab = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../lab");
        let page = fs::read_to_string(lab.join("README.md")).unwrap();
        let row =
            page.lines().find(|line| line.starts_with('|') && line.contains("weir lab report")).unwrap();
        let documented: Vec<&str> = row.split('`').filter(|word| word.ends_with(".json")).collect();
        for entry in fs::read_dir(lab.join("results")).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_str().unwrap();
            // Results that git ignores begin with the name of their program.
            if !name.starts_with(|first: char| first.is_ascii_digit()) {
                continue;
            }
            match read_report(&path) {
                Ok(_) => assert!(documented.contains(&name), "lab/README.md lacks {name}"),
                Err(error) => {
                    assert!(!documented.contains(&name), "{name}: {error:#}");
                    assert!(format!("{error:#}").contains("`\"kind\": "), "{name}: {error:#}");
                }
            }
        }
    }

    #[test]
    fn json_has_a_summary() {
        let report = sample::small(1, 5, 2.0);
        let value: Value = serde_json::from_str(&text(&report).unwrap()).unwrap();
        let weir = &value["summary"]["small"]["contenders"]["weir"];
        assert_eq!(weir["rounds"], 5);
        assert_eq!(weir["over_baseline"]["cpu_us"]["verdict"], "slower");
        assert!(weir["loss_percent"]["median"].as_f64().unwrap() > 10.0, "{weir}");
        assert!(weir["figures"]["p99_ms"]["min"].as_f64() <= weir["figures"]["p99_ms"]["median"].as_f64());
        let direct = &value["summary"]["small"]["contenders"]["direct"];
        assert_eq!((&direct["loss_percent"], &direct["figures"]["cpu_us"]), (&Value::Null, &Value::Null));
    }
}
