//! The backtracking engine, for patterns with look-around or back-references. It always has bounds: it takes
//! texts of at most [`TEXT_BYTES_MAX`] and gives up after `WALK_BYTES_MAX` bytes walked.
//!
//! fancy-regex counts only its own steps back. Parts of a pattern that need no backtracking go to a linear
//! engine inside it; its walk over the text is not counted, so that the time can be quadratic or worse below
//! the limit. This module passes it a text that counts each access, and the cost of that access.

use std::cell::Cell;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use fancy_regex::{BytesMode, Input, Regex, RegexBuilder};

/// The longest text that is searched. Paths, host names and most fields are shorter.
pub const TEXT_BYTES_MAX: usize = 4096;
/// Bytes walked in one search before it is given up: 2 to 7 ms of a core, measured with the patterns of this
/// module's tests. A worker serves no other request meanwhile.
const WALK_BYTES_MAX: u64 = 2 << 20;
/// The cost of one step of the engine, in bytes walked, each of which takes 2 to 3 ns.
const STEP_BYTES: u64 = 8;
/// Weight of a walk that records groups: it runs on a slower engine, which takes 7 to 10 ns for a byte, and
/// more for a longer pattern.
const GROUPS_WEIGHT: u64 = 4;
/// Bytes of such a pattern that add one to its weight.
const PATTERN_BYTES_A_WEIGHT: usize = 32;
/// Steps back before a search is given up; 2 ms of a core.
const BACKTRACKS_MAX: usize = 100_000;

/// A pattern that only the backtracking engine runs, or that the linear engine runs once it is rewritten.
#[derive(Clone)]
pub struct BacktrackingRegex {
    regex: Regex,
    cost: Cost,
    /// The cost of a byte of a walk.
    weight: u64,
}

/// Start and end of each group of a match; `None` for a group that took no part.
pub type GroupPlaces = Vec<Option<(usize, usize)>>;

/// Options of a pattern: PCRE's letters `i`, `m`, `s` and `x`.
#[derive(Clone, Copy, Debug, Default)]
pub struct BacktrackingOptions {
    /// ASCII letters match in either case.
    pub ignore_case: bool,
    /// `^` and `$` match at line breaks.
    pub multi_line: bool,
    /// `.` matches a line break.
    pub dot_all: bool,
    /// White space in the pattern is ignored.
    pub extended: bool,
    /// `.` and classes match characters, not bytes.
    pub unicode: bool,
}

/// Why a search was given up, so that it is unknown whether the pattern matches.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub enum GaveUp {
    /// The text is longer than [`TEXT_BYTES_MAX`].
    #[error("a pattern with look-around or back-references is searched in {TEXT_BYTES_MAX} bytes at most")]
    TextTooLong,
    /// The search took more than `WALK_BYTES_MAX` or the limit of steps back.
    #[error("the search for a pattern with look-around or back-references took too many steps")]
    TooManySteps,
}

/// The cost of an access to the text, known from the compiled program.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Cost {
    /// The whole pattern runs on the linear engine: no bound is needed.
    Linear,
    /// Each access is one step over a bounded number of bytes.
    Step,
    /// A length asked for directly after the bytes may begin a walk of the linear engine over the whole text.
    Delegated,
    /// Each access may begin such a walk.
    Unknown,
}

impl BacktrackingRegex {
    /// Compiles a pattern. `program_bytes` bounds the compiled size of its parts, `cache_bytes` their
    /// automaton's.
    ///
    /// # Errors
    /// The pattern is malformed or too big; the text says what is wrong.
    pub fn compile(
        source: &str,
        options: BacktrackingOptions,
        program_bytes: usize,
        cache_bytes: usize,
    ) -> Result<Self, String> {
        // PCRE works on bytes unless told otherwise; classes of non-ASCII letters need characters.
        let build = |mode| {
            RegexBuilder::new(source)
                .case_insensitive(options.ignore_case)
                .multi_line(options.multi_line)
                .dot_matches_new_line(options.dot_all)
                .ignore_whitespace(options.extended)
                .bytes_mode(mode)
                .backtrack_limit(BACKTRACKS_MAX)
                .delegate_size_limit(program_bytes)
                .delegate_dfa_size_limit(cache_bytes)
                .build()
        };
        let by_bytes = (!options.unicode).then(|| build(BytesMode::Ascii).ok()).flatten();
        let regex =
            by_bytes.map_or_else(|| build(BytesMode::Unicode), Ok).map_err(|error| error.to_string())?;
        let listing = format!("{:?}", Listing(&regex));
        Ok(Self { cost: Cost::of(&listing), weight: weight(&listing), regex })
    }

