//! Substitution by regular expression, as configurations write it for `ngx.re.sub`: a pattern and a template
//! with the captures `$1` or `${1}`, the whole match `$0`, and `$$` for a dollar sign.
//!
//! Patterns run on the linear-time engine; only one that needs look-around or back-references runs on the
//! backtracking engine, which gives up on long texts and after a number of bytes walked. A search that was
//! given up is neither a match nor a miss. A whole body is not searched by that engine at all.

use router::vars::{BacktrackingOptions, BacktrackingRegex, GaveUp, own_groups, rewrite_line_ends};

/// Compiled size of one pattern: a thousand alternatives fit, repetitions of repetitions do not.
const PROGRAM_BYTES_MAX: usize = 1 << 20;
/// Cache of the lazy automaton, per pattern and thread.
const CACHE_BYTES_MAX: usize = 1 << 20;

/// Matches that are replaced between two readings of the clock: in a body of 64 MiB a costly one takes some
/// 50 ms.
const MATCHES_BETWEEN_LOOKS: usize = 8;

/// A compiled pattern that remembers what its groups matched.
pub(crate) struct Matcher {
    engine: SubstitutionEngine,
}

enum SubstitutionEngine {
    Backtracking(Box<BacktrackingRegex>),
    Linear(Box<LinearRegex>),
}

struct LinearRegex {
    regex: regex::bytes::Regex,
    /// Groups that are not the pattern's own: one that takes part has consumed a last line break for a `$`.
    inserted: Box<[usize]>,
}

/// The places of the groups of a match, the whole match first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Groups {
    spans: Vec<Option<(usize, usize)>>,
}

/// The options of PCRE that a pattern has: the letters of `ngx.re`.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct PatternOptions {
    ignore_case: bool,
    multi_line: bool,
    dot_all: bool,
    extended: bool,
}

impl PatternOptions {
    /// Parses letters such as `jo`. `j`, `o`, `d`, `D`, `J`, `u` and `U` concern PCRE's engine alone. `a`
    /// (anchored) is refused: write `^`.
    ///
    /// # Errors
    /// Names the unknown letter.
    pub(crate) fn parse(letters: &str) -> Result<PatternOptions, String> {
        let mut options = PatternOptions::default();
        for letter in letters.chars() {
            match letter {
                'i' => options.ignore_case = true,
                'm' => options.multi_line = true,
                's' => options.dot_all = true,
                'x' => options.extended = true,
                'j' | 'o' | 'd' | 'D' | 'J' | 'u' | 'U' => {}
                _ => return Err(format!("the option `{letter}` is not known; use letters of \"imsxjou\"")),
            }
        }
        Ok(options)
    }
}

impl Matcher {
    /// Compiles a pattern.
    ///
    /// # Errors
    /// The pattern is malformed or too big.
    pub(crate) fn compile(source: &str, options: PatternOptions) -> Result<Matcher, String> {
        // PCRE works on bytes unless told otherwise; classes of non-ASCII letters need characters.
        let rewritten = if options.multi_line { None } else { rewrite_line_ends(source, options.extended) };
        let (linear_source, inserted) = match &rewritten {
            Some(rewritten) => (&*rewritten.source, &*rewritten.inserted),
            None => (source, &[][..]),
        };
        for unicode in [false, true] {
            let regex = regex::bytes::RegexBuilder::new(linear_source)
                .case_insensitive(options.ignore_case)
                .multi_line(options.multi_line)
                .dot_matches_new_line(options.dot_all)
                .ignore_whitespace(options.extended)
                .unicode(unicode)
                .size_limit(PROGRAM_BYTES_MAX)
                .dfa_size_limit(CACHE_BYTES_MAX)
                .build();
            if let Ok(regex) = regex {
                let linear = LinearRegex { regex, inserted: inserted.into() };
                return Ok(Matcher { engine: SubstitutionEngine::Linear(Box::new(linear)) });
            }
        }
        let options = BacktrackingOptions {
            ignore_case: options.ignore_case,
            multi_line: options.multi_line,
            dot_all: options.dot_all,
            extended: options.extended,
            unicode: false,
        };
        let regex = BacktrackingRegex::compile(source, options, PROGRAM_BYTES_MAX, CACHE_BYTES_MAX)?;
        Ok(Matcher { engine: SubstitutionEngine::Backtracking(Box::new(regex)) })
    }

