//! Keys of TLS session tickets that instances share: the control side keeps them in the store, the data plane
//! uses them. Knows neither.

/// How long a key makes new tickets, in seconds. It reads them for as long again, so that no ticket ends
/// before its time.
pub const KEY_LIFETIME_S: u64 = 12 * 3600;

/// A key of session tickets.
#[derive(Clone, PartialEq, Eq)]
pub struct TicketKey {
    /// Its name, which its tickets begin with.
    pub name: [u8; 16],
    /// Its bytes.
    pub secret: [u8; 32],
    /// The time from which it makes tickets, in seconds since the Unix epoch. It reads them before that, too.
    pub from_s: u64,
}

impl std::fmt::Debug for TicketKey {
    /// Without the secret.
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("TicketKey").field("from_s", &self.from_s).finish_non_exhaustive()
    }
}

/// The data plane's use of shared keys.
pub trait SharedTicketKeys: Send + Sync {
    /// Uses these keys from now on, and still reads tickets of others that are known.
    fn share(&self, keys: &[TicketKey]);
}
