//! The message part that two schemas describe, and a pair of schemas at the same place in it.

use std::rc::Rc;

use super::reference::SchemaView;

/// Longest path of names in a sentence, in bytes. The place of a change tells the rest.
pub(super) const MAX_PATH_BYTES: usize = 512;

/// The message part that a schema describes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SiteKind {
    RequestBody,
    Parameter,
    ResponseBody,
    ResponseHeader,
}

/// The message part with the facts that decide rules.
pub(super) struct SchemaSite {
    pub(super) kind: SiteKind,
    /// Noun of the sentences, for example "the request body".
    pub(super) subject: String,
    /// Whether types are visible on the wire, as in JSON.
    pub(super) is_strict: bool,
    pub(super) is_header_parameter: bool,
    /// Whether the parameter is optional in both documents, so that its default value has an effect.
    pub(super) is_optional_parameter: bool,
    /// Whether one value and a list of one value are the same text, as in `?color=red`.
    pub(super) is_form_exploded: bool,
}

impl SchemaSite {
    pub(super) fn new(kind: SiteKind, subject: String, is_strict: bool) -> Self {
        Self {
            kind,
            subject,
            is_strict,
            is_header_parameter: false,
            is_optional_parameter: false,
            is_form_exploded: false,
        }
    }

    pub(super) fn is_request(&self) -> bool {
        matches!(self.kind, SiteKind::RequestBody | SiteKind::Parameter)
    }

    /// Whether a property that is read-only or write-only is not part of the message.
    pub(super) fn hides(&self, is_read_only: bool, is_write_only: bool) -> bool {
        match self.kind {
            SiteKind::RequestBody => is_read_only,
            SiteKind::ResponseBody => is_write_only,
            SiteKind::Parameter | SiteKind::ResponseHeader => false,
        }
    }

    pub(super) fn is_body(&self) -> bool {
        matches!(self.kind, SiteKind::RequestBody | SiteKind::ResponseBody)
    }
}

/// Two schemas at the same place.
pub(super) struct SchemaPair<'a> {
    pub(super) old: SchemaView<'a>,
    pub(super) new: SchemaView<'a>,
    /// Name of the property or keyword in the schema around it; empty at the root.
    pub(super) name: Rc<str>,
    /// Names from the root, joined with `/`; empty at the root.
    pub(super) path: String,
    pub(super) depth: usize,
    /// Inside a branch of `allOf`. Sibling branches may demand the same, so that breaking is only likely.
    pub(super) is_under_all_of: bool,
    /// Below a read-only property of a request or a write-only property of a response, which is not sent.
    pub(super) is_hidden: bool,
}

impl<'a> SchemaPair<'a> {
    pub(super) fn is_root(&self) -> bool {
        self.path.is_empty()
    }

    /// The pair of two sub-schemas, `name` below this one.
    pub(super) fn descend(&self, name: &str, old: SchemaView<'a>, new: SchemaView<'a>) -> Self {
        let path = self.path_of(name);
        let (is_under_all_of, is_hidden) = (self.is_under_all_of, self.is_hidden);
        Self { old, new, name: name.into(), path, depth: self.depth + 1, is_under_all_of, is_hidden }
    }

    pub(super) fn path_of(&self, name: &str) -> String {
        match self.path.len() {
            0 => name.to_owned(),
            length if length > MAX_PATH_BYTES => self.path.clone(),
            _ => format!("{}/{name}", self.path),
        }
    }

    pub(super) fn has_all_of(&self) -> bool {
        self.old.get("allOf").is_some() || self.new.get("allOf").is_some()
    }
}
