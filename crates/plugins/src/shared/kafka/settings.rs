//! The fields by which plugins name a cluster, and what a producer is made from.

use exchange::plugin::outbound::{OutboundTls, check_place};

use crate::shared::attributes::{attributes, words};
use crate::shared::redis::settings::format_host_port;

words! {
    /// How a user proves the password.
    pub(crate) enum Mechanism {
        /// The password itself.
        Plain = "PLAIN",
        /// SCRAM with SHA-256.
        ScramSha256 = "SCRAM-SHA-256",
        /// SCRAM with SHA-512.
        ScramSha512 = "SCRAM-SHA-512",
    }
}

attributes! {
    /// The user of the brokers.
    #[derive(Clone, PartialEq, Eq)]
    pub(crate) struct SaslConfig {
        /// How the user proves the password.
        mechanism: Mechanism = Mechanism::Plain;
        /// The user.
        user: Box<str>, { "minLength": 1 };
        /// The password.
        password: Box<str>, { "minLength": 1 };
    }
}

attributes! {
    /// A broker to begin with; the others are found through it.
    #[derive(Clone)]
    pub(crate) struct Broker {
        /// The host of the broker.
        host: String;
        /// The port of the broker.
        port: u16, { "minimum": 1, "maximum": 65_535 };
        /// The user of this broker and of those that are found through it.
        sasl_config: Option<SaslConfig>;
    }
}

attributes! {
    /// TLS to the brokers.
    pub(crate) struct TlsFields {
        /// Whether the brokers' certificates are verified.
        verify: bool = false;
    }
}

/// A cluster: where it is found, and how its brokers are spoken to.
pub(crate) struct ClusterSettings {
    pub(crate) brokers: Vec<Broker>,
    /// None: in cleartext.
    pub(crate) tls: Option<TlsFields>,
    /// Milliseconds for a connection to open, and for each reply.
    pub(crate) timeout_ms: u64,
    /// Milliseconds after which the leaders of partitions are asked for anew.
    pub(crate) refresh_ms: u64,
}

/// A topic, and how messages go to it.
pub(crate) struct TopicSettings {
    pub(crate) topic: String,
    /// Chooses the partition, and stands in each message; without one, partitions take turns.
    pub(crate) key: Option<String>,
    /// Replies that a message waits for: 0 none, 1 the leader's, -1 those of all replicas.
    pub(crate) required_acks: i16,
    /// The longest request, in bytes of messages; a single message may be longer.
    pub(crate) request_max_bytes: usize,
}

impl Broker {
    /// `HOST:PORT`.
    pub(super) fn place(&self) -> String {
        format_host_port(&self.host, self.port)
    }

    /// Checks that streams can be opened to it.
    ///
    /// # Errors
    /// The misfit, a sentence.
    pub(crate) fn check(&self) -> Result<(), String> {
        check_place(&self.place())
    }
}

impl ClusterSettings {
    pub(super) fn outbound_tls(&self) -> Option<OutboundTls> {
        self.tls.as_ref().map(|tls| OutboundTls::verifying(tls.verify))
    }
}
