//! Why a route matched and why the others did not.
//!
//! It is for `weir explain` and not built for speed. It visits the candidates as a lookup does, so that both
//! always agree.

use std::fmt;

use super::{RequestView, Router};
use crate::vars::GaveUp;

/// One candidate and its verdict.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Considered {
    /// The caller's slot.
    pub slot: u32,
    /// The path of the route that made it a candidate, as written.
    pub path_pattern: String,
    /// The host pattern it was found under, in `HostUri` mode.
    pub host_pattern: Option<String>,
    /// The outcome.
    pub verdict: Verdict,
}

/// The result for a candidate. A lookup makes its tests in the order of these variants.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Verdict {
    /// It is the route.
    Matched,
    /// `methods` does not hold the request's.
    LostMethod,
    /// `remote_addrs` does not hold the client's.
    LostRemoteAddr,
    /// No entry of `hosts` fits.
    LostHost,
    /// `vars` is false.
    LostVars,
    /// Whether `vars` hold is not known; a lookup ends here without a route.
    Undecided(GaveUp),
    /// The path begins with the literal but does not match after its first wildcard or parameter.
    LostParameter,
    /// It matches, but the route in this slot was tried before it.
    OutrankedBy(u32),
}

impl fmt::Display for Verdict {
    /// A phrase for people, such as `weir explain` prints.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Matched => "matched",
            Self::LostMethod => "its methods do not include the request's",
            Self::LostRemoteAddr => "its remote_addrs do not include the client's address",
            Self::LostHost => "its hosts do not include the request's",
            Self::LostVars => "its vars do not hold",
            Self::Undecided(reason) => {
                return write!(formatter, "whether its vars hold is not known: {reason}");
            }
            Self::LostParameter => "the rest of the path does not fit its pattern",
            Self::OutrankedBy(slot) => {
                return write!(formatter, "would fit, but slot {slot} was tried first");
            }
        })
    }
}

impl Router {
    /// All routes with a path that fits the request's, in the order they are tried, with the result for each:
    /// also those a lookup does not reach, and last, in no particular order, those that only stand under
    /// other hosts.
    ///
    /// At most 1,000 are listed.
    pub fn explain<V: RequestView>(&self, request: &V) -> Vec<Considered> {
        let mut all = Vec::new();
        let mut winner = None;
        let stopped = self.visit(request, &mut |entry, host| {
            let verdict = match (self.examine(entry, request, None), winner) {
                (Verdict::Matched, Some(winner)) => Verdict::OutrankedBy(winner),
                (Verdict::Matched, None) => {
                    winner = Some(entry.slot);
                    Verdict::Matched
                }
                (lost, _) => lost,
            };
            all.push(Considered {
                slot: entry.slot,
                path_pattern: entry.pattern().as_str().to_owned(),
                host_pattern: host.map(str::to_owned),
                verdict,
            });
            (all.len() >= CONSIDERED_MAX).then_some(())
        });
        if stopped.is_none() {
            self.explain_other_hosts(request, &mut all);
        }
        all
    }

    fn explain_other_hosts<V: RequestView>(&self, request: &V, all: &mut Vec<Considered>) {
        let mut tried: Vec<&str> = Vec::new();
        self.hosts.visit(request.host(), request.raw_host(), &mut |pattern, _| {
            tried.push(pattern);
            None::<()>
        });
        self.hosts.for_each(&mut |host| {
            if tried.contains(&host.pattern()) {
                return true;
            }
            let stopped = host.table().visit(request.path(), &mut |entry| {
                all.push(Considered {
                    slot: entry.slot,
                    path_pattern: entry.pattern().as_str().to_owned(),
                    host_pattern: Some(host.pattern().to_owned()),
                    verdict: Verdict::LostHost,
                });
                (all.len() >= CONSIDERED_MAX).then_some(())
            });
            stopped.is_none()
        });
    }
}

/// A limit, because a catch-all path under 100,000 hosts must not become a response of megabytes.
const CONSIDERED_MAX: usize = 1000;
