//! Searches for the patterns of Lua (reference manual of 5.1, section 5.4.1) that are charged to the budget
//! of the call. The searches of the interpreter's own library go back without a limit: a text of a client
//! could hold up a worker for hours.

use mlua::Error;

use super::budget::CallBudget;

/// Captures of one pattern, as in Lua.
const CAPTURES_MAX: usize = 32;
/// Calls of the search inside each other, as in Lua: it bounds the stack.
const DEPTH_MAX: usize = 200;
/// Steps between two charges.
const CHARGED_STEPS: u64 = 1_024;

/// A capture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Capture {
    /// The bytes from here, as many.
    Text(usize, usize),
    /// A place, counted from 0.
    Place(usize),
    /// Begun and not closed.
    Open(usize),
}

/// A match: its first byte, the byte behind it, its captures.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Match {
    pub(super) start: usize,
    pub(super) end: usize,
    pub(super) captures: Vec<Capture>,
}

/// Finds the first match of `pattern` in `text` at or behind the byte `from`.
///
/// # Errors
/// The pattern is malformed or too complex, or the budget is used up.
pub(super) fn find_pattern(
    budget: &CallBudget,
    text: &[u8],
    pattern: &[u8],
    from: usize,
) -> mlua::Result<Option<Match>> {
    let (is_anchored, begin) = match pattern.first() {
        Some(b'^') => (true, 1),
        _ => (false, 0),
    };
    let mut search = PatternSearch { text, pattern, captures: Vec::new(), depth: 0, steps: 0, budget };
    for start in from..=text.len() {
        search.captures.clear();
        if let Some(end) = search.run(start, begin)? {
            if search.captures.iter().any(|capture| matches!(capture, Capture::Open(_))) {
                return Err(Error::runtime("unfinished capture"));
            }
            budget.charge(search.steps)?;
            return Ok(Some(Match { start, end, captures: search.captures }));
        }
        if is_anchored {
            break;
        }
    }
    budget.charge(search.steps)?;
    Ok(None)
}

struct PatternSearch<'a> {
    text: &'a [u8],
    pattern: &'a [u8],
    captures: Vec<Capture>,
    depth: usize,
    steps: u64,
    budget: &'a CallBudget,
}

