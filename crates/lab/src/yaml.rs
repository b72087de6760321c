//! Parses a YAML file into a type, with faults in the form of editors: `file:line: reason`. The type defines
//! the content of the file.

use std::fmt::Write as _;

use serde::de::DeserializeOwned;
use serde_path_to_error::{Path, Segment};
use stdx::nearest::nearest;

/// Parses `text`; `file` is its name in a fault. A fault for an unknown key gives the nearest known one.
pub(crate) fn parse_yaml<T: DeserializeOwned>(file: &str, text: &str) -> anyhow::Result<T> {
    let mut marked =
        ::yaml::parse(text).map_err(|fault| anyhow::anyhow!("{file}:{}: {}", fault.line, fault.reason))?;
    let value = marked.value.take();
    serde_path_to_error::deserialize(value).map_err(|error| {
        let line = marked.line(&pointer(error.path()));
        anyhow::anyhow!("{file}:{line}: {}", shorten_reason(&error.inner().to_string()))
    })
}

/// The JSON pointer of a place.
fn pointer(path: &Path) -> String {
    let mut pointer = String::new();
    for segment in path {
        _ = match segment {
            Segment::Seq { index } => write!(pointer, "/{index}"),
            Segment::Map { key } => write!(pointer, "/{}", key.replace('~', "~0").replace('/', "~1")),
            // A variant of an enum is no step of the file.
            Segment::Enum { .. } | Segment::Unknown => Ok(()),
        };
    }
    pointer
}

/// serde's words for an unknown key or value list every known one; the nearest is enough where there is one.
fn shorten_reason(reason: &str) -> String {
    let kind = if reason.starts_with("unknown field") {
        "unknown key"
    } else if reason.starts_with("unknown variant") {
        "unknown value"
    } else {
        return reason.to_owned();
    };
    let mut quoted = reason.split('`').skip(1).step_by(2);
    let name = quoted.next().unwrap_or_default();
    let known: Vec<&str> = quoted.collect();
    let mut text = format!("{kind} `{name}`");
    match nearest(name, known.iter().copied()) {
        Some(near) => _ = write!(text, "; did you mean `{near}`?"),
        None => _ = write!(text, "; known are: {}", known.join(", ")),
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::Scenario;

    fn fault(text: &str) -> String {
        parse_yaml::<Scenario>("lab/scenarios/a.yaml", text).unwrap_err().to_string()
    }

    #[test]
    fn faults_have_a_place_and_a_hint() {
        assert_eq!(
            fault("title: a\nabout: b\nload:\n  tool: wrk\n  conections: 3\n"),
            "lab/scenarios/a.yaml:5: unknown key `conections`; did you mean `connections`?"
        );
        let far = fault("title: a\ncolour: red\n");
        assert!(far.starts_with("lab/scenarios/a.yaml:2: unknown key `colour`; known are: "), "{far}");
        let tool = fault("title: a\nabout: b\nload: {tool: wkr, connections: 3}\n");
        assert_eq!(tool, "lab/scenarios/a.yaml:3: unknown value `wkr`; did you mean `wrk`?");
        let broken = fault("title: [a\nabout: b\n");
        assert!(broken.starts_with("lab/scenarios/a.yaml:"), "{broken}");
    }
}
