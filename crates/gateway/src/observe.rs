//! What the data plane tells about itself: counters for a scrape, lines for an access log, warnings about endpoints.
//! The first two cost nothing where they are off, warnings nothing while all goes well.

pub mod access_log;
pub(crate) mod current_work;
pub mod exposition;
pub mod failures;
pub mod idle_counts;
pub mod log_writer;
pub mod status;
