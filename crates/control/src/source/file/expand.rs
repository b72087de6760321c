//! `${{NAME}}` and `${{NAME:=default}}` in a resource file, replaced in the text before it is parsed. The
//! lookup of values is passed in.

use std::fmt::Write as _;

/// The text with every variable replaced, and the relation of its lines to the lines of the file.
#[derive(Debug, PartialEq, Eq)]
pub struct Expanded {
    pub(super) text: String,
    /// `(line of the text, lines that values added before it)`, ascending: a value may have line ends of its
    /// own.
    added: Vec<(usize, usize)>,
}

/// A variable that cannot be replaced.
#[derive(Debug, PartialEq, Eq)]
pub struct Unset {
    /// Line of the file, from 1.
    pub line: usize,
    /// The fault and its remedy.
    pub reason: String,
}

impl Expanded {
    /// The unchanged text.
    pub(super) fn plain(text: &str) -> Expanded {
        Expanded { text: text.to_owned(), added: Vec::new() }
    }

    pub fn text(&self) -> &str {
        &self.text
    }

    /// The line of the file for a line of the text; both from 1.
    pub fn file_line(&self, line: usize) -> usize {
        let added =
            self.added.iter().take_while(|(from, _)| *from <= line).last().map_or(0, |(_, added)| *added);
        line.saturating_sub(added).max(1)
    }
}

/// Replaces the variables of `text`; lines that are only a comment stay unchanged.
///
/// # Errors
/// Every variable that is unset and has no default, and every `${{` that is never closed.
pub fn expand_variables(text: &str, lookup: &dyn Fn(&str) -> Option<String>) -> Result<Expanded, Vec<Unset>> {
    let mut expanded = Expanded { text: String::with_capacity(text.len()), added: Vec::new() };
    let mut unset = Vec::new();
    let mut added = 0;
    for (index, line) in text.split_inclusive('\n').enumerate() {
        if line.trim_start().starts_with('#') || !line.contains(OPEN) {
            expanded.text.push_str(line);
            continue;
        }
        let (replaced, faults) = expand_line(line, lookup);
        unset.extend(faults.into_iter().map(|reason| Unset { line: index + 1, reason }));
        let more = newlines(&replaced).saturating_sub(newlines(line));
        for extra in 1..=more {
            expanded.added.push((index + 1 + added + extra, added + extra));
        }
        added += more;
        expanded.text.push_str(&replaced);
    }
    if unset.is_empty() { Ok(expanded) } else { Err(unset) }
}

fn expand_line(line: &str, lookup: &dyn Fn(&str) -> Option<String>) -> (String, Vec<String>) {
    let mut replaced = String::with_capacity(line.len());
    let mut faults = Vec::new();
    let mut rest = line;
    while let Some((before, after)) = rest.split_once(OPEN) {
        replaced.push_str(before);
        let Some((inside, behind)) = after.split_once(CLOSE) else {
            faults.push(format!("`{OPEN}` is not closed by `{CLOSE}`"));
            rest = "";
            break;
        };
        rest = behind;
        let (name, default) = match inside.split_once(":=") {
            Some((name, default)) => (name.trim(), Some(default.trim())),
            None => (inside.trim(), None),
        };
        if name.is_empty() || !name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_') {
            faults.push(format!("`{name}` is not the name of an environment variable"));
            continue;
        }
        match lookup(name).or_else(|| default.map(str::to_owned)) {
            Some(value) => replaced.push_str(&value),
            None => {
                let mut reason = format!("the environment variable {name} is not set; ");
                write!(reason, "set it or give a default: ${{{{{name}:=value}}}}")
                    .expect("writing to a string");
                faults.push(reason);
            }
        }
    }
    replaced.push_str(rest);
    (replaced, faults)
}

fn newlines(text: &str) -> usize {
    text.bytes().filter(|byte| *byte == b'\n').count()
}

const OPEN: &str = "${{";
const CLOSE: &str = "}}";

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn lookup(name: &str) -> Option<String> {
        match name {
            "HOST" => Some("example.org".to_owned()),
            "PEM" => Some("a\nb\nc".to_owned()),
            "EMPTY" => Some(String::new()),
            _ => None,
        }
    }

    fn check(text: &str, expected: Result<&str, &[(usize, &str)]>) {
        match (expand_variables(text, &lookup), expected) {
            (Ok(expanded), Ok(text)) => assert_eq!(expanded.text, text),
            (Err(unset), Err(expected)) => {
                let found: Vec<_> = unset.iter().map(|unset| (unset.line, unset.reason.as_str())).collect();
                assert_eq!(found.len(), expected.len(), "{found:?}");
                for ((line, reason), (expected_line, part)) in found.iter().zip(expected) {
                    assert!(line == expected_line && reason.contains(part), "{found:?}");
                }
            }
            (found, _) => panic!("{text:?} gave {found:?}"),
        }
    }

    #[test]
    fn variables_are_replaced() {
        check("plain: $x ${y}", Ok("plain: $x ${y}"));
        check("host: ${{HOST}}", Ok("host: example.org"));
        check("host: ${{ HOST }}/${{HOST}}", Ok("host: example.org/example.org"));
        check("${{HOST}}: 1", Ok("example.org: 1"));
        check("port: ${{PORT:=8080}}", Ok("port: 8080"));
        check("host: ${{HOST:=other}}", Ok("host: example.org"));
        check("value: '${{EMPTY:=other}}'", Ok("value: ''"));
        check("# ${{UNSET}}\na: 1", Ok("# ${{UNSET}}\na: 1"));
        check("a: 1\nb: ${{UNSET}}\nc: ${{ALSO}}", Err(&[(2, "UNSET is not set"), (3, "${{ALSO:=value}}")]));
        check("a: ${{HOST", Err(&[(1, "not closed")]));
        check("a: ${{a b}}", Err(&[(1, "`a b` is not the name")]));
    }

    #[test]
    fn lines_are_those_of_the_file() {
        let expanded = expand_variables("1\n2 ${{PEM}}\n3\n4 ${{PEM}}\n5\n", &lookup).unwrap();
        let file_lines: Vec<_> = (1..=9).map(|line| expanded.file_line(line)).collect();
        assert_eq!(file_lines, [1, 2, 2, 2, 3, 4, 4, 4, 5]);
    }

    proptest! {
        #[test]
        fn expansion_never_panics_and_lines_stay_in_the_file(text in "[a#$\\{\\}:=HOSTPEM\n ]{0,60}") {
            if let Ok(expanded) = expand_variables(&text, &lookup) {
                let lines = newlines(&text) + 1;
                for line in 1..=newlines(&expanded.text) + 1 {
                    prop_assert!((1..=lines).contains(&expanded.file_line(line)));
                }
            }
        }
    }
}