    /// Refuses a pattern that is too costly for a whole body.
    ///
    /// # Errors
    /// The pattern needs the backtracking engine.
    pub(crate) fn require_linear(&self) -> Result<(), String> {
        match &self.engine {
            SubstitutionEngine::Backtracking(regex) if !regex.is_linear() => Err(
                "look-around and back-references are not searched for in a whole body; write a pattern without them"
                    .to_owned(),
            ),
            SubstitutionEngine::Backtracking(_) | SubstitutionEngine::Linear(_) => Ok(()),
        }
    }

    /// The first match at or after byte `from`.
    ///
    /// # Errors
    /// The search was given up, so that it is unknown whether there is a match.
    pub(crate) fn find(&self, text: &[u8], from: usize) -> Result<Option<Groups>, GaveUp> {
        let spans = match &self.engine {
            SubstitutionEngine::Linear(linear) => {
                linear.regex.captures_at(text, from).map(|found| own_groups(&found, &linear.inserted))
            }
            SubstitutionEngine::Backtracking(regex) => regex.groups_from(text, from)?,
        };
        Ok(spans.map(|spans| Groups { spans }))
    }
}

impl Groups {
    /// Start and end of the whole match.
    pub(crate) fn whole(&self) -> (usize, usize) {
        self.spans.first().copied().flatten().expect("a match has a place")
    }

    /// The text that group `index` matched in `text`, the text that was searched; empty for a group that took
    /// no part.
    pub(crate) fn text<'t>(&self, index: usize, text: &'t [u8]) -> &'t [u8] {
        self.spans.get(index).copied().flatten().map_or(b"", |(start, end)| &text[start..end])
    }
}

/// A compiled replacement template.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Replacement {
    pieces: Vec<SubstitutionPiece>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum SubstitutionPiece {
    Text(Box<str>),
    Group(usize),
}

/// A piece of a replacement as a caller sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReplacementPart<'r> {
    /// Text of the configuration.
    Text(&'r str),
    /// The group of this number.
    Group(usize),
}

impl Replacement {
    /// Its pieces, in order.
    pub(crate) fn parts(&self) -> impl Iterator<Item = ReplacementPart<'_>> {
        self.pieces.iter().map(|piece| match piece {
            SubstitutionPiece::Text(text) => ReplacementPart::Text(text),
            SubstitutionPiece::Group(index) => ReplacementPart::Group(*index),
        })
    }

    /// Compiles a template.
    ///
    /// # Errors
    /// A dollar sign without a group's number: write `$$` for a dollar sign.
    pub(crate) fn compile(template: &str) -> Result<Replacement, String> {
        let mut pieces = Vec::new();
        let mut plain = String::new();
        let mut rest = template;
        while let Some(dollar) = rest.find('$') {
            plain.push_str(&rest[..dollar]);
            rest = &rest[dollar + 1..];
            if let Some(after) = rest.strip_prefix('$') {
                plain.push('$');
                rest = after;
                continue;
            }
            let (number, after) = group_number(rest).ok_or_else(|| {
                format!("`{template}`: after `$` comes a group's number; write `$$` for a dollar sign")
            })?;
            if !plain.is_empty() {
                pieces.push(SubstitutionPiece::Text(std::mem::take(&mut plain).into()));
            }
            pieces.push(SubstitutionPiece::Group(number));
            rest = after;
        }
        plain.push_str(rest);
        if !plain.is_empty() {
            pieces.push(SubstitutionPiece::Text(plain.into()));
        }
        Ok(Replacement { pieces })
    }

    /// Appends the template with the texts that the groups matched in `text`.
    pub(crate) fn expand(&self, groups: &Groups, text: &[u8], out: &mut Vec<u8>) {
        for piece in &self.pieces {
            match piece {
                SubstitutionPiece::Text(plain) => out.extend_from_slice(plain.as_bytes()),
                SubstitutionPiece::Group(index) => out.extend_from_slice(groups.text(*index, text)),
            }
        }
    }
}

