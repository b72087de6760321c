//! Changes to replies with a whole body that plugins and the gateway make, before the response phases run. A
//! plugin asks for them while the request is on its way. It knows no plugin.

use std::sync::Arc;

use super::reply::BufferedReply;
use crate::exchange::Exchange;
use crate::failure::Blame;

/// A change to local replies.
pub trait TransformReply: Send + Sync {
    /// Changes `reply`.
    fn transform(&self, exchange: &Exchange, reply: &mut BufferedReply);
}

/// The owner of the list among the states of a request: no instance has this number, because they count from
/// the start of the process.
const OWNER: u32 = u32::MAX;

/// The changes that plugins have asked for, in this order.
#[derive(Default)]
struct Transformers(Vec<Arc<dyn TransformReply>>);

/// Lets `transformer` change the local replies to the request in `exchange` from here on.
pub fn transform_replies(exchange: &mut Exchange, transformer: Arc<dyn TransformReply>) {
    exchange.states.of::<Transformers>(OWNER).0.push(transformer);
}

/// Whether a plugin is going to change replies to the request in `exchange`.
pub fn is_wanted(exchange: &Exchange) -> bool {
    exchange.states.peek::<Transformers>(OWNER).is_some()
}

/// Changes `reply` as plugins have asked for. A reply for the failure of an upstream stays as it is.
pub fn transform(exchange: &mut Exchange, reply: &mut BufferedReply) {
    if exchange.states.peek::<Transformers>(OWNER).is_none()
        || exchange.failure.as_ref().is_some_and(|failure| failure.cause.blame() == Blame::Upstream)
    {
        return;
    }
    let transformers = std::mem::take(exchange.states.of::<Transformers>(OWNER));
    for transformer in &transformers.0 {
        transformer.transform(exchange, reply);
    }
}
