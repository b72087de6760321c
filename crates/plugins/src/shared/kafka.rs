//! A producer for Kafka: messages to one topic, over byte streams that are kept open. It runs on the service
//! thread and knows no plugin.
//!
//! The versions of the protocol are fixed: those that every broker since Kafka 1.0 understands, 4.x included,
//! so that no negotiation is needed. Requests are written by the crate `kafka-protocol`; replies are read
//! here, because a length that a broken server claims must not make this process allocate.

mod connection;
mod producer;
mod sasl;
mod settings;
mod wire;

pub(crate) use producer::Producer;
pub(crate) use settings::{Broker, ClusterSettings, TlsFields, TopicSettings};
