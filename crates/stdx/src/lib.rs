//! Additions to the standard library for a gateway: buffers, segments of bytes, pooled boxes, timers, clocks,
//! hashing, published and persistent values, the nearest of some names, throttled lines, texts of metrics,
//! families of addresses, shares of weights, hints for the caches, an allocator for tests. It knows no
//! sockets, protocols or configuration, and does no I/O.
//!
//! Per-worker things are deliberately not `Send`: a worker thread shares nothing on the request path.
#![cfg_attr(test, allow(clippy::unwrap_used))]

pub mod address_family;
pub mod address_text;
pub mod buffer;
pub mod clock;
pub mod hash;
pub mod lent;
pub mod nearest;
pub mod noting_allocator;
pub mod open_metrics;
pub mod persistent;
pub mod pooled;
pub mod prefetch;
pub mod prometheus_text;
pub mod published;
pub mod segment;
pub mod threads;
pub mod throttle;
pub mod timers;
pub mod weight_share;
