//! One path of a route: its literal beginning, and the pattern that the rest of a request path must match.
//!
//! It knows neither tables nor priorities. `*` matches any bytes, slashes and none included. At the start of
//! a segment it may carry a name (`/a/*rest/b`), made of letters, digits, `_` and `-`; whatever follows is
//! literal again. With parameters, a segment `:name` matches one segment that is not empty; a colon inside a
//! segment is a colon. A template of a contract (`/pets/{id}.json`) has parameters in braces, each with at
//! least one byte of one segment, and no wildcards.

use std::ops::Range;

use smallvec::SmallVec;

use crate::params::Params;

/// The longest path a route may name, as in APISIX.
pub(crate) const PATH_BYTES_MAX: usize = 4096;

/// The most `*` in one path; matching is quadratic in the path at worst, and this limits the factor.
pub(crate) const WILDCARDS_MAX: usize = 8;

/// Parameters of one template; matching is linear in them.
const TEMPLATE_PARAMETERS_MAX: usize = 64;

/// The two bytes around the name of a parameter.
const BRACES: usize = 2;

/// One path of a route, read for routers without and with parameters.
#[derive(Clone, Debug)]
pub(crate) struct PathPattern {
    text: Box<str>,
    /// The length by which patterns with the same literal beginning are ordered.
    rank_length: u16,
    is_template: bool,
    /// `None` if the text is literal in both readings, which saves memory for nearly every route.
    readings: Option<Box<Readings>>,
}

#[derive(Clone, Debug)]
struct Readings {
    plain: Reading,
    with_parameters: Reading,
}

/// One reading: the literal beginning, then the pieces to match.
#[derive(Clone, Debug)]
struct Reading {
    literal_length: usize,
    tokens: Box<[Token]>,
}

#[derive(Clone, Debug, Eq, PartialEq)]
enum Token {
    /// Any bytes; the range is the name in the text, which may be empty.
    Any(Range<u16>),
    /// These bytes of the text.
    Literal(Range<u16>),
    /// One segment; the range is its name.
    Segment(Range<u16>),
    /// The beginning of a segment, up to the literal that follows; the range is its name.
    SegmentPart(Range<u16>),
}

/// The range of each parameter's value in the request path.
type Captures = SmallVec<[(Range<u16>, Range<usize>); 8]>;

impl PathPattern {
    pub(crate) fn parse(text: &str) -> Result<Self, &'static str> {
        if text.is_empty() {
            return Err("is empty");
        }
        if text.len() > PATH_BYTES_MAX {
            return Err("is longer than 4096 bytes");
        }
        if text.bytes().filter(|&byte| byte == b'*').count() > WILDCARDS_MAX {
            return Err("has more than 8 wildcards");
        }
        let plain = Reading::parse(text.as_bytes(), false);
        let with_parameters = Reading::parse(text.as_bytes(), true);
        let literal = plain.tokens.is_empty() && with_parameters.tokens.is_empty();
        let readings = (!literal).then(|| Box::new(Readings { plain, with_parameters }));
        Ok(Self { text: text.into(), rank_length: length_of(text.len()), is_template: false, readings })
    }

    /// A template with parameters in braces (RFC 6570 level 1, as OpenAPI has it). A parameter counts as one
    /// byte where patterns with the same literal beginning are ordered, like a wildcard.
    pub(crate) fn parse_template(text: &str) -> Result<Self, &'static str> {
        if text.is_empty() {
            return Err("is empty");
        }
        if text.len() > PATH_BYTES_MAX {
            return Err("is longer than 4096 bytes");
        }
        let reading = Reading::parse_template(text)?;
        let names = reading.tokens.iter().filter(|token| !matches!(token, Token::Literal(_)));
        let in_braces: usize = names.map(|token| token.range().len() + BRACES - 1).sum();
        let rank_length = length_of(text.len() - in_braces);
        let readings = (!reading.tokens.is_empty())
            .then(|| Box::new(Readings { plain: reading.clone(), with_parameters: reading }));
        Ok(Self { text: text.into(), rank_length, is_template: true, readings })
    }

    /// The length by which patterns with the same literal beginning are ordered.
    pub(crate) fn rank_length(&self) -> u16 {
        self.rank_length
    }

    /// Whether it was read as a template: its parameters match less than wildcards.
    pub(crate) fn is_template(&self) -> bool {
        self.is_template
    }

    /// Whether `path` matches; then the values of parameters are added to `params`.
    pub(crate) fn read(&self, path: &[u8], params: &mut Params) -> bool {
        path.starts_with(self.literal(false)) && self.fits(false, path, Some(params))
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.text
    }

    /// Whether the pattern matches only a path that is equal to it.
    pub(crate) fn is_exact(&self, with_parameters: bool) -> bool {
        self.reading(with_parameters).is_none_or(|reading| reading.tokens.is_empty())
    }

    /// The bytes with which every matching path begins.
    pub(crate) fn literal(&self, with_parameters: bool) -> &[u8] {
        let length = self.reading(with_parameters).map_or(self.text.len(), |reading| reading.literal_length);
        &self.text.as_bytes()[..length]
    }

    /// Whether the whole of `path`, which begins with the literal, matches. Writes parameters into `params`,
    /// if given.
    pub(crate) fn fits(&self, with_parameters: bool, path: &[u8], params: Option<&mut Params>) -> bool {
        let Some(reading) = self.reading(with_parameters) else {
            return path == self.text.as_bytes();
        };
        if params.is_none() && matches!(*reading.tokens, [Token::Any(_)]) {
            return true;
        }
        let text = self.text.as_bytes();
        let mut captures = Captures::new();
        if !reading.fits(text, path, &mut captures) {
            return false;
        }
        if let Some(params) = params {
            captures.sort_unstable_by_key(|capture| capture.1.start);
            for (name, value) in captures {
                let name = &text[usize::from(name.start)..usize::from(name.end)];
                params.push(if name.is_empty() { ANONYMOUS } else { name }, &path[value]);
            }
        }
        true
    }

    fn reading(&self, with_parameters: bool) -> Option<&Reading> {
        let readings = self.readings.as_deref()?;
        Some(if with_parameters { &readings.with_parameters } else { &readings.plain })
    }
}

