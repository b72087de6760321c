//! What the data plane tells about itself: counters for a scrape, lines for an access log. Both cost nothing where they are off.

pub mod access_log;
pub mod exposition;
pub mod failures;
pub mod histogram;
pub mod log_writer;
pub mod metrics;
pub mod pace;
