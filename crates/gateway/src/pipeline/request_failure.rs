//! The failures of a request body that does not arrive as it should.

use super::min_rate::TooSlow;
use exchange::failure::{Cause, ExchangeFailure};

/// The failure of a body over a limit.
pub(super) fn too_large(limit_bytes: impl std::fmt::Display) -> ExchangeFailure {
    ExchangeFailure::new(Cause::BodyTooLarge, format!("the limit for a body is {limit_bytes} bytes"))
}

/// The failure of a request that exceeds its total time while its body arrives.
#[cold]
pub(super) fn overdue_request() -> ExchangeFailure {
    ExchangeFailure::new(Cause::RequestTimeout, "the request body was still arriving")
}

/// The failure of a client that was too slow.
pub(super) fn lost(lost: TooSlow) -> ExchangeFailure {
    match lost {
        TooSlow::Idle => ExchangeFailure::new(Cause::BodyTimeout, "the request body stopped arriving"),
        TooSlow::SilentStream => {
            let detail = "neither a message nor a response came within the read timeout of the route";
            ExchangeFailure::new(Cause::BodyTimeout, detail)
        }
        TooSlow::BelowMinRate => ExchangeFailure::new(Cause::BodySlow, "the request body arrives too slowly"),
    }
}