/// The number at the start of `rest`, plain or in braces, and the rest after it.
fn group_number(rest: &str) -> Option<(usize, &str)> {
    let (digits, after) = match rest.strip_prefix('{') {
        Some(inside) => inside.split_once('}')?,
        None => rest.split_at(rest.bytes().take_while(u8::is_ascii_digit).count()),
    };
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    Some((digits.parse().ok()?, after))
}

/// A pattern with its replacement.
pub(crate) struct Substitution {
    /// The pattern.
    pub(crate) matcher: Matcher,
    /// The replacement of a match.
    pub(crate) replacement: Replacement,
}

impl Substitution {
    /// Compiles a pattern and its replacement.
    ///
    /// # Errors
    /// As [`Matcher::compile`] and [`Replacement::compile`].
    pub(crate) fn compile(
        pattern: &str,
        template: &str,
        options: PatternOptions,
    ) -> Result<Substitution, String> {
        Ok(Substitution {
            matcher: Matcher::compile(pattern, options)?,
            replacement: Replacement::compile(template)?,
        })
    }

    /// `text` with its first match replaced, and the groups of that match; `None` without a match.
    ///
    /// # Errors
    /// As [`Matcher::find`].
    pub(crate) fn once(&self, text: &[u8]) -> Result<Option<(Vec<u8>, Groups)>, GaveUp> {
        let Some(groups) = self.matcher.find(text, 0)? else { return Ok(None) };
        let (start, end) = groups.whole();
        let mut out = Vec::with_capacity(text.len());
        out.extend_from_slice(&text[..start]);
        self.replacement.expand(&groups, text, &mut out);
        out.extend_from_slice(&text[end..]);
        Ok(Some((out, groups)))
    }

