//! The response to a failure, where the configuration says what it is. Other failures are answered by their
//! cause.

/// See the module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FailureResponse {
    /// The status.
    pub status: u16,
    /// Fields, by name and value.
    pub headers: Box<[(Box<str>, Box<str>)]>,
    /// The body; none: that of the failure.
    pub body: Option<Box<str>>,
}
