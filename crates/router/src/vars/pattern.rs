//! Regular expressions from configurations, written for PCRE.
//!
//! Refuses to run without bounds: a pattern goes to the linear-time engine, and only one that needs look-around or
//! back-references goes to the backtracking engine, which gives up after a number of steps. What gave up did not
//! match, as in nginx when PCRE reaches its limit.

use std::fmt;

use fancy_regex::BytesMode;

/// A compiled pattern.
#[derive(Clone)]
pub struct Pattern {
    engine: Engine,
    source: Box<str>,
}

/// Which engine a pattern got; reported when a configuration is checked.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum PatternEngine {
    /// Bounded by steps; for look-around and back-references.
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
    /// The engine's words, or the limit that was reached.
    pub reason: String,
}

#[derive(Clone)]
enum Engine {
    Backtracking(Box<fancy_regex::Regex>),
    Linear(Box<regex::bytes::Regex>),
}

impl Pattern {
    /// Compiles a pattern; with `ignore_case`, for ASCII letters.
    ///
    /// # Errors
    /// The pattern is malformed or too big.
    pub fn compile(source: &str, ignore_case: bool) -> Result<Self, PatternError> {
        // PCRE works on bytes unless told otherwise; classes of non-ASCII letters need characters.
        for unicode in [false, true] {
            if let Ok(regex) = linear(source, ignore_case, unicode) {
                return Ok(Self { engine: Engine::Linear(Box::new(regex)), source: source.into() });
            }
        }
        let regex = backtracking(source, ignore_case, BytesMode::Ascii)
            .or_else(|_| backtracking(source, ignore_case, BytesMode::Unicode))
            .map_err(|error| PatternError { source_text: source.to_owned(), reason: error.to_string() })?;
        let engine = Engine::Backtracking(Box::new(regex));
        Ok(Self { engine, source: source.into() })
    }

    /// Whether the pattern is found anywhere in `text`.
    #[must_use]
    pub fn is_match(&self, text: &[u8]) -> bool {
        match &self.engine {
            Engine::Backtracking(regex) => regex.is_match(text).unwrap_or(false),
            Engine::Linear(regex) => regex.is_match(text),
        }
    }

    /// The engine that runs it.
    #[must_use]
    pub fn engine(&self) -> PatternEngine {
        match self.engine {
            Engine::Backtracking(_) => PatternEngine::Backtracking,
            Engine::Linear(_) => PatternEngine::Linear,
        }
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

fn backtracking(
    source: &str,
    ignore_case: bool,
    mode: BytesMode,
) -> Result<fancy_regex::Regex, fancy_regex::Error> {
    fancy_regex::RegexBuilder::new(source)
        .case_insensitive(ignore_case)
        .bytes_mode(mode)
        .backtrack_limit(BACKTRACKS_MAX)
        .delegate_size_limit(PROGRAM_BYTES_MAX)
        .delegate_dfa_size_limit(CACHE_BYTES_MAX)
        .build()
}

/// Compiled size of one pattern. A thousand alternatives fit; repeated repetitions of repetitions do not.
const PROGRAM_BYTES_MAX: usize = 1 << 20;
/// Cache of the lazy automaton, per pattern and thread.
const CACHE_BYTES_MAX: usize = 1 << 20;
/// Steps back before giving up, a few milliseconds at most: a worker serves thousands of others meanwhile.
const BACKTRACKS_MAX: usize = 100_000;

#[cfg(test)]
mod tests {
    use super::*;

    fn check(source: &str, ignore_case: bool, text: &[u8], engine: PatternEngine, found: bool) {
        let pattern = Pattern::compile(source, ignore_case).unwrap();
        assert_eq!((pattern.engine(), pattern.is_match(text)), (engine, found), "{source}");
    }

    #[test]
    fn engines() {
        use PatternEngine::{Backtracking, Linear};
        check("^/a\\/b\\-[0-9]+$", false, b"/a/b-12", Linear, true);
        check("ADMIN", true, b"xadminx", Linear, true);
        check("ADMIN", false, b"admin", Linear, false);
        check("^.$", false, b"\xff", Linear, true);
        check("[éà]", false, "à".as_bytes(), Linear, true);
        check("^(?!/admin)", false, b"/admin", Backtracking, false);
        check("^(?!/admin)", false, b"/user", Backtracking, true);
        check("(a)\\1", false, b"xaay", Backtracking, true);
        check("(?=X)x", true, b"x", Backtracking, true);
        check("^(?=.)..$", false, b"\xff\xfe", Backtracking, true);
    }

    #[test]
    fn a_runaway_pattern_gives_up() {
        let pattern = Pattern::compile("^(?=(a+)+$)\\1b", false).unwrap();
        assert!(!pattern.is_match("a".repeat(40).as_bytes()));
    }

    #[test]
    fn refused() {
        for bad in ["(", "[a", "a{1000000000}", "(?<n>a"] {
            assert!(Pattern::compile(bad, false).unwrap_err().to_string().contains(bad));
        }
    }
}
