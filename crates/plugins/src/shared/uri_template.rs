//! Templates of URIs: `/s?user=$arg_user`, `https://$host/n/$1`. When the configuration is compiled, each
//! piece learns in which part of the URI it stands, and with it how the text of clients is written there, so
//! that this text stays inside its path segment or its argument and is decoded once by the reader. It knows
//! no plugin.

use exchange::Exchange;
use router::vars::{
    BuiltinVariable as Builtin, GaveUp, Template, TemplateError, TemplatePart, Variable, VariableSource,
};

use super::substitution::{Groups, Matcher, PatternOptions, Replacement, ReplacementPart};
use super::uri::{encode_argument, encode_path, encode_uri, write_literal};

/// The use of a URI, which decides what its pieces may hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum UriUse {
    /// The target of a request: its path and its query. The text of a path is decoded, and is encoded when it
    /// is written.
    Target,
    /// The same of which the path, and groups of a match, are written as the client sent them.
    RawTarget,
    /// A URI reference for a client: it may begin with a scheme and end with a fragment. With `encodes_path`
    /// the configuration's text in the path is decoded.
    Reference { encodes_path: bool },
}

/// A compiled template of a URI.
pub(crate) struct UriTemplate {
    pieces: Box<[UriTemplatePiece]>,
    /// How text that follows the template is written: the text behind a match.
    end: Writing,
    uri_use: UriUse,
}

enum UriTemplatePiece {
    /// Text of the configuration in its final form.
    Text(Box<[u8]>),
    /// Text of the configuration in a path, with an encoded slash: its form depends on a setting of the
    /// worker.
    PathText(Box<[u8]>),
    Variable(Variable, Option<Box<[u8]>>, Writing),
    Group(usize, Writing),
}

/// How a text that is not the configuration's is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Writing {
    /// It is text, and stays inside the path.
    Path,
    /// It is text, and stays inside one argument, or a fragment.
    Argument,
    /// It is a part of a URI: what it has encoded stays, and what no URI may hold is encoded.
    Uri,
    /// The same without beginning a query.
    UriInPath,
    /// The same without beginning another argument.
    UriInArgument,
}

/// The part of the URI that a piece stands in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum UriPosition {
    /// Nothing precedes the piece.
    Start,
    Path,
    /// Behind a piece that may have begun a query by itself.
    PathOrQuery,
    /// Behind `?` or `&`: arguments may follow.
    Arguments,
    /// Inside the name or the value of an argument.
    Argument,
    Fragment,
}

/// The kind of value that a variable has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum VariableKind {
    Text,
    /// Text that may come from a client and that can be a whole URI reference where nothing precedes it.
    ForeignText,
    /// A part of a URI that may hold a query, or is one.
    Uri,
    /// `?` or nothing.
    QueryMark,
    /// Percent-encoded text.
    Encoded,
}

impl VariableKind {
    fn of(variable: &Variable) -> VariableKind {
        match variable {
            Variable::Builtin(builtin) => match builtin {
                Builtin::Args
                | Builtin::QueryString
                | Builtin::RequestUri
                | Builtin::RealRequestUri
                | Builtin::UpstreamUri => VariableKind::Uri,
                Builtin::IsArgs => VariableKind::QueryMark,
                Builtin::SslClientEscapedCert => VariableKind::Encoded,
                Builtin::RequestBody | Builtin::RespBody | Builtin::Request => VariableKind::ForeignText,
                _ => VariableKind::Text,
            },
            Variable::UriParam(_) => VariableKind::Text,
            _ => VariableKind::ForeignText,
        }
    }
}

impl UriTemplate {
    /// Compiles a template with variables.
    ///
    /// # Errors
    /// As [`Template::compile`].
    pub(crate) fn compile(text: &str, uri_use: UriUse) -> Result<UriTemplate, TemplateError> {
        let template = Template::compile(text)?;
        let mut compiler = UriTemplateCompiler::new(uri_use);
        for part in template.parts() {
            match part {
                TemplatePart::Text(text) => compiler.add_text(text),
                TemplatePart::Variable(variable, default) => compiler.add_variable(variable, default),
            }
        }
        Ok(compiler.finish())
    }

    /// Compiles a template with the groups of a match.
    fn of_groups(replacement: &Replacement, uri_use: UriUse) -> UriTemplate {
        let mut compiler = UriTemplateCompiler::new(uri_use);
        for part in replacement.parts() {
            match part {
                ReplacementPart::Text(text) => compiler.add_text(text),
                ReplacementPart::Group(index) => compiler.add_group(index),
            }
        }
        compiler.finish()
    }

