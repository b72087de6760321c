//! The router: from a request to the slot of the route it matches.
//!
//! It does not know the contents of a slot. The semantics are those of APISIX's three routers:
//!
//! 1. [`Mode::HostUri`]: the routes under the host's exact name, then under each wildcard from the longest
//!    suffix to the shortest, then those without hosts; patterns with a port go before those without. The
//!    other modes have one table and take hosts as one more test.
//! 2. Within a table: an exact path before any prefix, whatever the priorities; prefixes from the longest
//!    literal.
//! 3. Routes that share a literal: the higher priority, then the longer path, then the lower `order` (the
//!    older route), then the lower slot.
//! 4. In one candidate: methods, remote address, hosts, `vars`, and last the rest of the path.
//!
//! A clone shares its structure with the original; inserting or removing copies only the path to the change,
//! so a published clone is never affected and a change among 100,000 routes costs microseconds.

mod explain;
mod hosts;

use std::any::Any;
use std::net::IpAddr;
use std::sync::Arc;

pub use explain::{Considered, Verdict};

use crate::params::Params;
use crate::rule::Rule;
use crate::table::{Entry, Table};
use crate::vars::VariableSource;
use hosts::HostTables;

/// Which of APISIX's routers is used.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Mode {
    /// `radixtree_host_uri`: hosts decide first.
    #[default]
    HostUri,
    /// `radixtree_uri`: paths decide first, hosts only filter.
    Uri,
    /// `radixtree_uri_with_parameter`: as `Uri`, with `:name` segments.
    UriWithParameter,
}

/// The parts of a request that the router reads, besides variables.
pub trait RequestView: VariableSource {
    /// The decoded canonical path.
    fn path(&self) -> &[u8];
    /// The host in lower case, without port.
    fn host(&self) -> &[u8];
    /// The host as sent, with port if one was sent.
    fn raw_host(&self) -> &[u8];
    /// The method's bit, see [`crate::methods::method_bit`].
    fn method_bit(&self) -> Option<u8>;
    /// The client's address.
    fn remote_addr(&self) -> IpAddr;
    /// Whether a condition of the caller's own type holds ([`crate::RuleInput::condition`]).
    fn holds(&self, _condition: &(dyn Any + Send + Sync)) -> bool {
        false
    }
}

/// Rules by path and host, each with the caller's slot.
#[derive(Clone, Debug, Default)]
pub struct Router {
    mode: Mode,
    /// The routes without hosts; in the modes that only filter by host, all routes.
    hostless: Table,
    hosts: HostTables,
    rules: usize,
    /// Number of rules that may need the request's body.
    body_readers: usize,
}

/// A route that matched.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Match<'r> {
    /// The caller's slot.
    pub slot: u32,
    /// The path of the route that matched, as written.
    pub path: &'r str,
    /// In [`Mode::HostUri`] the host pattern that matched, in lower case.
    pub host: Option<&'r str>,
}

impl Router {
    /// An empty router.
    #[must_use]
    pub fn new(mode: Mode) -> Self {
        Self { mode, ..Self::default() }
    }

    /// The mode of the router.
    #[must_use]
    pub fn mode(&self) -> Mode {
        self.mode
    }

    /// Adds a rule. A slot holds one rule, so the old one has to be removed first.
    pub fn insert(&mut self, slot: u32, rule: Arc<Rule>) {
        let with_parameters = self.mode == Mode::UriWithParameter;
        if self.change(slot, &rule, |table, entry| table.insert(with_parameters, entry)) {
            self.rules += 1;
            self.body_readers += usize::from(rule.uses_request_body());
        }
    }

    /// Removes the rule of a slot. `rule` is the one that was inserted, or an equal one; without effect if
    /// the slot does not hold it.
    pub fn remove(&mut self, slot: u32, rule: &Arc<Rule>) {
        let with_parameters = self.mode == Mode::UriWithParameter;
        if self.change(slot, rule, |table, entry| table.remove(with_parameters, &entry)) {
            self.rules -= 1;
            self.body_readers -= usize::from(rule.uses_request_body());
        }
    }

