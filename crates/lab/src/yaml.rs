//! Parses a YAML file into a type, with faults in the form of editors: `file:line: reason`. The type defines the
//! content of the file.

use std::fmt::Write as _;

use serde::de::DeserializeOwned;
use serde_saphyr::Error;
use stdx::nearest::nearest;

/// Parses `text`; `file` is its name in a fault. A fault for an unknown key gives the nearest known one.
pub(crate) fn read<T: DeserializeOwned>(file: &str, text: &str) -> anyhow::Result<T> {
    serde_saphyr::from_str(text).map_err(|error| {
        let line = error.location().map_or(1, |location| location.line());
        anyhow::anyhow!("{file}:{line}: {}", told(error.without_snippet()))
    })
}

fn told(error: &Error) -> String {
    let (kind, name, expected) = match error {
        Error::SerdeUnknownField { field, expected, .. } => ("unknown key", field, expected),
        Error::SerdeUnknownVariant { variant, expected, .. } => ("unknown value", variant, expected),
        other => return other.to_string(),
    };
    let mut text = format!("{kind} `{name}`");
    match nearest(name, expected.iter().copied()) {
        Some(known) => _ = write!(text, "; did you mean `{known}`?"),
        None => _ = write!(text, "; known are: {}", expected.join(", ")),
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::Scenario;

    fn fault(text: &str) -> String {
        read::<Scenario>("lab/scenarios/a.yaml", text).unwrap_err().to_string()
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
