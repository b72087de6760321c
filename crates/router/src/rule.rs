//! The conditions of a route on a request, checked and ready for the router.
//!
//! It knows neither the route's actions nor the language of conditions that are code.

use std::any::Any;
use std::collections::HashSet;
use std::fmt;
use std::sync::Arc;

use crate::cidr::CidrSet;
use crate::hosts::HostPattern;
use crate::methods::MethodSet;
use crate::path_pattern::PathPattern;
use crate::vars::Expression;

/// The conditions of a route as written, to be checked by [`Rule::new`].
#[derive(Clone, Debug, Default)]
pub struct RuleInput {
    /// `uri` or `uris`, at least one.
    pub paths: Vec<String>,
    /// Whether the paths are templates of a contract, with parameters in braces (`/pets/{id}`).
    pub are_templates: bool,
    /// `host` or `hosts`, those of the service if the route has none; empty: any host.
    pub hosts: Vec<String>,
    /// `methods`; [`MethodSet::ANY`] if there are none.
    pub methods: MethodSet,
    /// `remote_addr` or `remote_addrs`; none: any address.
    pub remote_addrs: Option<CidrSet>,
    /// `vars`; none: always true.
    pub vars: Option<Arc<Expression>>,
    /// A further condition, of a type that the caller knows: [`crate::RequestView::holds`] tells whether it
    /// holds.
    pub condition: Option<Arc<dyn Any + Send + Sync>>,
    /// `priority`: among routes with the same literal path the higher is tried first.
    pub priority: i64,
    /// The order of routes that are otherwise equal: the lower is tried first, then the lower slot. Use the
    /// revision that created the route, so that every instance decides alike.
    pub order: u64,
}

/// The checked conditions of a route, shared by every table that it is in.
#[derive(Debug)]
pub struct Rule {
    pub(crate) paths: Box<[PathPattern]>,
    pub(crate) hosts: Box<[HostPattern]>,
    pub(crate) methods: MethodSet,
    pub(crate) remote_addrs: Option<Box<CidrSet>>,
    pub(crate) vars: Option<Arc<Expression>>,
    pub(crate) condition: Option<Arc<dyn Any + Send + Sync>>,
    pub(crate) priority: i64,
    pub(crate) order: u64,
}

/// Which list of a rule is at fault, and which entry, from 0.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum RuleField {
    /// `hosts`.
    Hosts(usize),
    /// `uris`.
    Paths(usize),
}

/// Why a rule is refused.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error("{field}: {reason}")]
pub struct RuleError {
    /// The place.
    pub field: RuleField,
    /// The reason, a phrase that is appended to the place.
    pub reason: &'static str,
}

impl Rule {
    /// Checks the conditions. Entries written twice count once.
    ///
    /// # Errors
    /// The first malformed path or host, with its place. A path that does not begin with `/` or `*` is
    /// accepted, as APISIX accepts it, though no request has such a path.
    pub fn new(input: RuleInput) -> Result<Self, RuleError> {
        if input.paths.is_empty() {
            return Err(RuleError { field: RuleField::Paths(0), reason: "a route needs at least one path" });
        }
        if input.paths.len() > PATHS_MAX {
            return Err(RuleError {
                field: RuleField::Paths(PATHS_MAX),
                reason: "a route has at most 10,000 paths",
            });
        }
        let mut seen = HashSet::new();
        let mut paths: Vec<PathPattern> = Vec::with_capacity(input.paths.len());
        for (index, text) in input.paths.iter().enumerate() {
            let path = if input.are_templates {
                PathPattern::parse_template(text)
            } else {
                PathPattern::parse(text)
            };
            let path = path.map_err(|reason| RuleError { field: RuleField::Paths(index), reason })?;
            if seen.insert(text.as_str()) {
                paths.push(path);
            }
        }
        if input.hosts.len() > HOSTS_MAX {
            return Err(RuleError {
                field: RuleField::Hosts(HOSTS_MAX),
                reason: "a route has at most 10,000 hosts",
            });
        }
        let mut known_hosts = HashSet::new();
        let mut hosts: Vec<HostPattern> = Vec::with_capacity(input.hosts.len());
        for (index, text) in input.hosts.iter().enumerate() {
            let host = HostPattern::parse(text)
                .map_err(|reason| RuleError { field: RuleField::Hosts(index), reason })?;
            if known_hosts.insert(host.clone()) {
                hosts.push(host);
            }
        }
        if paths.len() * hosts.len() > PAIRS_MAX {
            let reason = "a route has at most 1,000,000 pairs of a host and a path; use several routes";
            return Err(RuleError { field: RuleField::Hosts(0), reason });
        }
        Ok(Self {
            paths: paths.into_boxed_slice(),
            hosts: hosts.into_boxed_slice(),
            methods: input.methods,
            remote_addrs: input.remote_addrs.map(Box::new),
            vars: input.vars,
            condition: input.condition,
            priority: input.priority,
            order: input.order,
        })
    }

    /// The paths as written.
    pub fn paths(&self) -> impl Iterator<Item = &str> {
        self.paths.iter().map(PathPattern::as_str)
    }

