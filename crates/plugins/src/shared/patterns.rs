//! A list of patterns of which any may match, as rules are written: patterns that need no backtracking are
//! searched together, in one pass over the text. It knows no plugin.

use exchange::Exchange;
use exchange::plugin::{BufferedReply, Flow};
use regex::bytes::{RegexSet, RegexSetBuilder};
use router::vars::{GaveUp, Pattern, PatternEngine, VariableSource};

/// Compiled size of all patterns of a list that are searched together; a longer list is searched one by one.
const PROGRAM_BYTES_MAX: usize = 8 << 20;
/// Cache of the lazy automaton of such a list, per thread.
const CACHE_BYTES_MAX: usize = 4 << 20;

/// A compiled list.
pub(crate) struct Patterns {
    together: Option<RegexSet>,
    single: Vec<Pattern>,
}

/// Lets the request pass, or refuses it with `refusal`. Where a pattern gave up, the engine refuses the
/// request, because the rule is undecided.
pub(crate) fn decide_by_patterns(
    exchange: &Exchange,
    passes: Result<bool, GaveUp>,
    refusal: &BufferedReply,
) -> Flow<'static> {
    match passes {
        Ok(true) => Flow::Continue,
        Ok(false) => Flow::reply(refusal.clone()),
        Err(reason) => {
            exchange.search_gave_up(reason);
            Flow::Continue
        }
    }
}

impl Patterns {
    /// Compiles a list; with `ignore_case`, for ASCII letters.
    ///
    /// # Errors
    /// The first pattern that is malformed or too big, with its place in the list.
    pub(crate) fn compile<S: AsRef<str>>(sources: &[S], ignore_case: bool) -> Result<Patterns, String> {
        let mut single = Vec::with_capacity(sources.len());
        for (index, source) in sources.iter().enumerate() {
            let pattern = Pattern::compile(source.as_ref(), ignore_case);
            single.push(pattern.map_err(|error| format!("[{index}]: {error}"))?);
        }
        if single.len() < 2 {
            return Ok(Patterns { together: None, single });
        }
        let (linear, other): (Vec<Pattern>, Vec<Pattern>) =
            single.into_iter().partition(|pattern| pattern.engine() == PatternEngine::Linear);
        let together = RegexSetBuilder::new(linear.iter().map(Pattern::linear_source))
            .case_insensitive(ignore_case)
            .unicode(false)
            .size_limit(PROGRAM_BYTES_MAX)
            .dfa_size_limit(CACHE_BYTES_MAX)
            .build();
        // One that needs Unicode classes, or a rewriting, keeps the whole list from being searched together.
        Ok(match together {
            Ok(together) => Patterns { together: Some(together), single: other },
            Err(_) => Patterns { together: None, single: linear.into_iter().chain(other).collect() },
        })
    }

    /// Whether any pattern is found anywhere in `text`.
    ///
    /// # Errors
    /// A search was given up and no other pattern was found, so that it is unknown whether one matches.
    pub(crate) fn is_match(&self, text: &[u8]) -> Result<bool, GaveUp> {
        if self.together.as_ref().is_some_and(|together| together.is_match(text)) {
            return Ok(true);
        }
        let mut undecided = Ok(false);
        for pattern in &self.single {
            match pattern.is_match(text) {
                Ok(true) => return Ok(true),
                Ok(false) => {}
                Err(reason) => undecided = Err(reason),
            }
        }
        undecided
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_pattern_of_a_list_matches() {
        let check = |sources: &[&str], ignore_case: bool, text: &str, expected: bool| {
            let patterns = Patterns::compile(sources, ignore_case).unwrap();
            assert_eq!(patterns.is_match(text.as_bytes()), Ok(expected), "{sources:?} {text}");
        };
        check(&[], false, "a", false);
        check(&["b"], false, "abc", true);
        check(&["x", "^b", "c$"], false, "abc", true);
        check(&["x", "^b", "c$"], false, "ABC", false);
        check(&["x", "^b", "c$"], true, "ABC", true);
        check(&["x", "a(?!b)"], false, "ab", false);
        check(&["x", "a(?!b)"], false, "ac", true);
        check(&["x", r"\p{Greek}"], false, "α", true);
        check(&["x", r"\p{Greek}"], false, "x", true);
        check(&["x", r"\p{Greek}"], false, "y", false);
    }

    #[test]
    fn bad_pattern_is_named_with_its_place() {
        let reason = Patterns::compile(&["a", "^b("], false).err().unwrap();
        assert!(reason.starts_with("[1]: `^b(` is not a usable regular expression"), "{reason}");
    }

    #[test]
    fn search_given_up_is_undecided_unless_matched() {
        let long = vec![b'a'; 8_000];
        let patterns = Patterns::compile(&["x", "a(?!a)b"], false).unwrap();
        assert_eq!(patterns.is_match(&long), Err(GaveUp::TextTooLong));
        let patterns = Patterns::compile(&["aa", "a(?!a)b"], false).unwrap();
        assert_eq!(patterns.is_match(&long), Ok(true));
    }
}
