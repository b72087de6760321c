//! The state of a guest for one request.

use std::rc::Rc;

use crate::cell::VmCell;

/// See the module.
#[derive(Default)]
pub(crate) struct RequestState {
    /// The context, once there is one.
    pub held: Option<ContextGuard>,
    /// A call for this request has failed; the guest is not called again for it.
    pub has_failed: bool,
    /// The guest has seen the whole request body.
    pub has_request_body: bool,
    /// Bytes of the request body that the guest holds back.
    pub request_held: Vec<u8>,
    /// Bytes of the response body that the guest holds back.
    pub response_held: Vec<u8>,
    /// The response has trailers, which the guest has seen.
    pub has_trailers: bool,
    /// The body in place of that of the response.
    pub replacement: Option<Vec<u8>>,
}

/// The context of a request in an instance. Dropping it ends the context.
pub(crate) struct ContextGuard {
    pub cell: Rc<VmCell>,
    pub context: u32,
}

impl Drop for ContextGuard {
    fn drop(&mut self) {
        self.cell.end(self.context);
    }
}
