//! UDP sockets of layer 4: datagrams of many clients received and sent in batches, a connected socket for
//! each session with a node, and one wait for all of these. The simulation has no datagrams, so that the same
//! code stands beside both sides of the seam; no listener of the simulation asks for it.

mod batch;
mod raw;
mod sockets;

pub use batch::{Datagram, DatagramBatch, ReceiveCounts, SLOTS};
pub use sockets::{ClientSocket, DatagramSendFault, NodePoll, NodeSocket, Ready, fault_of};
