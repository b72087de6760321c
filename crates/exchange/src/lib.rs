//! One request and its response, and everything that works on them whatever the protocol: variables,
//! failures, the plugin trait and its chains, the services of a worker thread, outbound calls, batches,
//! limits under overload. It knows no connection, no route table and no worker.
#![warn(missing_docs)]
#![cfg_attr(any(test, feature = "simulation"), allow(clippy::unwrap_used))]

pub mod client_address;
pub mod deadline;
pub mod exchange;
pub mod failure;
pub mod grpc;
pub mod inner;
pub mod local;
pub mod observe;
pub mod options;
pub mod overload;
pub mod own_addresses;
pub mod plugin;
pub mod prepare;
#[doc(hidden)]
pub mod testing;

pub use exchange::Exchange;
pub use local::WorkerLocal;
