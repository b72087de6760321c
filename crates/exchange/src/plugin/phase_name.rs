//! The phases of a request in which plugins run, as data.

/// The phases a kind takes part in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PluginPhase {
    /// [`Plugin::preflight`](super::Plugin::preflight)
    Preflight,
    /// [`Plugin::rewrite`](super::Plugin::rewrite)
    Rewrite,
    /// [`Plugin::wants_request_body`](super::Plugin::wants_request_body)
    RequestBody,
    /// [`Plugin::access`](super::Plugin::access)
    Access,
    /// [`Plugin::before_proxy`](super::Plugin::before_proxy)
    BeforeProxy,
    /// [`Plugin::before_attempt`](super::Plugin::before_attempt)
    Attempt,
    /// [`Plugin::upstream_response`](super::Plugin::upstream_response)
    UpstreamResponse,
    /// [`Plugin::response_head`](super::Plugin::response_head)
    ResponseHead,
    /// [`Plugin::response_body`](super::Plugin::response_body) and
    /// [`Plugin::response_trailers`](super::Plugin::response_trailers)
    ResponseBody,
    /// [`Plugin::coding_weight`](super::Plugin::coding_weight) and
    /// [`Plugin::encoder`](super::Plugin::encoder)
    Encode,
    /// [`Plugin::informational`](super::Plugin::informational)
    Informational,
    /// [`Plugin::request_ended`](super::Plugin::request_ended), then
    /// [`Plugin::before_log`](super::Plugin::before_log)
    BeforeLog,
    /// [`Plugin::log`](super::Plugin::log) and [`Plugin::log_task`](super::Plugin::log_task)
    Log,
}

impl PluginPhase {
    /// How many phases there are.
    pub const COUNT: usize = PluginPhase::Log as usize + 1;

    /// The name of the phase for users: the contract's where it has one.
    pub fn name(self) -> &'static str {
        self.contract_name().unwrap_or(match self {
            PluginPhase::Preflight => "preflight",
            PluginPhase::RequestBody => "request_body",
            _ => "upstream_response",
        })
    }

    /// The contract's name of the phase; none for one that the contract does not have.
    pub(crate) fn contract_name(self) -> Option<&'static str> {
        Some(match self {
            PluginPhase::Rewrite => "rewrite",
            PluginPhase::Preflight | PluginPhase::RequestBody => return None,
            PluginPhase::Access => "access",
            PluginPhase::BeforeProxy | PluginPhase::Attempt => "before_proxy",
            PluginPhase::UpstreamResponse => return None,
            PluginPhase::ResponseHead | PluginPhase::Encode | PluginPhase::Informational => "header_filter",
            PluginPhase::ResponseBody => "body_filter",
            PluginPhase::BeforeLog | PluginPhase::Log => "log",
        })
    }
}