    /// Number of rules.
    #[must_use]
    pub fn len(&self) -> usize {
        self.rules
    }

    /// Whether there is no rule.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.rules == 0
    }

    /// Whether matching may have to read the request's body.
    #[must_use]
    pub fn uses_request_body(&self) -> bool {
        self.body_readers > 0
    }

    /// The slot of the route that matches. `params` is emptied, and filled in [`Mode::UriWithParameter`].
    /// Also `None` if it is undecided whether a route's `vars` hold; the request is told by
    /// [`VariableSource::search_gave_up`].
    pub fn find<V: RequestView>(&self, request: &V, params: &mut Params) -> Option<u32> {
        self.find_match(request, params).map(|found| found.slot)
    }

    /// As [`Self::find`], with the patterns that matched.
    pub fn find_match<'r, V: RequestView>(&'r self, request: &V, params: &mut Params) -> Option<Match<'r>> {
        params.clear();
        let found =
            self.visit(request, &mut |entry, host| match self.examine(entry, request, Some(params)) {
                Verdict::Matched => {
                    Some(Some(Match { slot: entry.slot, path: entry.pattern().as_str(), host }))
                }
                // A later route is not taken, because the undecided one may be the right one.
                Verdict::Undecided(reason) => {
                    request.search_gave_up(reason);
                    Some(None)
                }
                _ => None,
            });
        found.flatten()
    }

    /// Calls `visit` with every candidate by path and host, in order, until it returns a result.
    fn visit<'r, V: RequestView, R>(
        &'r self,
        request: &V,
        visit: &mut impl FnMut(&'r Entry, Option<&'r str>) -> Option<R>,
    ) -> Option<R> {
        let path = request.path();
        let under_host = self.hosts.visit(request.host(), request.raw_host(), &mut |host, table| {
            table.visit(path, &mut |entry| visit(entry, Some(host)))
        });
        under_host.or_else(|| self.hostless.visit(path, &mut |entry| visit(entry, None)))
    }

    /// Tests one candidate; returns the first failed test.
    fn examine<V: RequestView>(&self, entry: &Entry, request: &V, params: Option<&mut Params>) -> Verdict {
        let rule = &*entry.rule;
        if !rule.methods.contains(request.method_bit()) {
            return Verdict::LostMethod;
        }
        if rule.remote_addrs.as_ref().is_some_and(|set| !set.contains(request.remote_addr())) {
            return Verdict::LostRemoteAddr;
        }
        if self.mode != Mode::HostUri && !host_fits(rule, request) {
            return Verdict::LostHost;
        }
        match rule.vars.as_ref().map_or(Ok(true), |vars| vars.verdict(request)) {
            Ok(true) => {}
            Ok(false) => return Verdict::LostVars,
            Err(reason) => return Verdict::Undecided(reason),
        }
        if rule.condition.as_ref().is_some_and(|condition| !request.holds(&**condition)) {
            return Verdict::LostVars;
        }
        let with_parameters = self.mode == Mode::UriWithParameter;
        let params = params.filter(|_| with_parameters);
        if !entry.pattern().fits(with_parameters, request.path(), params) {
            return Verdict::LostParameter;
        }
        Verdict::Matched
    }

    /// Calls `change` for each entry of a rule and each table it belongs to; returns whether any table
    /// changed.
    fn change(
        &mut self,
        slot: u32,
        rule: &Arc<Rule>,
        mut change: impl FnMut(&mut Table, Entry) -> bool,
    ) -> bool {
        let mut changed = false;
        let mut change_all = |table: &mut Table| {
            for entry in Entry::all(slot, rule) {
                changed |= change(table, entry);
            }
        };
        if self.mode != Mode::HostUri || rule.hosts.is_empty() {
            change_all(&mut self.hostless);
        } else {
            for host in &rule.hosts {
                self.hosts.update(host, &mut change_all);
            }
        }
        changed
    }
}

fn host_fits<V: RequestView>(rule: &Rule, request: &V) -> bool {
    rule.hosts.is_empty() || rule.hosts.iter().any(|host| host.matches(request.host(), request.raw_host()))
}
