//! Text with variables in it: `$remote_addr $host`, `${http_x_id}`, `${arg_size ?? 10}`.
//!
//! It is used for log lines, hash keys and plugin headers alike, and does not know the use of the text.

use super::{Value, Variable, VariableError, VariableSource};

/// A compiled template.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Template {
    pieces: Box<[Piece]>,
    /// The bytes of the texts between two variables, and [`ESCAPE`]; empty with fewer than two variables.
    between: Box<[u8]>,
}

#[derive(Clone, Debug, Eq, PartialEq)]
enum Piece {
    Text(Box<str>),
    /// A variable, and the text that replaces it if it is unset.
    Variable(Variable, Option<Box<str>>),
}

/// A piece of a template as a caller sees it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum TemplatePart<'t> {
    /// Text of the configuration, without escapes.
    Text(&'t str),
    /// A variable, and the text that replaces it if it is unset.
    Variable(&'t Variable, Option<&'t str>),
}

/// Why a template cannot be compiled.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error("at byte {offset} of the template: {reason}")]
pub struct TemplateError {
    /// Byte offset of the fault, from 0.
    pub offset: usize,
    /// The fault.
    pub reason: String,
}

impl Template {
    /// Compiles a template. A name is letters, digits and `_`, and for `post_arg` a path behind it
    /// (`$post_arg.a.b[0]`); in braces any character except `}`, and there `??` and a text may follow, which
    /// replaces the variable if it is unset. `\$` is a dollar sign, and so is one without a name after it.
    ///
    /// # Errors
    /// An unclosed brace, an empty name, a bad JSON path in a name.
    pub fn compile(text: &str) -> Result<Self, TemplateError> {
        let mut pieces = Vec::new();
        let mut plain = String::new();
        let mut offset = 0;
        while let Some(dollar) = text[offset..].find('$').map(|length| offset + length) {
            plain.push_str(&text[offset..dollar]);
            offset = dollar + 1;
            if plain.ends_with('\\') {
                plain.pop();
                plain.push('$');
                continue;
            }
            let error = |reason: String| TemplateError { offset: dollar, reason };
            let rest = &text[offset..];
            let (name, length) = match rest.strip_prefix('{') {
                Some(inside) => {
                    let close =
                        inside.find('}').ok_or_else(|| error("the brace is not closed".to_owned()))?;
                    (&inside[..close], close + 2)
                }
                None => {
                    let length = plain_name_bytes(rest);
                    (&rest[..length], length)
                }
            };
            if length == 0 {
                plain.push('$');
                continue;
            }
            let (name, default) = with_default(name);
            let variable =
                Variable::parse(name).map_err(|reason: VariableError| error(reason.to_string()))?;
            push_text(&mut pieces, &mut plain);
            pieces.push(Piece::Variable(variable, default.map(Into::into)));
            offset += length;
        }
        plain.push_str(&text[offset..]);
        push_text(&mut pieces, &mut plain);
        Ok(Self { between: bytes_between(&pieces), pieces: pieces.into_boxed_slice() })
    }

    /// Appends the rendered text; an unset variable is replaced by its default, or by nothing. Returns how
    /// many were set or have a default.
    pub fn render<S: VariableSource + ?Sized>(&self, source: &S, out: &mut Vec<u8>) -> usize {
        self.render_with(source, out, b"", |value, out| value.write_to(out))
    }

    /// As [`Self::render`], with `unset` in place of unset variables without a default, and `write` to write
    /// (and escape) the others.
    pub fn render_with<S: VariableSource + ?Sized>(
        &self,
        source: &S,
        out: &mut Vec<u8>,
        unset: &[u8],
        write: impl Fn(&Value<'_>, &mut Vec<u8>),
    ) -> usize {
        let mut set = 0;
        for piece in &self.pieces {
            match piece {
                Piece::Text(text) => out.extend_from_slice(text.as_bytes()),
                Piece::Variable(variable, default) => {
                    let default = || default.as_deref().map(|text| Value::borrowed(text.as_bytes()));
                    match source.variable(variable).or_else(default) {
                        Some(value) => {
                            write(&value, out);
                            set += 1;
                        }
                        None => out.extend_from_slice(unset),
                    }
                }
            }
        }
        set
    }

    /// Its pieces, in order.
    pub fn parts(&self) -> impl Iterator<Item = TemplatePart<'_>> {
        self.pieces.iter().map(|piece| match piece {
            Piece::Text(text) => TemplatePart::Text(text),
            Piece::Variable(variable, default) => TemplatePart::Variable(variable, default.as_deref()),
        })
    }

