//! Observation of the data plane: counters for a scrape, lines for an access log, warnings about endpoints.
//! The first two cost nothing where they are off, warnings nothing while no attempt fails.

pub mod access_log;
pub(crate) mod current_work;
pub mod datagram_counts;
pub mod exposition;
pub mod failures;
pub mod grpc_counts;
pub mod idle_counts;
pub mod log_writer;
pub mod retry_counts;
pub mod series_text;
pub mod server_errors;
pub mod session_counts;
pub mod status;
pub mod tap;
pub mod traffic;