    /// Whether the whole pattern runs on the linear engine after all, without a bound.
    #[must_use]
    pub fn is_linear(&self) -> bool {
        self.cost == Cost::Linear
    }

    /// Whether the pattern is found anywhere in `text`.
    ///
    /// # Errors
    /// The search was given up.
    pub fn is_match(&self, text: &[u8]) -> Result<bool, GaveUp> {
        self.search(text, |metered| self.regex.is_match(metered))
    }

    /// As [`Self::is_match`], with the bytes walked: each takes 2 to 3 ns.
    pub fn is_match_counted(&self, text: &[u8]) -> (Result<bool, GaveUp>, u64) {
        let metered = Metered::new(text, self.cost, self.weight);
        let found = self.search_in(&metered, |metered| self.regex.is_match(metered));
        (found, WALK_BYTES_MAX - metered.left_bytes.get())
    }

    /// The places of the groups of the first match at or after byte `from`, the whole match first.
    ///
    /// # Errors
    /// The search was given up.
    pub fn groups_from(&self, text: &[u8], from: usize) -> Result<Option<GroupPlaces>, GaveUp> {
        self.search(text, |metered| {
            let captures = self.regex.captures_from_pos(metered, from)?;
            Ok(captures.map(|captures| (0..captures.len()).map(|index| captures.get(index)).collect()))
        })
    }

    fn search<R>(
        &self,
        text: &[u8],
        search: impl FnOnce(&Metered<'_>) -> fancy_regex::Result<R>,
    ) -> Result<R, GaveUp> {
        self.search_in(&Metered::new(text, self.cost, self.weight), search)
    }

    fn search_in<R>(
        &self,
        metered: &Metered<'_>,
        search: impl FnOnce(&Metered<'_>) -> fancy_regex::Result<R>,
    ) -> Result<R, GaveUp> {
        if self.cost != Cost::Linear && metered.text.len() > TEXT_BYTES_MAX {
            return Err(GaveUp::TextTooLong);
        }
        // The engine can only be stopped by its own limit, so the counting text unwinds it; no message is
        // printed, and the engine's working memory is cleared before each search.
        match catch_unwind(AssertUnwindSafe(|| search(metered))) {
            Ok(found) => found.map_err(|_| GaveUp::TooManySteps),
            Err(payload) if payload.is::<BudgetSpent>() => Err(GaveUp::TooManySteps),
            Err(payload) => resume_unwind(payload),
        }
    }
}

impl fmt::Debug for BacktrackingRegex {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "BacktrackingRegex({:?}, {:?})", self.regex.as_str(), self.cost)
    }
}

impl Cost {
    /// Reads the cost from the program's listing, one instruction per line. An unknown instruction, for
    /// example of a later version of the engine, counts as a costly one.
    fn of(listing: &str) -> Cost {
        if listing.starts_with("wrapped Regex") {
            return Cost::Linear;
        }
        let lines = listing.lines().filter(|line| !line.trim().is_empty());
        lines.map(|line| Cost::of_instruction(line.split_once(": ").map_or("", |(_, rest)| rest))).fold(
            Cost::Step,
            |sum, cost| match (sum, cost) {
                (Cost::Unknown, _) | (_, Cost::Unknown) => Cost::Unknown,
                (Cost::Delegated, _) | (_, Cost::Delegated) => Cost::Delegated,
                _ => Cost::Step,
            },
        )
    }