    /// As [`Self::render`], in a form in which different values give different texts: `$a $b` with `x y` and
    /// `z` is not that with `x` and `y z`. Bytes of values that stand between two variables of the template,
    /// and `%`, are written as `%` and two digits; `%;` stands behind a value that another variable or a text
    /// with `%` follows. Other texts are those of [`Self::render`].
    pub fn render_apart<S: VariableSource + ?Sized>(&self, source: &S, out: &mut Vec<u8>) -> usize {
        if self.between.is_empty() {
            return self.render(source, out);
        }
        let mut set = 0;
        let mut follows_variable = false;
        for piece in &self.pieces {
            match piece {
                Piece::Text(text) => {
                    if std::mem::take(&mut follows_variable) && text.as_bytes().contains(&ESCAPE) {
                        out.extend_from_slice(&[ESCAPE, b';']);
                    }
                    out.extend_from_slice(text.as_bytes());
                }
                Piece::Variable(variable, default) => {
                    if std::mem::replace(&mut follows_variable, true) {
                        out.extend_from_slice(&[ESCAPE, b';']);
                    }
                    let default = || default.as_deref().map(|text| Value::borrowed(text.as_bytes()));
                    let Some(value) = source.variable(variable).or_else(default) else { continue };
                    let begin = out.len();
                    value.write_to(out);
                    escape_from(begin, &self.between, out);
                    set += 1;
                }
            }
        }
        set
    }

    /// The variables in it, in order.
    pub fn variables(&self) -> impl Iterator<Item = &Variable> {
        self.pieces.iter().filter_map(|piece| match piece {
            Piece::Text(_) => None,
            Piece::Variable(variable, _) => Some(variable),
        })
    }

    /// The default of each of [`Self::variables`].
    pub fn defaults(&self) -> impl Iterator<Item = Option<&str>> {
        self.pieces.iter().filter_map(|piece| match piece {
            Piece::Text(_) => None,
            Piece::Variable(_, default) => Some(default.as_deref()),
        })
    }

    /// The text, if it has no variable.
    #[must_use]
    pub fn as_constant(&self) -> Option<&str> {
        match &*self.pieces {
            [] => Some(""),
            [Piece::Text(text)] => Some(text),
            _ => None,
        }
    }

    /// The variable, if the template is one variable without a default and nothing else.
    #[must_use]
    pub fn as_variable(&self) -> Option<&Variable> {
        match &*self.pieces {
            [Piece::Variable(variable, None)] => Some(variable),
            _ => None,
        }
    }

    /// Whether rendering may have to read the request's body.
    #[must_use]
    pub fn uses_request_body(&self) -> bool {
        self.variables().any(Variable::uses_request_body)
    }
}

/// The length of the name at the start of `rest`, without braces. Only in the family with paths for names it
/// goes on behind a dot, so that `$host.example` is the host and `.example`.
fn plain_name_bytes(rest: &str) -> usize {
    let word =
        |text: &str| text.bytes().take_while(|byte| byte.is_ascii_alphanumeric() || *byte == b'_').count();
    let mut length = word(rest);
    if &rest[..length] != PATH_FAMILY {
        return length;
    }
    loop {
        let step = &rest[length..];
        let step_bytes = match step.as_bytes().first() {
            // A dot without a word behind it ends a sentence.
            Some(b'.') => Some(word(&step[1..])).filter(|bytes| *bytes > 0).map(|bytes| bytes + 1),
            Some(b'[') if length > PATH_FAMILY.len() => index_bytes(step),
            _ => None,
        };
        match step_bytes {
            Some(bytes) => length += bytes,
            None => return length,
        }
    }
}

/// The length of `[*]` or `[7]` at the start of `step`.
fn index_bytes(step: &str) -> Option<usize> {
    let inside = &step[1..step.find(']')?];
    let is_index = inside == "*" || (!inside.is_empty() && inside.bytes().all(|byte| byte.is_ascii_digit()));
    is_index.then_some(inside.len() + 2)
}

/// The family of variables with paths for names: `post_arg.a.b`.
const PATH_FAMILY: &str = "post_arg";

/// The name of a variable and its default, as APISIX writes them since 3.16: `name ?? default`.
fn with_default(written: &str) -> (&str, Option<&str>) {
    let mut parts = written.split("??").map(str::trim);
    (parts.next().unwrap_or_default(), parts.next())
}

/// The first byte of each form that [`Template::render_apart`] writes in place of a byte.
const ESCAPE: u8 = b'%';

/// See [`Template::between`].
fn bytes_between(pieces: &[Piece]) -> Box<[u8]> {
    let is_variable = |piece: &Piece| matches!(piece, Piece::Variable(..));
    let (first, last) = (pieces.iter().position(is_variable), pieces.iter().rposition(is_variable));
    let (Some(first), Some(last)) = (first, last) else { return Box::default() };
    if first == last {
        return Box::default();
    }
    let mut bytes = vec![ESCAPE];
    for piece in &pieces[first..last] {
        if let Piece::Text(text) = piece {
            bytes.extend_from_slice(text.as_bytes());
        }
    }
    bytes.sort_unstable();
    bytes.dedup();
    bytes.into_boxed_slice()
}