impl Reading {
    fn parse(text: &[u8], with_parameters: bool) -> Self {
        let mut tokens = Vec::new();
        let mut literal_start = 0;
        let mut index = 0;
        while index < text.len() {
            let starts_segment = index > 0 && text[index - 1] == b'/';
            let name = match text[index] {
                b'*' if starts_segment => text[index + 1..].iter().take_while(|byte| is_name(**byte)).count(),
                b'*' => 0,
                b':' if with_parameters && starts_segment => {
                    text[index + 1..].iter().take_while(|byte| **byte != b'/').count()
                }
                _ => {
                    index += 1;
                    continue;
                }
            };
            push_literal(&mut tokens, literal_start..index);
            let name = short(index + 1..index + 1 + name);
            literal_start = usize::from(name.end);
            tokens.push(if text[index] == b'*' { Token::Any(name) } else { Token::Segment(name) });
            index = literal_start;
        }
        push_literal(&mut tokens, literal_start..text.len());
        Self::from_tokens(tokens)
    }

    fn parse_template(text: &str) -> Result<Self, &'static str> {
        let bytes = text.as_bytes();
        let mut tokens = Vec::new();
        let mut literal_start = 0;
        while let Some(open) = memchr::memchr(b'{', &bytes[literal_start..]) {
            let open = literal_start + open;
            push_literal(&mut tokens, literal_start..open);
            let length = memchr::memchr(b'}', &bytes[open..]).ok_or("has a `{` without a `}`")?;
            let name = short(open + 1..open + length);
            if name.is_empty() {
                return Err("has a parameter without a name");
            }
            if bytes[open..open + length].contains(&b'/') {
                return Err("has a parameter over several segments");
            }
            if open == literal_start && !tokens.is_empty() {
                return Err("has two parameters with no text between them");
            }
            literal_start = open + length + 1;
            let is_at_end = bytes.get(literal_start).is_none_or(|next| *next == b'/');
            tokens.push(if is_at_end { Token::Segment(name) } else { Token::SegmentPart(name) });
            if tokens.len() > 2 * TEMPLATE_PARAMETERS_MAX {
                return Err("has more than 64 parameters");
            }
        }
        if bytes[literal_start..].contains(&b'}') {
            return Err("has a `}` without a `{`");
        }
        push_literal(&mut tokens, literal_start..text.len());
        Ok(Self::from_tokens(tokens))
    }

    /// Splits the leading literal off.
    fn from_tokens(mut tokens: Vec<Token>) -> Self {
        let literal_length = match tokens.first() {
            Some(Token::Literal(range)) => usize::from(range.end),
            _ => 0,
        };
        if literal_length > 0 {
            tokens.remove(0);
        }
        Self { literal_length, tokens: tokens.into_boxed_slice() }
    }

    /// Matches the pieces between wildcards from the right, each as far right as possible, so that the first
    /// wildcard takes the most bytes, as in a greedy regular expression. A piece has one possible end for
    /// each start, and the end only moves right with the start, so no choice has to be taken back.
    fn fits(&self, text: &[u8], path: &[u8], captures: &mut Captures) -> bool {
        let first_any = self.tokens.iter().position(Token::is_any).unwrap_or(self.tokens.len());
        let (head, mut rest) = self.tokens.split_at(first_any);
        let Some(head_end) = fit_piece(head, text, path, self.literal_length, captures) else {
            return false;
        };
        if rest.is_empty() {
            return head_end == path.len();
        }
        let mut limit = path.len();
        let mut last = true;
        // The text of a wildcard ends at the start of the following piece, which the next round finds.
        let mut open: Option<(Range<u16>, usize)> = None;
        while let Some(any) = rest.iter().rposition(Token::is_any) {
            let Some(piece) = fit_rightmost(&rest[any + 1..], text, path, head_end..limit, last, captures)
            else {
                return false;
            };
            if let Some((name, end)) = open.replace((rest[any].range(), piece.start)) {
                captures.push((name, piece.end..end));
            }
            rest = &rest[..any];
            limit = piece.start;
            last = false;
        }
        if let Some((name, end)) = open {
            captures.push((name, head_end..end));
        }
        true
    }
}

