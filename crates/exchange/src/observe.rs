//! Counters that exchanges and plugins write, and the pace of repeated log lines.

pub mod error_tap;
pub mod exemplars;
pub mod extra_labels;
pub mod histogram;
pub mod labels;
pub mod metrics;
pub mod node_loads;
pub mod pace;
pub mod reopening;
pub mod upstream_tls;
