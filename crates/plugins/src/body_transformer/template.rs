//! Templates in the syntax of lua-resty-template, compiled to Lua when the configuration is checked. It
//! renders nothing.

use std::borrow::Cow;
use std::sync::Arc;

use lua::LuaScript;

/// The name of templates in messages.
const NAME: &str = "template";

/// A compiled template.
#[derive(Debug)]
pub(super) struct BodyTemplate {
    pub(super) script: Arc<LuaScript>,
    /// The line of the template for each line of the script.
    lines: Box<[u32]>,
}

/// The kinds of tags, with the byte behind the brace and the end.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Tag {
    Escaped,
    Raw,
    Code,
    Comment,
    Block,
    Include,
}

impl Tag {
    fn of(byte: u8) -> Option<(Tag, &'static [u8])> {
        Some(match byte {
            b'{' => (Tag::Escaped, b"}}"),
            b'*' => (Tag::Raw, b"*}"),
            b'%' => (Tag::Code, b"%}"),
            b'#' => (Tag::Comment, b"#}"),
            b'-' => (Tag::Block, b"-}"),
            b'(' => (Tag::Include, b")}"),
            b'[' => (Tag::Include, b"]}"),
            _ => return None,
        })
    }
}

impl BodyTemplate {
    /// Compiles `text`.
    ///
    /// # Errors
    /// The line and the reason, `template:LINE: reason`.
    pub(super) fn compile(text: &[u8]) -> Result<BodyTemplate, String> {
        let mut writer = TemplateScriptWriter { text, source: HEAD.to_vec(), lines: vec![1] };
        writer.write()?;
        writer.source.extend_from_slice(b"return __c(___)\n");
        let lines: Box<[u32]> = writer.lines.into();
        match LuaScript::compile(NAME, writer.source) {
            Ok(script) => Ok(BodyTemplate { script, lines }),
            Err(reason) => Err(relocate(&lines, &reason).into_owned()),
        }
    }

    /// A message about the script with the lines of the template in it.
    pub(super) fn relocate<'a>(&self, message: &'a str) -> Cow<'a, str> {
        relocate(&self.lines, message)
    }
}

/// The beginning of each script: the list of texts, and the functions of the tags, which fields of a body
/// cannot hide.
const HEAD: &[u8] = b"local context,__e,__t,__c,echo=... local ___={} local echo=echo(___)\n";

/// Writes the script of a template.
struct TemplateScriptWriter<'a> {
    text: &'a [u8],
    source: Vec<u8>,
    lines: Vec<u32>,
}

