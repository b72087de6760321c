//! Answers to the questions that the runner asks while it handles a call: variables and bodies. It writes to
//! no socket.

use exchange::Exchange;
use exchange::exchange::body_demand::BodyUnavailable;
use router::vars::{Variable, VariableSource};

use super::error::CallError;
use super::frame::MESSAGE_BYTES_MAX;

/// Bytes of a message around a body.
const AROUND_BODY_BYTES: usize = 64;
/// The longest body that fits into a message.
pub(super) const BODY_BYTES_MAX: usize = MESSAGE_BYTES_MAX - AROUND_BODY_BYTES;

/// The value of the variable `name`; none if it is not set.
pub(super) async fn variable(exchange: &mut Exchange, name: &str) -> Result<Option<Vec<u8>>, CallError> {
    // An unknown name is a variable that is never set.
    let Ok(variable) = Variable::parse(name) else { return Ok(None) };
    if variable.uses_request_body() {
        collect(exchange).await?;
    }
    Ok(exchange.variable(&variable).map(|value| value.text().into_owned()))
}

/// The body of the request; none if it is empty.
pub(super) async fn request_body(exchange: &mut Exchange) -> Result<Option<&[u8]>, CallError> {
    collect(exchange).await?;
    Ok(exchange.request_body().filter(|body| !body.is_empty()))
}

/// Reads the body of the request, as far as there is one to be read. In a phase of the response only a body
/// is known that was read before.
pub(super) async fn collect(exchange: &mut Exchange) -> Result<(), CallError> {
    match exchange.collect_request_body(BODY_BYTES_MAX).await {
        Ok(()) | Err(BodyUnavailable::Gone) => Ok(()),
        Err(BodyUnavailable::TooLong) => {
            Err(CallError::Body("it is longer than 16 MiB, or than is accepted"))
        }
    }
}
