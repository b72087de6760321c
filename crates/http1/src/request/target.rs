//! The four forms of a request target (RFC 9112 section 3.2); it does not know which of them are served.

use message::{Method, Span, syntax};

use crate::HeadError;

/// In which form a target was sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum TargetForm {
    /// `/path?query`
    #[default]
    Origin,
    /// `http://authority/path?query`
    Absolute,
    /// `host:port`, only with CONNECT
    Authority,
    /// `*`, only with OPTIONS
    Asterisk,
}

/// The parts of a target as spans of the head.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Target {
    pub(super) form: TargetForm,
    pub(super) path: Span,
    pub(super) query: Option<Span>,
    pub(super) authority: Option<Span>,
}

impl Target {
    /// Splits `text`, which lies at `offset` in the head.
    pub(super) fn parse(method: Method, text: &[u8], offset: usize) -> Result<Self, HeadError> {
        if !syntax::is_target(text) {
            return Err(HeadError::TargetBytes);
        }
        let whole = Span::new(offset, offset + text.len());
        if method == Method::Connect {
            return if syntax::is_authority(text) && memchr::memchr(b':', text).is_some() {
                Ok(Self { form: TargetForm::Authority, path: whole, query: None, authority: Some(whole) })
            } else {
                Err(HeadError::Target)
            };
        }
        match text {
            [b'/', ..] => Ok(Self::with_path(TargetForm::Origin, text, offset, None)),
            b"*" if method == Method::Options => {
                Ok(Self { form: TargetForm::Asterisk, path: whole, query: None, authority: None })
            }
            _ => Self::absolute(text, offset),
        }
    }

    fn absolute(text: &[u8], offset: usize) -> Result<Self, HeadError> {
        let start = scheme_length(text).ok_or(HeadError::Target)?;
        let rest = &text[start..];
        let length = rest.iter().position(|&byte| byte == b'/' || byte == b'?').unwrap_or(rest.len());
        if !syntax::is_authority(&rest[..length]) {
            return Err(HeadError::Host);
        }
        let authority = Span::new(offset + start, offset + start + length);
        let path = &rest[length..];
        Ok(Self::with_path(TargetForm::Absolute, path, offset + start + length, Some(authority)))
    }

    fn with_path(form: TargetForm, text: &[u8], offset: usize, authority: Option<Span>) -> Self {
        let mark = memchr::memchr(b'?', text);
        let path = Span::new(offset, offset + mark.unwrap_or(text.len()));
        let query = mark.map(|mark| Span::new(offset + mark + 1, offset + text.len()));
        Self { form, path, query, authority }
    }
}

/// The length of `http://` or `https://` at the start of `text`, in any case; other schemes are not ours.
fn scheme_length(text: &[u8]) -> Option<usize> {
    [&b"http://"[..], b"https://"]
        .into_iter()
        .find(|scheme| text.get(..scheme.len()).is_some_and(|start| start.eq_ignore_ascii_case(scheme)))
        .map(<[u8]>::len)
}