    /// Appends the URI.
    pub(crate) fn render(&self, exchange: &Exchange, out: &mut Vec<u8>) {
        self.render_with(exchange, &Groups::default(), b"", out);
    }

    fn render_with(&self, exchange: &Exchange, groups: &Groups, searched: &[u8], out: &mut Vec<u8>) {
        for piece in &self.pieces {
            match piece {
                UriTemplatePiece::Text(text) => out.extend_from_slice(text),
                UriTemplatePiece::PathText(text) => encode_path(exchange, text, out),
                UriTemplatePiece::Variable(variable, default, writing) => match exchange.variable(variable) {
                    Some(value) => writing.write(exchange, &value.text(), out),
                    None => writing.write(exchange, default.as_deref().unwrap_or_default(), out),
                },
                UriTemplatePiece::Group(index, writing) => {
                    writing.write(exchange, groups.text(*index, searched), out)
                }
            }
        }
    }
}

impl Writing {
    fn write(self, exchange: &Exchange, text: &[u8], out: &mut Vec<u8>) {
        match self {
            Writing::Path => encode_path(exchange, text, out),
            Writing::Argument => encode_argument(exchange, text, out),
            Writing::Uri => encode_uri(text, None, out),
            Writing::UriInPath => encode_uri(text, Some(b'?'), out),
            Writing::UriInArgument => encode_uri(text, Some(b'&'), out),
        }
    }
}

/// Follows a template from its beginning to its end.
struct UriTemplateCompiler {
    uri_use: UriUse,
    place: UriPosition,
    pieces: Vec<UriTemplatePiece>,
}

impl UriTemplateCompiler {
    fn new(uri_use: UriUse) -> UriTemplateCompiler {
        UriTemplateCompiler { uri_use, place: UriPosition::Start, pieces: Vec::new() }
    }

    fn finish(self) -> UriTemplate {
        let end = match (self.uri_use, self.place) {
            // The query of the client is a part of the text that was searched, and goes on behind the match.
            (UriUse::RawTarget, _) => Writing::Uri,
            (_, UriPosition::Start | UriPosition::Path) => Writing::Path,
            _ => Writing::Argument,
        };
        UriTemplate { pieces: self.pieces.into(), end, uri_use: self.uri_use }
    }

    fn add_text(&mut self, text: &str) {
        let (path, rest) = match self.place {
            UriPosition::Start | UriPosition::Path | UriPosition::PathOrQuery => {
                let ends_path = |byte: char| byte == '?' || (byte == '#' && self.has_fragment());
                text.split_at(text.find(ends_path).unwrap_or(text.len()))
            }
            UriPosition::Arguments | UriPosition::Argument | UriPosition::Fragment => ("", text),
        };
        if !path.is_empty() {
            self.add_path_text(path);
        }
        if !rest.is_empty() {
            let mut written = Vec::new();
            write_literal(rest, self.allows_fragment(), &mut written);
            self.pieces.push(UriTemplatePiece::Text(written.into()));
            self.place = self.place_after(rest);
        }
    }

    fn add_path_text(&mut self, text: &str) {
        let is_decoded = match self.uri_use {
            UriUse::Target => true,
            UriUse::RawTarget => false,
            UriUse::Reference { encodes_path } => encodes_path,
        };
        self.pieces.push(if is_decoded {
            UriTemplatePiece::PathText(text.as_bytes().into())
        } else {
            let mut written = Vec::new();
            write_literal(text, self.allows_fragment(), &mut written);
            UriTemplatePiece::Text(written.into())
        });
        self.place = match self.place {
            // An `&` in this place belongs to the query that the piece before has begun.
            UriPosition::PathOrQuery if text.ends_with('&') => UriPosition::Arguments,
            UriPosition::PathOrQuery if text.contains('&') => UriPosition::Argument,
            UriPosition::PathOrQuery => UriPosition::PathOrQuery,
            _ => UriPosition::Path,
        };
    }

    fn add_variable(&mut self, variable: &Variable, default: Option<&str>) {
        let form = VariableKind::of(variable);
        let writing = self.writing(form);
        let default = default.map(|text| text.as_bytes().into());
        self.pieces.push(UriTemplatePiece::Variable(variable.clone(), default, writing));
        self.place = match (self.place, form) {
            (UriPosition::Start | UriPosition::Path | UriPosition::PathOrQuery, VariableKind::QueryMark)
                if writing == Writing::Uri =>
            {
                UriPosition::Arguments
            }
            (place, _) => place_after_value(place, writing),
        };
    }

