//! The failure of a delivery: the reason, how much of the batch arrived before it, and whether a repetition can help.

/// Why a batch was not delivered, or not whole.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeliveryFailure {
    /// The failure and its place, a sentence for the log.
    pub reason: String,
    /// How many entries at the beginning of the batch were delivered; only the others are sent again.
    pub delivered: usize,
    /// The peer would refuse the entries again, so they are not sent again.
    pub is_final: bool,
}

impl DeliveryFailure {
    /// A failure after `delivered` entries.
    pub fn after(delivered: usize, reason: impl Into<String>) -> DeliveryFailure {
        DeliveryFailure { reason: reason.into(), delivered, is_final: false }
    }

    /// A refusal of the whole batch that a repetition does not change.
    pub fn last(reason: impl Into<String>) -> DeliveryFailure {
        DeliveryFailure { reason: reason.into(), delivered: 0, is_final: true }
    }
}

impl From<String> for DeliveryFailure {
    fn from(reason: String) -> DeliveryFailure {
        DeliveryFailure::after(0, reason)
    }
}