impl TemplateScriptWriter<'_> {
    fn write(&mut self) -> Result<(), String> {
        let text = self.text;
        // The first byte that is not written yet, and the byte to search from.
        let (mut done, mut from) = (0, 0);
        while let Some(at) = memchr::memchr(b'{', &text[from..]).map(|at| from + at) {
            from = at + 1;
            let Some((tag, end)) = text.get(at + 1).and_then(|byte| Tag::of(*byte)) else { continue };
            let inner = at + 2;
            let Some(close) = memchr::memmem::find(&text[inner..], end).map(|close| inner + close) else {
                continue;
            };
            let backslashes = text[done..at].iter().rev().take(2).take_while(|byte| **byte == b'\\').count();
            if backslashes == 1 {
                // An escaped tag is text, without the backslash.
                self.literal(done, at - 1);
                done = at;
                continue;
            }
            let behind = close + 2;
            let tag_end = match tag {
                Tag::Escaped | Tag::Raw => {
                    self.literal(done, at - backslashes.min(1));
                    let call: &[u8] =
                        if tag == Tag::Escaped { b"___[#___+1]=__e(" } else { b"___[#___+1]=__t(" };
                    self.code(inner, call, &text[inner..close], b");");
                    behind
                }
                Tag::Code => {
                    self.literal(done, self.without_blanks(done, at));
                    self.code(inner, b"", &text[inner..close], b"");
                    self.behind_newline(behind)
                }
                Tag::Comment => {
                    self.literal(done, at - backslashes.min(1));
                    self.behind_newline(behind)
                }
                Tag::Block => match self.block(done, at, inner, close)? {
                    Some(behind) => behind,
                    None => continue,
                },
                Tag::Include => return Err(self.refusal(at, "a template cannot include others")),
            };
            (done, from) = (tag_end, tag_end);
        }
        self.literal(done, text.len());
        Ok(())
    }

    /// Writes the text of `{-raw-}…{-raw-}`. Gives the byte behind it; none if the block has no end, because
    /// then it is text.
    fn block(&mut self, done: usize, at: usize, inner: usize, close: usize) -> Result<Option<usize>, String> {
        let text = self.text;
        let mark = &text[at..close + 2];
        let begin = close + 2;
        let Some(end) = memchr::memmem::find(&text[begin..], mark).map(|end| begin + end) else {
            return Ok(None);
        };
        if !matches!(text[inner..close].trim_ascii(), b"raw" | b"verbatim") {
            return Err(self.refusal(at, "blocks need a layout, and a template cannot have one"));
        }
        self.literal(done, at);
        self.literal(self.behind_newline(begin), end);
        Ok(Some(self.behind_newline(end + mark.len())))
    }

    /// The end of the text before `at` without the blanks behind it, at least `done`.
    fn without_blanks(&self, done: usize, at: usize) -> usize {
        let blanks =
            self.text[done..at].iter().rev().take_while(|byte| matches!(byte, b' ' | b'\t' | 0x0b | 0));
        at - blanks.count()
    }

    fn behind_newline(&self, at: usize) -> usize {
        if self.text.get(at) == Some(&b'\n') { at + 1 } else { at }
    }

    /// The line of the byte `at` of the template.
    fn line(&self, at: usize) -> u32 {
        let before = memchr::memchr_iter(b'\n', &self.text[..at.min(self.text.len())]).count();
        u32::try_from(before).unwrap_or(u32::MAX - 1) + 1
    }

    fn refusal(&self, at: usize, reason: &str) -> String {
        format!("{NAME}:{}: {reason}", self.line(at))
    }

    /// Writes code of the template, which begins at its byte `at`, and the end of the line, because the code
    /// may end in a comment.
    fn code(&mut self, at: usize, before: &[u8], code: &[u8], after: &[u8]) {
        let first = self.line(at);
        self.source.extend_from_slice(before);
        self.source.extend_from_slice(code);
        self.source.extend_from_slice(after);
        self.source.push(b'\n');
        let more = u32::try_from(memchr::memchr_iter(b'\n', code).count()).unwrap_or_default();
        self.lines.extend(first..=first + more);
    }

    /// Writes the text from `start` to `end`, if there is any.
    fn literal(&mut self, start: usize, end: usize) {
        if start >= end {
            return;
        }
        let line = self.line(start);
        self.source.extend_from_slice(b"___[#___+1]=\"");
        for &byte in &self.text[start..end] {
            match byte {
                b'"' | b'\\' => self.source.extend_from_slice(&[b'\\', byte]),
                b'\n' => self.source.extend_from_slice(b"\\n"),
                0..0x20 | 0x7f => self.source.extend_from_slice(format!("\\{byte:03}").as_bytes()),
                byte => self.source.push(byte),
            }
        }
        self.source.extend_from_slice(b"\";\n");
        self.lines.push(line);
    }
}

/// `message` with the lines of the template in place of those of the script, which `lines` maps.
fn relocate<'a>(lines: &[u32], message: &'a str) -> Cow<'a, str> {
    let prefix = format!("{NAME}:");
    if !message.contains(&prefix) {
        return Cow::Borrowed(message);
    }
    let mut text = String::with_capacity(message.len());
    let mut rest = message;
    while let Some((before, behind)) = rest.split_once(&prefix) {
        text.push_str(before);
        text.push_str(&prefix);
        let digits = behind.len() - behind.trim_start_matches(|digit: char| digit.is_ascii_digit()).len();
        let line = behind[..digits].parse::<usize>().ok();
        match line.and_then(|line| lines.get(line.checked_sub(1)?).or(lines.last())) {
            Some(line) => text.push_str(&line.to_string()),
            None => text.push_str(&behind[..digits]),
        }
        rest = &behind[digits..];
    }
    text.push_str(rest);
    Cow::Owned(text)
}
