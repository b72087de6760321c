//! The role of a caller, which its key decides. It checks no keys.

/// The requests that a key allows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// All requests.
    Admin,
    /// Requests that change nothing; secrets are shown masked.
    Viewer,
}
