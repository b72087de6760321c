//! How a node is chosen: the table of methods, and the key of those that have one. Balancing is the
//! gateway's.

use serde::Deserialize;

/// Declares [`BalanceMethod`], a line for each method.
macro_rules! balance_methods {
    ($($(#[$meta:meta])+ $method:ident = $name:literal, uses_key: $uses_key:literal;)+) => {
        /// A method of choosing a node.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
        pub enum BalanceMethod {
            $($(#[$meta])+ #[serde(rename = $name)] $method,)+
        }

        impl BalanceMethod {
            /// All methods, in the order of the schema of upstreams.
            pub const ALL: &'static [BalanceMethod] = &[$(BalanceMethod::$method),+];

            /// The name, as users write it in `type`.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $(BalanceMethod::$method => $name),+ }
            }

            /// Whether it maps a key of the request to a node, so that the upstream needs `key`, and weights
            /// must not grow.
            #[must_use]
            pub const fn uses_key(self) -> bool {
                match self { $(BalanceMethod::$method => $uses_key),+ }
            }
        }
    };
}

balance_methods! {
    /// A ring of hashes: the same node for the same key.
    ConsistentHash = "chash", uses_key: true;
    /// Each in turn, by weight.
    #[default]
    RoundRobin = "roundrobin", uses_key: false;
    /// The lowest moving average of latency.
    Ewma = "ewma", uses_key: false;
    /// The fewest open requests.
    LeastConnections = "least_conn", uses_key: false;
    /// The fewer open requests of two random nodes.
    Random = "random", uses_key: false;
    /// A table of hashes (Maglev).
    Maglev = "maglev", uses_key: true;
    /// A ring of hashes with nodes that pass requests on when they have too many.
    BoundedHash = "chash_bounded", uses_key: true;
    /// The destination of the session.
    OriginalDestination = "original_dst", uses_key: false;
}

impl BalanceMethod {
    /// The method of this name.
    #[must_use]
    pub fn named(name: &str) -> Option<BalanceMethod> {
        BalanceMethod::ALL.iter().copied().find(|method| method.name() == name)
    }
}

/// How a node is chosen.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Balance {
    /// The method.
    pub method: BalanceMethod,
    /// The key, for a method that uses one.
    pub key: Option<BalanceKey>,
}

/// The key that a method maps to a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BalanceKey {
    /// Where the key is taken from.
    pub on: HashOn,
    /// The name there; empty where the place is enough (`consumer`).
    pub name: Box<str>,
}

/// Where the key of consistent hashing is taken from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HashOn {
    /// A variable.
    #[default]
    Vars,
    /// A request header.
    Header,
    /// A cookie.
    Cookie,
    /// The consumer's name.
    Consumer,
    /// A text with variables in it.
    VarsCombinations,
}