    fn of_instruction(line: &str) -> Cost {
        let name = line.split(|letter: char| !letter.is_ascii_alphanumeric()).next().unwrap_or("");
        match name {
            // A pattern without a repetition reads no more bytes than it has itself.
            "Delegate" if !line.contains(['*', '+', '{', '?']) || is_bounded_delegate(line) => Cost::Step,
            "Delegate" | "AbsentRepeater" => Cost::Delegated,
            // The end of the text after line breaks, and a case-insensitive back-reference, may walk on.
            "Assertion" if line.contains("EndTextIgnoreTrailingNewlines") => Cost::Unknown,
            "Backref" if line.contains("casei: true") => Cost::Unknown,
            "End"
            | "Any"
            | "AnyNoNL"
            | "AnyNoCRLF"
            | "Assertion"
            | "Lit"
            | "LitBytes"
            | "LitCasei"
            | "CharClass"
            | "Split"
            | "SplitUnanchored"
            | "Jmp"
            | "Save"
            | "Save0"
            | "SaveCaptureGroupStart"
            | "Restore"
            | "RepeatGr"
            | "RepeatNg"
            | "RepeatEpsilonGr"
            | "RepeatEpsilonNg"
            | "FailNegativeLookAround"
            | "GoBack"
            | "Backref"
            | "BeginAtomic"
            | "EndAtomic"
            | "ContinueFromPreviousMatchEnd"
            | "BackrefExistsCondition"
            | "Fail" => Cost::Step,
            _ => Cost::Unknown,
        }
    }
}

/// Whether the listed `Delegate { pattern: "…", … }` holds no repetition; its own braces and the `?` of
/// groups without a capture do not count.
fn is_bounded_delegate(line: &str) -> bool {
    let Some((_, rest)) = line.split_once("pattern: \"") else { return false };
    let Some((pattern, _)) = rest.rsplit_once("\", capture_groups") else { return false };
    !pattern.replace("(?", "(").contains(['*', '+', '{', '?'])
}

/// The cost of a byte of a walk in a listed program: the maximum over its instructions.
fn weight(listing: &str) -> u64 {
    let with_groups = listing.lines().filter(|line| line.contains("capture_groups: Some("));
    with_groups.map(|line| GROUPS_WEIGHT + (line.len() / PATTERN_BYTES_A_WEIGHT) as u64).max().unwrap_or(1)
}

struct Listing<'r>(&'r Regex);

impl fmt::Debug for Listing<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.debug_print(formatter)
    }
}

/// Unwinds a search that has spent its budget.
struct BudgetSpent;

/// A text that counts what a search costs.
struct Metered<'t> {
    text: &'t [u8],
    cost: Cost,
    weight: u64,
    left_bytes: Cell<u64>,
    gave_bytes: Cell<bool>,
}

impl<'t> Metered<'t> {
    fn new(text: &'t [u8], cost: Cost, weight: u64) -> Self {
        Metered { text, cost, weight, left_bytes: Cell::new(WALK_BYTES_MAX), gave_bytes: Cell::new(false) }
    }

    /// The cost of a walk over the whole text.
    fn walk_bytes(&self) -> u64 {
        self.text.len() as u64 * self.weight
    }

    fn charge(&self, bytes: u64) {
        match self.left_bytes.get().checked_sub(bytes) {
            Some(left) => self.left_bytes.set(left),
            None => resume_unwind(Box::new(BudgetSpent)),
        }
    }
}