impl PatternSearch<'_> {
    fn step(&mut self) -> mlua::Result<()> {
        self.steps += 1;
        if self.steps >= CHARGED_STEPS {
            self.budget.charge(std::mem::take(&mut self.steps))?;
        }
        Ok(())
    }

    /// Matches the pattern from its byte `p` at the byte `s` of the text; the byte behind the match.
    fn run(&mut self, s: usize, p: usize) -> mlua::Result<Option<usize>> {
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return Err(Error::runtime("pattern too complex"));
        }
        let end = self.items(s, p);
        self.depth -= 1;
        end
    }

    fn items(&mut self, mut s: usize, mut p: usize) -> mlua::Result<Option<usize>> {
        loop {
            self.step()?;
            let next = self.pattern.get(p + 1).copied();
            match (self.pattern.get(p), next) {
                (None, _) => return Ok(Some(s)),
                (Some(b'('), Some(b')')) => return self.begin_capture(Capture::Place(s), s, p + 2),
                (Some(b'('), _) => return self.begin_capture(Capture::Open(s), s, p + 1),
                (Some(b')'), _) => return self.end_capture(s, p + 1),
                (Some(b'$'), None) => return Ok((s == self.text.len()).then_some(s)),
                (Some(b'%'), Some(b'b')) => match self.balanced(s, p + 2)? {
                    Some(end) => (s, p) = (end, p + 4),
                    None => return Ok(None),
                },
                (Some(b'%'), Some(b'f')) => {
                    p += 2;
                    if self.pattern.get(p) != Some(&b'[') {
                        return Err(Error::runtime("missing '[' after '%f' in pattern"));
                    }
                    let end = self.class_end(p)?;
                    let before = if s == 0 { 0 } else { self.text[s - 1] };
                    let here = self.text.get(s).copied().unwrap_or(0);
                    if self.in_set(before, p, end - 1) || !self.in_set(here, p, end - 1) {
                        return Ok(None);
                    }
                    p = end;
                }
                (Some(b'%'), Some(digit @ b'0'..=b'9')) => match self.same_as_capture(s, digit)? {
                    Some(end) => (s, p) = (end, p + 2),
                    None => return Ok(None),
                },
                (Some(_), _) => {
                    let end = self.class_end(p)?;
                    match self.pattern.get(end) {
                        Some(b'?') => {
                            if self.single(s, p, end)
                                && let Some(found) = self.run(s + 1, end + 1)?
                            {
                                return Ok(Some(found));
                            }
                            p = end + 1;
                        }
                        Some(b'*') => return self.longest(s, p, end, 0),
                        Some(b'+') => return self.longest(s, p, end, 1),
                        Some(b'-') => return self.shortest(s, p, end),
                        _ if self.single(s, p, end) => (s, p) = (s + 1, end),
                        _ => return Ok(None),
                    }
                }
            }
        }
    }

    /// The byte behind the class that begins at `p`.
    fn class_end(&self, p: usize) -> mlua::Result<usize> {
        let malformed = |what: &str| Error::runtime(format!("malformed pattern ({what})"));
        match self.pattern[p] {
            b'%' if p + 1 >= self.pattern.len() => Err(malformed("ends with '%'")),
            b'%' => Ok(p + 2),
            b'[' => {
                let mut at = p + 1;
                if self.pattern.get(at) == Some(&b'^') {
                    at += 1;
                }
                // The first byte of a set is a member of it, a bracket as well.
                loop {
                    match self.pattern.get(at) {
                        None => return Err(malformed("missing ']'")),
                        Some(b'%') => at += 2,
                        Some(_) => at += 1,
                    }
                    if self.pattern.get(at) == Some(&b']') {
                        return Ok(at + 1);
                    }
                }
            }
            _ => Ok(p + 1),
        }
    }

    /// Whether the byte at `s` is in the class of the pattern from `p` to `end`.
    fn single(&self, s: usize, p: usize, end: usize) -> bool {
        let Some(&byte) = self.text.get(s) else { return false };
        match self.pattern[p] {
            b'.' => true,
            b'%' => is_in_class(byte, self.pattern[p + 1]),
            b'[' => self.in_set(byte, p, end - 1),
            own => own == byte,
        }
    }

    /// Whether `byte` is in the set between the brackets at `p` and `last`.
    fn in_set(&self, byte: u8, p: usize, last: usize) -> bool {
        let (is_wanted, mut at) = match self.pattern.get(p + 1) {
            Some(b'^') => (false, p + 2),
            _ => (true, p + 1),
        };
        while at < last {
            if self.pattern[at] == b'%' {
                if is_in_class(byte, self.pattern[at + 1]) {
                    return is_wanted;
                }
                at += 2;
            } else if self.pattern.get(at + 1) == Some(&b'-') && at + 2 < last {
                if (self.pattern[at]..=self.pattern[at + 2]).contains(&byte) {
                    return is_wanted;
                }
                at += 3;
            } else {
                if self.pattern[at] == byte {
                    return is_wanted;
                }
                at += 1;
            }
        }
        !is_wanted
    }

    fn longest(&mut self, s: usize, p: usize, end: usize, least: usize) -> mlua::Result<Option<usize>> {
        let mut count = 0;
        while self.single(s + count, p, end) {
            count += 1;
            self.step()?;
        }
        loop {
            if count < least {
                return Ok(None);
            }
            if let Some(found) = self.run(s + count, end + 1)? {
                return Ok(Some(found));
            }
            match count.checked_sub(1) {
                Some(fewer) => count = fewer,
                None => return Ok(None),
            }
        }
    }

    fn shortest(&mut self, mut s: usize, p: usize, end: usize) -> mlua::Result<Option<usize>> {
        loop {
            if let Some(found) = self.run(s, end + 1)? {
                return Ok(Some(found));
            }
            if !self.single(s, p, end) {
                return Ok(None);
            }
            s += 1;
        }
    }

    fn balanced(&mut self, s: usize, p: usize) -> mlua::Result<Option<usize>> {
        let (Some(&open), Some(&close)) = (self.pattern.get(p), self.pattern.get(p + 1)) else {
            return Err(Error::runtime("unbalanced pattern"));
        };
        if self.text.get(s) != Some(&open) {
            return Ok(None);
        }
        let mut level = 1;
        for at in s + 1..self.text.len() {
            self.step()?;
            let byte = self.text[at];
            if byte == close {
                level -= 1;
                if level == 0 {
                    return Ok(Some(at + 1));
                }
            } else if byte == open {
                level += 1;
            }
        }
        Ok(None)
    }

    fn begin_capture(&mut self, capture: Capture, s: usize, p: usize) -> mlua::Result<Option<usize>> {
        if self.captures.len() >= CAPTURES_MAX {
            return Err(Error::runtime("too many captures"));
        }
        self.captures.push(capture);
        let end = self.run(s, p)?;
        if end.is_none() {
            self.captures.pop();
        }
        Ok(end)
    }

    fn end_capture(&mut self, s: usize, p: usize) -> mlua::Result<Option<usize>> {
        let open = self.captures.iter().rposition(|capture| matches!(capture, Capture::Open(_)));
        let index = open.ok_or_else(|| Error::runtime("invalid pattern capture"))?;
        let Capture::Open(start) = self.captures[index] else { return Ok(None) };
        self.captures[index] = Capture::Text(start, s - start);
        let end = self.run(s, p)?;
        if end.is_none() {
            self.captures[index] = Capture::Open(start);
        }
        Ok(end)
    }

    fn same_as_capture(&mut self, s: usize, digit: u8) -> mlua::Result<Option<usize>> {
        let index = usize::from(digit).checked_sub(usize::from(b'1'));
        match index.and_then(|index| self.captures.get(index)) {
            Some(&Capture::Text(start, length)) => {
                self.steps += length as u64;
                let is_same = self.text.get(s..s + length) == self.text.get(start..start + length);
                Ok(is_same.then_some(s + length))
            }
            _ => Err(Error::runtime("invalid capture index")),
        }
    }
}

/// Whether `byte` is in the class that `%` and `class` name; another byte than a letter names itself.
fn is_in_class(byte: u8, class: u8) -> bool {
    let is_in = match class.to_ascii_lowercase() {
        b'a' => byte.is_ascii_alphabetic(),
        b'c' => byte.is_ascii_control(),
        b'd' => byte.is_ascii_digit(),
        b'g' => byte.is_ascii_graphic(),
        b'l' => byte.is_ascii_lowercase(),
        b'p' => byte.is_ascii_punctuation(),
        b's' => matches!(byte, b' ' | 9..=13),
        b'u' => byte.is_ascii_uppercase(),
        b'w' => byte.is_ascii_alphanumeric(),
        b'x' => byte.is_ascii_hexdigit(),
        b'z' => byte == 0,
        _ => return class == byte,
    };
    is_in != class.is_ascii_uppercase()
}