impl Token {
    fn is_any(&self) -> bool {
        matches!(self, Self::Any(_))
    }

    /// The bytes of the text that the token is made of: its name, or the literal.
    fn range(&self) -> Range<u16> {
        let (Self::Any(range) | Self::Literal(range) | Self::Segment(range) | Self::SegmentPart(range)) =
            self;
        range.clone()
    }
}

/// Matches tokens without wildcards at `start`; returns the end.
fn fit_piece(
    tokens: &[Token],
    text: &[u8],
    path: &[u8],
    start: usize,
    captures: &mut Captures,
) -> Option<usize> {
    let mut position = start;
    for (index, token) in tokens.iter().enumerate() {
        match token {
            Token::Literal(range) => {
                let literal = &text[usize::from(range.start)..usize::from(range.end)];
                if !path[position..].starts_with(literal) {
                    return None;
                }
                position += literal.len();
            }
            Token::Any(name) | Token::Segment(name) => {
                let rest = &path[position..];
                let length = memchr::memchr(b'/', rest).unwrap_or(rest.len());
                if length == 0 {
                    return None;
                }
                captures.push((name.clone(), position..position + length));
                position += length;
            }
            Token::SegmentPart(name) => {
                let length = part_length(&tokens[index + 1..], text, &path[position..])?;
                captures.push((name.clone(), position..position + length));
                position += length;
            }
        }
    }
    Some(position)
}

/// The length of a value that the literal behind it ends: the last token is found from the right, so that
/// `{name}.json` has `a.json` of `a.json.json`; any other at its first place.
fn part_length(behind: &[Token], text: &[u8], path: &[u8]) -> Option<usize> {
    let Some((Token::Literal(range), further)) = behind.split_first() else { return None };
    let literal = &text[usize::from(range.start)..usize::from(range.end)];
    let length = match further {
        [] => path.len().checked_sub(literal.len())?,
        _ => 1 + memchr::memmem::find(path.get(1..)?, literal)?,
    };
    let value = &path[..length];
    (!value.is_empty() && memchr::memchr(b'/', value).is_none()).then_some(length)
}

/// The rightmost match of the piece in `within`: it ends at the range's end if the piece is the last,
/// otherwise anywhere in it.
fn fit_rightmost(
    tokens: &[Token],
    text: &[u8],
    path: &[u8],
    within: Range<usize>,
    last: bool,
    captures: &mut Captures,
) -> Option<Range<usize>> {
    let kept = captures.len();
    for start in (within.start..=within.end).rev() {
        captures.truncate(kept);
        let end = fit_piece(tokens, text, path, start, captures);
        if let Some(end) = end.filter(|&end| if last { end == within.end } else { end <= within.end }) {
            return Some(start..end);
        }
    }
    None
}

fn push_literal(tokens: &mut Vec<Token>, range: Range<usize>) {
    if !range.is_empty() {
        tokens.push(Token::Literal(short(range)));
    }
}

/// A length of at most [`PATH_BYTES_MAX`].
fn length_of(bytes: usize) -> u16 {
    u16::try_from(bytes).unwrap_or(u16::MAX)
}

fn short(range: Range<usize>) -> Range<u16> {
    let short = |offset: usize| u16::try_from(offset).expect("a pattern has at most PATH_BYTES_MAX bytes");
    short(range.start)..short(range.end)
}

fn is_name(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-'
}

/// The parameter name of a nameless `*`, as in APISIX.
const ANONYMOUS: &[u8] = b":ext";

#[cfg(test)]
mod tests;