    /// `text` with every match replaced; `None` without a match. A search may read all of the following text,
    /// so that many matches are quadratic in the text even on the linear engine; `is_late` says now and then
    /// whether to give up.
    ///
    /// # Errors
    /// As [`Matcher::find`], or because it was late.
    pub(crate) fn all(
        &self,
        text: &[u8],
        mut is_late: impl FnMut() -> bool,
    ) -> Result<Option<Vec<u8>>, GaveUp> {
        let mut out = Vec::new();
        let mut copied = 0;
        let mut from = 0;
        let mut matches = 0_usize;
        while from <= text.len()
            && let Some(groups) = self.matcher.find(text, from)?
        {
            matches += 1;
            if matches.is_multiple_of(MATCHES_BETWEEN_LOOKS) && is_late() {
                return Err(GaveUp::TooManySteps);
            }
            let (start, end) = groups.whole();
            out.extend_from_slice(&text[copied..start]);
            self.replacement.expand(&groups, text, &mut out);
            copied = end;
            // An empty match must not be found for ever.
            from = if end == start { end + 1 } else { end };
        }
        if from == 0 {
            return Ok(None);
        }
        out.extend_from_slice(&text[copied..]);
        Ok(Some(out))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(
        pattern: &str,
        template: &str,
        letters: &str,
        text: &str,
        once: Option<&str>,
        all: Option<&str>,
    ) {
        let options = PatternOptions::parse(letters).unwrap();
        let substitution = Substitution::compile(pattern, template, options).unwrap();
        let got = substitution.once(text.as_bytes()).unwrap().map(|(out, _)| String::from_utf8(out).unwrap());
        assert_eq!(got.as_deref(), once, "{pattern} {template} {text}");
        let got =
            substitution.all(text.as_bytes(), || false).unwrap().map(|out| String::from_utf8(out).unwrap());
        assert_eq!(got.as_deref(), all, "{pattern} {template} {text}");
    }

    #[test]
    fn substitutions() {
        check("^/a/(.*)/(.*)", "/$1-${2}3", "jo", "/a/x/y", Some("/x-y3"), Some("/x-y3"));
        check("b", "<$0>", "jo", "abcb", Some("a<b>cb"), Some("a<b>c<b>"));
        check("B", "$$", "ijo", "abb", Some("a$b"), Some("a$$"));
        check("x", "y", "jo", "abc", None, None);
        check("^b", "c", "m", "a\nb\nb", Some("a\nc\nb"), Some("a\nc\nc"));
        check("a.b", "c", "s", "a\nb", Some("c"), Some("c"));
        check("(?<=a)b", "c", "jo", "abab", Some("acab"), Some("acac"));
        check("(a)|b", "[$1$7]", "jo", "ba", Some("[]a"), Some("[][a]"));
        check("x*", "-", "jo", "ab", Some("-ab"), Some("-a-b-"));
        // As in PCRE, `$` also stands before a last line break, and takes none away.
        check("\\w\\S+$", "*", "jo", "hello world\n", Some("hello *\n"), Some("hello *\n"));
        check("(d)$|(o$)(x)?", "<$1$2$3>", "jo", "world\n", Some("worl<d>\n"), Some("worl<d>\n"));
        check("(l)(d$)", "$2$1", "jo", "world\n", Some("wordl\n"), Some("wordl\n"));
        check("\\s+$", "!", "jo", "a \n", Some("a!"), Some("a!"));
        check("d$", "*", "jo", "d\nd\n\n", None, None);
        check("d$", "*", "m", "d\nd\n\n", Some("*\nd\n\n"), Some("*\n*\n\n"));
        check("^$", "-", "jo", "\n", Some("-\n"), Some("-\n"));
    }

    #[test]
    fn refused() {
        for template in ["$", "$a", "${", "${a}", "${}", "a$ b"] {
            assert!(Replacement::compile(template).is_err(), "{template}");
        }
        for pattern in ["(", "[a", "(?<n>a"] {
            assert!(Matcher::compile(pattern, PatternOptions::default()).is_err(), "{pattern}");
        }
        assert!(PatternOptions::parse("jq").is_err());
    }

    #[test]
    fn abandoned_search_is_no_miss() {
        let matcher = Matcher::compile("(?<!q)[a-z]+Z$", PatternOptions::default()).unwrap();
        assert_eq!(matcher.find(&[b'a'; 4_000], 0), Err(GaveUp::TooManySteps));
        assert_eq!(matcher.find(&[b'a'; 8_000], 0), Err(GaveUp::TextTooLong));
        assert_eq!(matcher.find(&[b'a'; 100], 0), Ok(None));
    }

    #[test]
    fn late_replacement_is_given_up() {
        let substitution = Substitution::compile("[a-z]+Z|a", "b", PatternOptions::default()).unwrap();
        let mut looks = 0;
        let late = substitution.all(&[b'a'; 1_000], || {
            looks += 1;
            looks == 3
        });
        assert_eq!((late, looks), (Err(GaveUp::TooManySteps), 3));
        assert!(
            substitution.all(&[b'a'; 1_000], || false).is_ok_and(|edited| edited == Some(vec![b'b'; 1_000]))
        );
    }

    #[test]
    fn whole_body_needs_linear_pattern() {
        let check = |pattern: &str, linear: bool| {
            let matcher = Matcher::compile(pattern, PatternOptions::default()).unwrap();
            assert_eq!(matcher.require_linear().is_ok(), linear, "{pattern}");
        };
        check("[a-z]+Z", true);
        check("(?>a+)b", false);
        check("(?<!q)[a-z]+Z", false);
        check("(a)\\1", false);
    }
}
