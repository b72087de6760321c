//! Regular expressions from configurations, written for PCRE.
//!
//! Every search is bounded: a pattern runs on the linear-time engine, and only one that needs look-around or
//! back-references runs on the backtracking engine, which gives up on long texts and after a number of bytes
//! walked. A search that was given up is neither a match nor a miss.

use std::fmt;

use super::backtracking::{BacktrackingOptions, BacktrackingRegex, GaveUp};
use super::line_end::rewrite_line_ends;

/// A compiled pattern.
#[derive(Clone)]
pub struct Pattern {
    engine: Engine,
    source: Box<str>,
    /// The source for the linear engine, if it is another text.
    rewritten: Option<Box<str>>,
}

/// The engine of a pattern; reported when a configuration is checked.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum PatternEngine {
    /// Bounded by the length of the text and by bytes walked; for look-around and back-references.
    Backtracking,
    /// Time linear in the text.
    Linear,
}

/// Why a pattern cannot be used.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error("`{source_text}` is not a usable regular expression: {reason}")]
pub struct PatternError {
    /// The pattern.
    pub source_text: String,
    /// The engine's message, or the limit that was reached.
    pub reason: String,
}

#[derive(Clone)]
enum Engine {
    Backtracking(Box<BacktrackingRegex>),
    Linear(Box<regex::bytes::Regex>),
}

impl Pattern {
    /// Compiles a pattern; with `ignore_case`, for ASCII letters.
    ///
    /// # Errors
    /// The pattern is malformed or too big.
    pub fn compile(source: &str, ignore_case: bool) -> Result<Self, PatternError> {
        // PCRE works on bytes unless told otherwise; classes of non-ASCII letters need characters.
        let rewritten = rewrite_line_ends(source, false).map(|rewritten| rewritten.source.into_boxed_str());
        for unicode in [false, true] {
            if let Ok(regex) = linear(rewritten.as_deref().unwrap_or(source), ignore_case, unicode) {
                return Ok(Self {
                    engine: Engine::Linear(Box::new(regex)),
                    source: source.into(),
                    rewritten,
                });
            }
        }
        let options = BacktrackingOptions { ignore_case, ..BacktrackingOptions::default() };
        let regex = BacktrackingRegex::compile(source, options, PROGRAM_BYTES_MAX, CACHE_BYTES_MAX)
            .map_err(|reason| PatternError { source_text: source.to_owned(), reason })?;
        let engine = Engine::Backtracking(Box::new(regex));
        Ok(Self { engine, source: source.into(), rewritten: None })
    }

    /// Whether the pattern is found anywhere in `text`.
    ///
    /// # Errors
    /// The search was given up, so that it is unknown whether the pattern matches.
    pub fn is_match(&self, text: &[u8]) -> Result<bool, GaveUp> {
        match &self.engine {
            Engine::Backtracking(regex) => regex.is_match(text),
            Engine::Linear(regex) => Ok(regex.is_match(text)),
        }
    }

    /// The engine that runs it.
    #[must_use]
    pub fn engine(&self) -> PatternEngine {
        match &self.engine {
            Engine::Backtracking(regex) if !regex.is_linear() => PatternEngine::Backtracking,
            Engine::Backtracking(_) | Engine::Linear(_) => PatternEngine::Linear,
        }
    }

    /// The pattern for the linear engine.
    #[must_use]
    pub fn linear_source(&self) -> &str {
        self.rewritten.as_deref().unwrap_or(&self.source)
    }

    /// The pattern as written.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.source
    }
}

impl fmt::Debug for Pattern {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Pattern({:?}, {:?})", self.source, self.engine())
    }
}

fn linear(source: &str, ignore_case: bool, unicode: bool) -> Result<regex::bytes::Regex, regex::Error> {
    regex::bytes::RegexBuilder::new(source)
        .case_insensitive(ignore_case)
        .unicode(unicode)
        .size_limit(PROGRAM_BYTES_MAX)
        .dfa_size_limit(CACHE_BYTES_MAX)
        .build()
}

/// Compiled size of one pattern. A thousand alternatives fit; nested repetitions do not.
const PROGRAM_BYTES_MAX: usize = 1 << 20;
/// Cache of the lazy automaton, per pattern and thread.
const CACHE_BYTES_MAX: usize = 1 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    fn check(source: &str, ignore_case: bool, text: &[u8], engine: PatternEngine, found: bool) {
        let pattern = Pattern::compile(source, ignore_case).unwrap();
        assert_eq!((pattern.engine(), pattern.is_match(text)), (engine, Ok(found)), "{source}");
    }

    #[test]
    fn engines() {
        use PatternEngine::{Backtracking, Linear};
        check("^/a\\/b\\-[0-9]+$", false, b"/a/b-12", Linear, true);
        check("ADMIN", true, b"xadminx", Linear, true);
        check("ADMIN", false, b"admin", Linear, false);
        check("^.$", false, b"\xff", Linear, true);
        check("^ab$", false, b"ab\n", Linear, true);
        check("^ab$", false, b"ab\n\n", Linear, false);
        check("^ab$|c", false, b"ab\nd", Linear, false);
        check("[éà]", false, "à".as_bytes(), Linear, true);
        check("^(?!/admin)", false, b"/admin", Backtracking, false);
        check("^(?!/admin)", false, b"/user", Backtracking, true);
        check("(a)\\1", false, b"xaay", Backtracking, true);
        check("(?=X)x", true, b"x", Backtracking, true);
        check("^(?=.)..$", false, b"\xff\xfe", Backtracking, true);
    }

    #[test]
    fn abandoned_search_is_neither_match_nor_miss() {
        let pattern = Pattern::compile("(?<!q)[a-z]+Z$", false).unwrap();
        assert_eq!(pattern.is_match(&[b'a'; 60_000]), Err(GaveUp::TextTooLong));
        assert_eq!(pattern.is_match(&[b'a'; 4_000]), Err(GaveUp::TooManySteps));
    }

    #[test]
    fn refused() {
        for bad in ["(", "[a", "a{1000000000}", "(?<n>a"] {
            assert!(Pattern::compile(bad, false).unwrap_err().to_string().contains(bad));
        }
    }
}