    /// The hosts in lower case.
    pub fn hosts(&self) -> impl Iterator<Item = &str> {
        self.hosts.iter().map(HostPattern::as_str)
    }

    /// The most precise of the hosts that a request has, in lower case; see [`HostPattern::matches`].
    #[must_use]
    pub fn fitting_host(&self, host: &[u8], raw_host: &[u8]) -> Option<&str> {
        let fitting = self.hosts.iter().filter(|pattern| pattern.matches(host, raw_host));
        // A wildcard is at most as long as the host, with one byte for the asterisk.
        fitting
            .max_by_key(|pattern| (pattern.suffix().is_none(), pattern.as_str().len()))
            .map(HostPattern::as_str)
    }

    /// Whether matching may have to read the request's body.
    #[must_use]
    pub fn uses_request_body(&self) -> bool {
        self.vars.as_ref().is_some_and(|vars| vars.uses_request_body())
    }
}

impl fmt::Display for RuleField {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Hosts(index) => write!(formatter, "hosts[{index}]"),
            Self::Paths(index) => write!(formatter, "uris[{index}]"),
        }
    }
}

/// Most paths of one route; each is in the table under every host of the route.
const PATHS_MAX: usize = 10_000;

/// Hosts of one route or service. 10,000 cover a route for all domains of a hosting provider's customer; more
/// belong in several routes with one service, so that one write does not occupy the control side for seconds.
pub const HOSTS_MAX: usize = 10_000;

/// Pairs of a host and a path of one route. Where hosts are looked up first, each pair is an entry of some
/// fifty bytes: 10,000 hosts with 10,000 paths would take gigabytes.
const PAIRS_MAX: usize = 1_000_000;

#[cfg(test)]
mod tests {
    use super::*;

    fn check(paths: &[&str], hosts: &[&str], message: &str) {
        let owned = |texts: &[&str]| texts.iter().map(ToString::to_string).collect();
        let input = RuleInput { paths: owned(paths), hosts: owned(hosts), ..RuleInput::default() };
        assert_eq!(Rule::new(input).unwrap_err().to_string(), message);
    }

    #[test]
    fn most_precise_host_of_a_rule_fits() {
        let hosts = ["*", "*.a.test", "x.a.test", "*.b.a.test", "y.test:80"].map(str::to_owned).to_vec();
        let input = RuleInput { paths: vec!["/".to_owned()], hosts, ..RuleInput::default() };
        let rule = Rule::new(input).unwrap();
        for (host, raw_host, expected) in [
            ("x.a.test", "x.a.test", "x.a.test"),
            ("y.a.test", "y.a.test", "*.a.test"),
            ("x.b.a.test", "X.b.a.test:80", "*.b.a.test"),
            ("y.test", "y.test:80", "y.test:80"),
            ("y.test", "y.test", "*"),
        ] {
            assert_eq!(rule.fitting_host(host.as_bytes(), raw_host.as_bytes()), Some(expected), "{host}");
        }
    }

    #[test]
    fn refusals_name_the_place() {
        check(&[], &[], "uris[0]: a route needs at least one path");
        check(&["/a", ""], &[], "uris[1]: is empty");
        check(&["/a"], &["a", "b.*.c"], "hosts[1]: has a `*` that is not its first character");
    }

    #[test]
    fn hosts_are_limited_and_compared_by_hash() {
        let input = |count: usize| RuleInput {
            paths: vec!["/a".to_owned()],
            hosts: (0..count).map(|number| format!("h{number}.example")).collect(),
            ..RuleInput::default()
        };
        assert_eq!(Rule::new(input(HOSTS_MAX)).unwrap().hosts().count(), HOSTS_MAX);
        let refused = Rule::new(input(100_000)).unwrap_err();
        assert_eq!(refused.to_string(), "hosts[10000]: a route has at most 10,000 hosts");
        crate::hosts::comparisons::reset();
        Rule::new(input(HOSTS_MAX)).unwrap();
        let comparisons = crate::hosts::comparisons::count();
        assert!(comparisons <= HOSTS_MAX, "{comparisons} comparisons of {HOSTS_MAX} hosts");
    }

    #[test]
    fn pairs_of_hosts_and_paths_are_limited() {
        let names = |count: usize, form: fn(usize) -> String| (0..count).map(form).collect::<Vec<_>>();
        let input = |paths: usize, hosts: usize| RuleInput {
            paths: names(paths, |number| format!("/{number}")),
            hosts: names(hosts, |number| format!("h{number}")),
            ..RuleInput::default()
        };
        assert!(Rule::new(input(1_000, 1_000)).is_ok());
        let refused = Rule::new(input(1_001, 1_000)).unwrap_err().to_string();
        assert!(refused.contains("at most 1,000,000 pairs"), "{refused}");
    }

    #[test]
    fn doubles_count_once() {
        let input = RuleInput {
            paths: vec!["/a".to_owned(), "/a".to_owned()],
            hosts: vec!["A".to_owned(), "a".to_owned()],
            ..RuleInput::default()
        };
        let rule = Rule::new(input).unwrap();
        assert_eq!((rule.paths().count(), rule.hosts().collect::<Vec<_>>()), (1, vec!["a"]));
    }
}