/// Writes the bytes of `out` from `begin` on that are in `escaped` as `%` and two digits.
fn escape_from(begin: usize, escaped: &[u8], out: &mut Vec<u8>) {
    if !out[begin..].iter().any(|byte| escaped.contains(byte)) {
        return;
    }
    for byte in out.split_off(begin) {
        if escaped.contains(&byte) {
            let digit = |half: u8| b"0123456789ABCDEF"[usize::from(half)];
            out.extend_from_slice(&[ESCAPE, digit(byte >> 4), digit(byte & 15)]);
        } else {
            out.push(byte);
        }
    }
}

fn push_text(pieces: &mut Vec<Piece>, plain: &mut String) {
    if !plain.is_empty() {
        pieces.push(Piece::Text(std::mem::take(plain).into_boxed_str()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Fixed;

    impl VariableSource for Fixed {
        fn variable<'a>(&'a self, variable: &Variable) -> Option<Value<'a>> {
            match variable {
                Variable::Builtin(builtin) => Some(Value::from(builtin.name())),
                Variable::PostArgPath(_) => Some(Value::from(7u16)),
                _ => None,
            }
        }
    }

    fn check(text: &str, rendered: &str, set: usize) {
        let mut out = Vec::new();
        let got = Template::compile(text)
            .unwrap()
            .render_with(&Fixed, &mut out, b"-", |value, out| value.write_to(out));
        assert_eq!((String::from_utf8(out).unwrap().as_str(), got), (rendered, set), "{text}");
    }

    #[test]
    fn templates() {
        check("", "", 0);
        check("plain", "plain", 0);
        check("$host", "host", 1);
        check("$host/$uri!", "host/uri!", 2);
        check("${host}name", "hostname", 1);
        check("$hostname", "hostname", 1);
        check("$unknown|", "-|", 0);
        check("5$ and $", "5$ and $", 0);
        check("\\$host", "$host", 0);
        check("${post_arg.a[*].b}", "7", 1);
        check("$post_arg.a|$post_arg.a.b_1[0][*].c|", "7|7|", 2);
        check("$post_arg.a. $post_arg.a[x] $post_arg.a[", "7. 7[x] 7[", 3);
        check("$post_arg.|$post_arg[0]|$post_arg_a.b", "-.|-[0]|-.b", 0);
        check("$host.example", "host.example", 1);
    }

    #[test]
    fn unset_variables_have_defaults() {
        check("${arg_x ?? 10}", "10", 1);
        check("${ host ?? other }|${arg_x??}|${ arg_x }", "host||-", 2);
        check("${arg_x ?? a b ?? c}", "a b", 1);
        check("$arg_x ?? 10", "- ?? 10", 0);
        assert!(Template::compile("${ ?? a}").is_err());
    }

    /// The first argument stands for `$arg_a`, the second for `$arg_b`.
    struct TwoValues<'v>([&'v str; 2]);

    impl VariableSource for TwoValues<'_> {
        fn variable<'a>(&'a self, variable: &Variable) -> Option<Value<'a>> {
            match variable {
                Variable::Arg(name) => Some(Value::from(self.0[usize::from(&**name == "b")])),
                _ => None,
            }
        }
    }

    #[test]
    fn different_values_render_apart() {
        let render = |text: &str, values: [&str; 2]| {
            let mut out = Vec::new();
            Template::compile(text).unwrap().render_apart(&TwoValues(values), &mut out);
            String::from_utf8(out).unwrap()
        };
        // The usual texts stay as they are.
        assert_eq!(render("$arg_a $arg_b", ["10.0.0.1", "/a/b"]), "10.0.0.1 /a/b");
        assert_eq!(render("<$arg_a>", ["x%<>", ""]), "<x%<>>");
        assert_eq!(render("$arg_a $arg_b", ["x y", "50%"]), "x%20y 50%25");
        assert_eq!(render("${arg_a}${arg_b}", ["x", "y"]), "x%;y");
        assert_eq!(render("$arg_a,$arg_c,$arg_b.", ["a,", "b."]), "a%2C,a%2C,b..");
        for template in
            ["$arg_a $arg_b", "${arg_a}${arg_b}", "$arg_a%$arg_b", "$arg_a--$arg_b", "$arg_a%;$arg_b"]
        {
            let values = [
                "", "x", " ", "x ", " x", "x x", "%", "%;", "%20", "-", "--", "x-", "-x", ";", "x%;", "x%",
                "25", "25%",
            ];
            let mut seen = std::collections::HashMap::new();
            for pair in values.iter().flat_map(|a| values.iter().map(move |b| [*a, *b])) {
                let former = seen.insert(render(template, pair), pair);
                assert_eq!(former, None, "{template} {pair:?}");
            }
        }
    }

    #[test]
    fn refused() {
        for bad in ["${", "${host", "a${}", "${post_arg.a..b}"] {
            assert!(Template::compile(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn constants() {
        assert_eq!(Template::compile("a").unwrap().as_constant(), Some("a"));
        assert_eq!(Template::compile("$host").unwrap().as_constant(), None);
        assert!(Template::compile("$host").unwrap().as_variable().is_some());
        assert!(Template::compile("$host:").unwrap().as_variable().is_none());
        assert!(Template::compile("$post_arg_a").unwrap().uses_request_body());
    }
}
