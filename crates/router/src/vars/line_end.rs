//! `$` as PCRE means it: at the end of a text, and before a line break that ends the text. The linear engine
//! has only the first, so that a pattern for it is rewritten. It runs no pattern.

use super::backtracking::GroupPlaces;

/// A pattern in which each `$` that can stand at the end of a match also stands before a last line break.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LineEndPattern {
    /// The pattern for the engine. It consumes the last line break.
    pub source: String,
    /// The groups that were inserted, by number: one takes part in a match that has consumed the last line
    /// break for a `$`.
    pub inserted: Vec<usize>,
}

/// The text that is inserted for a `$`.
const REPLACEMENT: &str = r"(?:\z|(\n)\z)";

/// Rewrites `source`, which is read with white space ignored if it is `extended`; none if nothing needs to be
/// rewritten. A pattern that switches flags inside itself stays as it is, because `$` may mean something else
/// in it.
pub fn rewrite_line_ends(source: &str, extended: bool) -> Option<LineEndPattern> {
    let mut scan = Scan { bytes: source.as_bytes(), at: 0, class_depth: 0, groups: 0 };
    let mut rewritten =
        LineEndPattern { source: String::with_capacity(source.len() + 16), inserted: Vec::new() };
    let mut copied = 0;
    while let Some(byte) = scan.bytes.get(scan.at).copied() {
        match byte {
            b'\\' => scan.at += 1,
            b'[' => scan.class_depth += 1,
            b']' if scan.class_depth > 0 && !scan.begins_class() => scan.class_depth -= 1,
            _ if scan.class_depth > 0 => {}
            b'(' if scan.sets_flags() => return None,
            b'(' if scan.is_capture() => scan.groups += 1,
            b'#' if extended => scan.skip_comment(),
            b'$' if scan.ends_match() => {
                scan.groups += 1;
                rewritten.inserted.push(scan.groups);
                rewritten.source.push_str(&source[copied..scan.at]);
                rewritten.source.push_str(REPLACEMENT);
                copied = scan.at + 1;
            }
            _ => {}
        }
        scan.at += 1;
    }
    rewritten.source.push_str(&source[copied..]);
    (!rewritten.inserted.is_empty()).then_some(rewritten)
}

/// The places of a match of a rewritten pattern, without the `inserted` groups. A line break that a `$` has
/// consumed is taken out of all of them, because `$` itself has no length.
#[must_use]
pub fn own_groups(captures: &regex::bytes::Captures<'_>, inserted: &[usize]) -> GroupPlaces {
    let consumed = inserted.iter().find_map(|index| captures.get(*index));
    let end = consumed.map_or(usize::MAX, |line_break| line_break.start());
    let place = |group: regex::bytes::Match<'_>| (group.start().min(end), group.end().min(end));
    let own = captures.iter().enumerate().filter(|(index, _)| !inserted.contains(index));
    own.map(|(_, group)| group.map(place)).collect()
}

struct Scan<'s> {
    bytes: &'s [u8],
    at: usize,
    /// Classes may hold classes.
    class_depth: usize,
    /// Capturing groups so far.
    groups: usize,
}

impl Scan<'_> {
    fn rest(&self) -> &[u8] {
        self.bytes.get(self.at..).unwrap_or_default()
    }

    /// Whether a `]` here is the first character of a class, which it then belongs to.
    fn begins_class(&self) -> bool {
        matches!(self.bytes[..self.at], [.., b'['] | [.., b'[', b'^'])
    }

    /// Whether a group here begins like `(?i)` or `(?m:`.
    fn sets_flags(&self) -> bool {
        match self.rest() {
            [b'(', b'?', b'P', ..] => false,
            [b'(', b'?', flag, ..] => flag.is_ascii_alphabetic() || *flag == b'-',
            _ => false,
        }
    }

    fn is_capture(&self) -> bool {
        match self.rest() {
            [b'(', b'?', b'P', b'<', ..] => true,
            [b'(', b'?', b'<', next, ..] => !matches!(next, b'=' | b'!'),
            [b'(', b'?', ..] => false,
            _ => true,
        }
    }

    fn skip_comment(&mut self) {
        let end = self.rest().iter().position(|byte| *byte == b'\n');
        self.at = end.map_or(self.bytes.len(), |length| self.at + length);
    }

    /// Whether only the ends of groups follow, up to the end of the pattern or of an alternative.
    fn ends_match(&self) -> bool {
        let mut rest = self.rest()[1..].iter().skip_while(|byte| **byte == b')');
        matches!(rest.next(), None | Some(b'|'))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_ends_of_matches_are_rewritten() {
        let check = |source: &str, extended: bool, expected: Option<(&str, &[usize])>| {
            let rewritten = rewrite_line_ends(source, extended);
            let expected = expected.map(|(source, inserted)| LineEndPattern {
                source: source.replace('€', REPLACEMENT),
                inserted: inserted.to_vec(),
            });
            assert_eq!(rewritten, expected, "{source}");
        };
        check("a", false, None);
        check("a$", false, Some(("a€", &[1])));
        check("(a)(?:b)(?P<c>c)(?<d>d)$|(e$)", false, Some(("(a)(?:b)(?P<c>c)(?<d>d)€|(e€)", &[4, 6])));
        check("^$", false, Some(("^€", &[1])));
        for kept in
            [r"a\$", "[$]", "[]$]", "[^]$]", "[[:alpha:]$]", "a$b", "(a$)?", "a$+", "(?m)a$", "(?i:a)$"]
        {
            check(kept, false, None);
        }
        check(r"\\$", false, Some((r"\\€", &[1])));
        check(r"[\]$]$", false, Some((r"[\]$]€", &[1])));
        check("a # $\n $", true, Some(("a # $\n €", &[1])));
        check("a # $", false, Some(("a # €", &[1])));
        check("[", false, None);
        check("\\", false, None);
        check("é$", false, Some(("é€", &[1])));
    }
}
