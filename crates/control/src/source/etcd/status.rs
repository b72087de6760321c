//! The state of etcd as this instance knows it, for the view and the log. It makes no calls.

/// The state of etcd, as far as this instance knows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EtcdStatus {
    /// The state in one word.
    pub state: EtcdState,
    /// The reason why it is not followed.
    pub reason: Option<String>,
    /// The endpoint that calls go to.
    pub endpoint: String,
    /// The cluster that was read last; 0 before the first read.
    pub cluster_id: u64,
    /// The revision up to which all changes are known.
    pub revision: u64,
    /// The reason why the copy on this instance's disk is not up to date.
    pub copy_fault: Option<String>,
}

/// The state of etcd.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EtcdState {
    /// No answer was received yet.
    Starting,
    /// Every change arrives.
    Following,
    /// No member answers; the last known configuration is served.
    Unreachable,
    /// etcd has an older state than the one that is served.
    Behind,
}

impl EtcdStatus {
    /// The state before the first answer.
    pub fn starting(endpoint: &str) -> EtcdStatus {
        EtcdStatus {
            state: EtcdState::Starting,
            reason: None,
            endpoint: endpoint.to_owned(),
            cluster_id: 0,
            revision: 0,
            copy_fault: None,
        }
    }
}

impl EtcdState {
    /// The name in the status.
    pub const fn as_str(self) -> &'static str {
        match self {
            EtcdState::Starting => "starting",
            EtcdState::Following => "following",
            EtcdState::Unreachable => "unreachable",
            EtcdState::Behind => "behind",
        }
    }

    /// The words for the log.
    pub(crate) const fn in_words(self) -> &'static str {
        match self {
            EtcdState::Starting => "etcd is asked for the first time",
            EtcdState::Following => "etcd is followed",
            EtcdState::Unreachable => "etcd cannot be followed; what was known last stays in force",
            EtcdState::Behind => "etcd has older data than this node serves",
        }
    }
}