impl Input for Metered<'_> {
    type Match<'m>
        = (usize, usize)
    where
        Self: 'm;

    #[inline]
    fn len(&self) -> usize {
        if self.cost == Cost::Delegated && self.gave_bytes.replace(false) {
            self.charge(self.walk_bytes());
        }
        self.text.len()
    }

    #[inline]
    fn as_bytes(&self) -> &[u8] {
        match self.cost {
            Cost::Linear => {}
            Cost::Step => self.charge(STEP_BYTES),
            Cost::Delegated => {
                self.gave_bytes.set(true);
                self.charge(STEP_BYTES);
            }
            Cost::Unknown => self.charge(STEP_BYTES + self.walk_bytes()),
        }
        self.text
    }

    fn is_char_boundary(&self, index: usize) -> bool {
        Input::is_char_boundary(self.text, index)
    }

    fn is_ascii(&self) -> bool {
        self.text.is_ascii()
    }

    fn prev_codepoint_ix(&self, index: usize) -> usize {
        Input::prev_codepoint_ix(self.text, index)
    }

    fn make_match<'m>(&'m self, start: usize, end: usize) -> Self::Match<'m> {
        (start, end)
    }

    fn advance_position(&self, index: usize) -> usize {
        index + 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn compile(source: &str) -> BacktrackingRegex {
        BacktrackingRegex::compile(source, BacktrackingOptions::default(), 1 << 20, 1 << 20).unwrap()
    }

    #[test]
    fn cost_is_read_from_the_program() {
        let check = |source: &str, cost: Cost| assert_eq!(compile(source).cost, cost, "{source}");
        check("^a\\Z|b", Cost::Unknown);
        check("[a-z]+(?:x)", Cost::Linear);
        check("(?<!q)foo", Cost::Step);
        check("(?<![a-z])(?:foo|bar)baz", Cost::Step);
        check("^(?:(?!admin).)*$", Cost::Step);
        check("(a)\\1", Cost::Step);
        check("(?<!q)[a-z]+Z$", Cost::Delegated);
        check("(?<!q)[a-z]{2,900}Z", Cost::Delegated);
        check("(?<!x)ab?c", Cost::Delegated);
        check("(?:(?=[a-z]*)a)*b", Cost::Delegated);
        check("(?<=a+)b", Cost::Unknown);
        check("(?i)([a-z])\\1", Cost::Unknown);
    }

    /// Patterns that were found by fuzzing: without the count of bytes, 4 KiB cost 20 ms to 1.2 s.
    #[test]
    fn costly_search_is_given_up_within_budget() {
        let text = vec![b'a'; TEXT_BYTES_MAX];
        for source in [
            "(?<!q)[a-z]+Z$",
            "(?i)(?<!x)[a-z0-9]+bot",
            "^(?:(?![a-z]*Z).)*$",
            "(?:(?=[a-z]*)a)*b",
            "(?:(?=([a-z]*))a)*b",
            "(?>a*)*Z(?=x)",
            "(?<=a+)b",
            "(.+)\\1Z",
            "(a*)*\\1Z",
        ] {
            let regex = compile(source);
            assert_eq!(regex.is_match(&text), Err(GaveUp::TooManySteps), "{source}");
            assert_eq!(regex.groups_from(&text, 0), Err(GaveUp::TooManySteps), "{source}");
            // The engine still works after the unwind.
            assert_eq!(regex.is_match(b""), Ok(source.starts_with('^')), "{source}");
        }
    }

    #[test]
    fn budget_bounds_bytes_not_only_steps_back() {
        let text = vec![b'a'; TEXT_BYTES_MAX];
        let regex = compile("(?<!q)[a-z]+Z$");
        let metered = Metered::new(&text, regex.cost, regex.weight);
        let caught = catch_unwind(AssertUnwindSafe(|| regex.regex.is_match(&metered)));
        assert!(caught.is_err_and(|payload| payload.is::<BudgetSpent>()));
        // Each start walks the rest of the text once, and there are far fewer starts than the limit of steps
        // back.
        assert!(metered.left_bytes.get() < TEXT_BYTES_MAX as u64);
    }

    #[test]
    fn ordinary_texts_stay_within_budget() {
        let check = |source: &str, text: &[u8], found: bool| {
            assert_eq!(compile(source).is_match(text), Ok(found), "{source}");
        };
        let long = vec![b'a'; TEXT_BYTES_MAX];
        check("(?<!q)foo", &long, false);
        check("^(?:(?!admin).)*$", &long, true);
        check("^(?=.*\\d)(?=.*[A-Z]).*$", &long, false);
        check("(?<![a-z])(?:foo|bar)baz", &long, false);
        check("(?<!q)[a-z]+Z$", &long[..1024], false);
        check("(?i)(?<!x)[a-z0-9]+bot", b"Mozilla/5.0 (compatible; Googlebot/2.1)", true);
        check("^(?=.)..$", b"\xff\xfe", true);
    }

    #[test]
    fn text_over_the_bound_is_not_searched() {
        let text = vec![b'x'; TEXT_BYTES_MAX + 1];
        assert_eq!(compile("(?=x)x").is_match(&text), Err(GaveUp::TextTooLong));
        assert_eq!(compile("(?=x)x").is_match(&text[1..]), Ok(true));
        // A pattern that the linear engine runs has no bound.
        assert_eq!(compile("[a-z]+(?:x)").is_match(&text), Ok(true));
    }

    #[test]
    fn groups_have_their_places() {
        let check = |source: &str, text: &str, from: usize, groups: Option<GroupPlaces>| {
            assert_eq!(compile(source).groups_from(text.as_bytes(), from), Ok(groups), "{source}");
        };
        check("(?<=a)(b)|(c)", "abab", 2, Some(vec![Some((3, 4)), Some((3, 4)), None]));
        check("(?<=a)b", "abcc", 2, None);
    }
}