    fn add_group(&mut self, index: usize) {
        let writing = match (self.uri_use, self.place) {
            (UriUse::RawTarget, UriPosition::Argument | UriPosition::Fragment) => Writing::UriInArgument,
            (UriUse::RawTarget, _) => Writing::Uri,
            (_, UriPosition::Start | UriPosition::Path) => Writing::Path,
            _ => Writing::Argument,
        };
        self.pieces.push(UriTemplatePiece::Group(index, writing));
        self.place = place_after_value(self.place, writing);
    }

    fn writing(&self, form: VariableKind) -> Writing {
        let is_reference = matches!(self.uri_use, UriUse::Reference { .. });
        match (self.place, form) {
            (
                UriPosition::Start | UriPosition::Path | UriPosition::PathOrQuery,
                VariableKind::Uri | VariableKind::QueryMark,
            ) if is_reference => Writing::Uri,
            (UriPosition::Start, VariableKind::ForeignText) if is_reference => Writing::Uri,
            (UriPosition::Start | UriPosition::Path, VariableKind::Uri | VariableKind::Encoded) => {
                Writing::UriInPath
            }
            (UriPosition::Start | UriPosition::Path, _) => Writing::Path,
            (UriPosition::Arguments | UriPosition::Fragment, VariableKind::Uri) => Writing::Uri,
            (_, VariableKind::QueryMark | VariableKind::Encoded) => Writing::Uri,
            _ => Writing::Argument,
        }
    }

    /// Whether a `#` of the configuration begins a fragment: a request has none.
    fn allows_fragment(&self) -> bool {
        matches!(self.uri_use, UriUse::Reference { .. })
    }

    /// The same in a path, of which the configuration may have asked that it is encoded.
    fn has_fragment(&self) -> bool {
        self.uri_use == UriUse::Reference { encodes_path: false }
    }

    /// The place behind the configuration's `text`, which begins with `?` or `#` or stands in a query.
    fn place_after(&self, text: &str) -> UriPosition {
        if self.place == UriPosition::Fragment || (self.allows_fragment() && text.contains('#')) {
            return UriPosition::Fragment;
        }
        let begins_query = !matches!(self.place, UriPosition::Arguments | UriPosition::Argument);
        if text.ends_with('&') || (begins_query && text == "?") {
            UriPosition::Arguments
        } else {
            UriPosition::Argument
        }
    }
}

/// The place behind a text that is not the configuration's.
fn place_after_value(place: UriPosition, writing: Writing) -> UriPosition {
    match (place, writing) {
        (UriPosition::Start | UriPosition::Path, Writing::Uri) => UriPosition::PathOrQuery,
        (UriPosition::Start | UriPosition::Path, _) => UriPosition::Path,
        (UriPosition::Arguments | UriPosition::Argument, _) => UriPosition::Argument,
        (UriPosition::PathOrQuery | UriPosition::Fragment, _) => place,
    }
}

/// A pattern for a path, and the template of the URI that replaces its first match.
pub(crate) struct UriSubstitution {
    matcher: Matcher,
    template: UriTemplate,
}

impl UriSubstitution {
    /// Compiles a pattern and its template with groups.
    ///
    /// # Errors
    /// As [`Matcher::compile`] and [`Replacement::compile`].
    pub(crate) fn compile(pattern: &str, template: &str, uri_use: UriUse) -> Result<UriSubstitution, String> {
        let matcher = Matcher::compile(pattern, PatternOptions::default())?;
        let replacement = Replacement::compile(template)?;
        Ok(UriSubstitution { matcher, template: UriTemplate::of_groups(&replacement, uri_use) })
    }

    /// The URI of `text` with its first match replaced, and the groups of that match; `None` without a match.
    ///
    /// # Errors
    /// As [`Matcher::find`].
    pub(crate) fn once(&self, exchange: &Exchange, text: &[u8]) -> Result<Option<(Vec<u8>, Groups)>, GaveUp> {
        let Some(groups) = self.matcher.find(text, 0)? else { return Ok(None) };
        let (start, end) = groups.whole();
        let mut out = Vec::with_capacity(text.len());
        let before = if self.template.uri_use == UriUse::RawTarget { Writing::Uri } else { Writing::Path };
        before.write(exchange, &text[..start], &mut out);
        self.template.render_with(exchange, &groups, text, &mut out);
        self.template.end.write(exchange, &text[end..], &mut out);
        Ok(Some((out, groups)))
    }
}

#[cfg(test)]
mod tests;
