//! The request body as far as it was read before a node was chosen, and what variables found in it: parsed
//! once, however many conditions ask. It reads nothing itself (`pipeline/collect.rs` does) and knows no
//! variable's name.

use std::cell::{Cell, OnceCell};
use std::rc::Rc;

use message::Headers;

use super::variables::graphql::GraphqlSummary;

/// See the module.
#[derive(Default)]
pub struct ReadBody {
    prefix: Option<BodyPrefix>,
    /// A variable was asked for that lies in an unread body.
    missed: Cell<bool>,
    parsed: OnceCell<Box<ParsedBody>>,
}

/// A body of which at least a prefix was read. Cheap to clone.
#[derive(Clone)]
pub struct BodyPrefix {
    /// The bytes that were read.
    pub bytes: Rc<[u8]>,
    /// The trailers behind it.
    pub trailers: Option<Rc<Headers>>,
    /// The body goes on behind `bytes`, which are as much as was asked for or could be held.
    pub goes_on: bool,
}

/// Values found in a body; each is made on first use.
#[derive(Default)]
pub struct ParsedBody {
    /// The body as JSON; nothing if it is none, or a form that could not be read.
    pub json: OnceCell<Option<jsonx::Value>>,
    /// The GraphQL operation; nothing if there is none.
    pub graphql: OnceCell<Option<GraphqlSummary>>,
}

impl ReadBody {
    /// The body, if it was read whole.
    pub fn whole(&self) -> Option<&[u8]> {
        self.prefix.as_ref().filter(|prefix| !prefix.goes_on).map(|prefix| &*prefix.bytes)
    }

    /// The bytes read of it; none while it is unread.
    pub fn prefix(&self) -> Option<&BodyPrefix> {
        self.prefix.as_ref()
    }

    /// The bytes read of it, to be forwarded; of a body that goes on nothing stays here.
    pub fn pass_on(&mut self) -> Option<BodyPrefix> {
        if self.prefix.as_ref()?.goes_on { self.prefix.take() } else { self.prefix.clone() }
    }

    /// Whether no byte of it was read.
    pub fn is_unread(&self) -> bool {
        self.prefix.is_none()
    }

    /// Keeps the whole body.
    pub fn keep_whole(&mut self, bytes: Vec<u8>, trailers: Option<Headers>) {
        let prefix = BodyPrefix { bytes: bytes.into(), trailers: trailers.map(Rc::new), goes_on: false };
        *self = ReadBody { prefix: Some(prefix), ..ReadBody::default() };
    }

    /// Keeps the beginning of a body that goes on.
    pub fn keep_prefix(&mut self, bytes: Vec<u8>) {
        let prefix = BodyPrefix { bytes: bytes.into(), trailers: None, goes_on: true };
        *self = ReadBody { prefix: Some(prefix), ..ReadBody::default() };
    }

    /// Notes that a variable would have looked into the body.
    pub fn miss(&self) {
        self.missed.set(true);
    }

    /// Whether a variable would have read an unread body; the call resets the mark.
    pub fn was_missed(&self) -> bool {
        self.missed.take() && self.is_unread()
    }

    /// The values found in it so far.
    pub fn parsed(&self) -> &ParsedBody {
        self.parsed.get_or_init(Box::default)
    }

    /// Forgets the last request.
    pub fn reset(&mut self) {
        // Field by field: dropping a whole default value for every request would cost more than these tests.
        self.prefix = None;
        self.missed.set(false);
        self.parsed.take();
    }
}
