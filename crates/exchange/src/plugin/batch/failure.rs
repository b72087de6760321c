//! The failure of a delivery: the reason, how much of the batch arrived before it, and whether a repetition
//! can help.

/// Why a batch was not delivered, or not whole.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeliveryFailure {
    /// The failure and its place, a sentence for the log.
    pub reason: String,
    /// How many entries were delivered. Without `left` they are those at the beginning of the batch.
    pub delivered: usize,
    /// The indices of the entries that are sent again, ascending; without it those behind the delivered ones.
    /// The other entries that were not delivered are given up.
    pub left: Option<Vec<usize>>,
    /// The peer would refuse the entries again, so they are not sent again.
    pub is_final: bool,
}

impl DeliveryFailure {
    /// A failure after `delivered` entries.
    pub fn after(delivered: usize, reason: impl Into<String>) -> DeliveryFailure {
        DeliveryFailure { reason: reason.into(), delivered, left: None, is_final: false }
    }

    /// A failure after which only the entries at the indices `left`, ascending, are worth another attempt;
    /// `delivered` of the others have arrived.
    pub fn with_left(delivered: usize, left: Vec<usize>, reason: impl Into<String>) -> DeliveryFailure {
        DeliveryFailure { left: Some(left), ..DeliveryFailure::after(delivered, reason) }
    }

    /// A refusal of all entries but `delivered` that a repetition does not change.
    pub fn last_after(delivered: usize, reason: impl Into<String>) -> DeliveryFailure {
        DeliveryFailure { is_final: true, ..DeliveryFailure::after(delivered, reason) }
    }

    /// A refusal of the whole batch that a repetition does not change.
    pub fn last(reason: impl Into<String>) -> DeliveryFailure {
        DeliveryFailure::last_after(0, reason)
    }

    /// Whether the entry at `index` was neither delivered nor given up.
    pub(super) fn leaves(&self, index: usize) -> bool {
        match &self.left {
            Some(left) => left.binary_search(&index).is_ok(),
            None => index >= self.delivered,
        }
    }
}

impl From<String> for DeliveryFailure {
    fn from(reason: String) -> DeliveryFailure {
        DeliveryFailure::after(0, reason)
    }
}
