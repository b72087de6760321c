//! The settings of a queue.

/// How a queue forms and repeats batches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueueSettings {
    /// Its name in metrics and messages.
    pub name: Box<str>,
    /// The object it belongs to, such as `/routes/1`.
    pub owner: Box<str>,
    /// A batch is sent as soon as it has so many entries.
    pub batch_max_entries: usize,
    /// A batch is sent when its oldest entry has waited so many milliseconds.
    pub buffer_duration_ms: u64,
    /// A batch is sent when no entry has come for so many milliseconds.
    pub inactive_timeout_ms: u64,
    /// How often a batch that failed is sent again before it is given up.
    pub max_retry_count: u32,
    /// Milliseconds before it is sent again.
    pub retry_delay_ms: u64,
    /// The most entries held, those on their way included.
    pub max_pending_entries: usize,
}
