//! When the phases of an exchange happened, in nanoseconds of the monotonic clock; 0 where a phase was not
//! reached.

/// See the module.
#[derive(Clone, Copy, Debug, Default)]
pub struct ExchangeTimes {
    /// The first byte of the request was read.
    pub started_ns: u64,
    /// How long the client was waited for because some of its body was wanted before a node was chosen.
    pub body_waited_ns: u64,
    /// The plugins of the request were done, and a node was about to be chosen.
    pub upstream_started_ns: u64,
    /// The head of the final response was read.
    pub upstream_head_ns: u64,
    /// The response was read to its end.
    pub upstream_ended_ns: u64,
    /// The last byte was handed to the kernel.
    pub ended_ns: u64,
}

impl ExchangeTimes {
    /// From the first byte of the request to the last of the response.
    pub fn total_ns(&self) -> u64 {
        self.ended_ns.saturating_sub(self.started_ns)
    }

    /// The part of it spent waiting for nodes.
    pub fn upstream_ns(&self) -> u64 {
        if self.upstream_started_ns == 0 {
            return 0;
        }
        let ended = if self.upstream_ended_ns == 0 { self.ended_ns } else { self.upstream_ended_ns };
        ended.saturating_sub(self.upstream_started_ns)
    }

    /// The gateway's own part of it: without waiting for the client or the upstream.
    pub fn gateway_ns(&self) -> u64 {
        self.total_ns().saturating_sub(self.upstream_ns()).saturating_sub(self.body_waited_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gateway_time_excludes_client_and_upstream() {
        let times = |body_waited_ns, upstream_started_ns| ExchangeTimes {
            started_ns: 1_000,
            body_waited_ns,
            upstream_started_ns,
            upstream_head_ns: 0,
            upstream_ended_ns: 0,
            ended_ns: 1_100,
        };
        assert_eq!(times(0, 0).gateway_ns(), 100, "answered here");
        assert_eq!(times(0, 1_010).gateway_ns(), 10);
        assert_eq!(times(40, 1_060).gateway_ns(), 20);
        assert_eq!(times(95, 0).gateway_ns(), 5, "given up while it was waited for");
    }
}
