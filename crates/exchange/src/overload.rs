//! Decisions under overload: the order in which requests are shed, connections per address, memory that is
//! left, requests that an upstream can take, circuits and queues. Callers refuse; this only decides.

pub mod addresses;
pub mod bulkhead;
pub mod capacity;
pub mod circuit;
pub mod gate;
pub mod latency_percentile;
pub mod limiter;
pub mod memory;
pub mod outliers;
mod priority;
pub mod reservation;
pub mod retry_budget;
pub mod retry_reason;
pub mod wait_queue;
pub mod window;

pub use priority::Priority;

use addresses::AddressCounts;
use capacity::Capacity;
use memory::MemoryLevel;

use crate::failure::{Cause, ExchangeFailure};
use crate::options::Options;
use crate::own_addresses::OwnAddresses;

/// State that the workers of a process share, because users write it as one number for all of them.
#[derive(Debug, Default)]
pub struct OverloadState {
    /// Connections by client address.
    pub addresses: AddressCounts,
    /// How much memory is left.
    pub memory: MemoryLevel,
    /// How many descriptors are left.
    pub capacity: Capacity,
    /// The addresses of this process, against sessions that come back to it.
    pub own_addresses: OwnAddresses,
}

impl OverloadState {
    /// As the options ask for.
    pub fn new(options: &Options) -> OverloadState {
        let most = options.limits.max_connections_per_address;
        let capacity = Capacity::default();
        capacity.read_limit();
        OverloadState {
            addresses: AddressCounts::new(most, options.forward.trusted_addresses.clone()),
            memory: MemoryLevel::default(),
            capacity,
            own_addresses: OwnAddresses::default(),
        }
    }

    /// Refuses a request of that priority if memory is too short for it.
    #[inline]
    pub fn check_memory(&self, priority: Priority) -> Result<(), ExchangeFailure> {
        if !self.memory.refuses(priority) {
            return Ok(());
        }
        let detail = format!("memory is short; {} requests are refused", priority.as_str());
        Err(ExchangeFailure::new(Cause::MemoryLimit, detail))
    }

    /// Appends a piece of a body to what is held of it, which grows by doubling, up to `limit_bytes`.
    ///
    /// # Errors
    /// `memory_limit`, when memory is too short for it.
    pub fn append_limited(
        &self,
        held: &mut Vec<u8>,
        piece: &[u8],
        limit_bytes: usize,
    ) -> Result<(), ExchangeFailure> {
        let needed_bytes = held.len() + piece.len();
        let grows = held.capacity() < needed_bytes;
        // Growing copies what is there to a place that was not resident before.
        self.check_room(piece.len() + if grows { held.len() } else { 0 })?;
        if grows {
            let room_bytes = held.len().saturating_mul(2).min(limit_bytes).max(needed_bytes);
            held.reserve_exact(room_bytes - held.len());
        }
        held.extend_from_slice(piece);
        Ok(())
    }

    /// Takes note that so many bytes of a body are about to be held.
    ///
    /// # Errors
    /// `memory_limit`, when memory is too short for them.
    pub fn check_room(&self, bytes: usize) -> Result<(), ExchangeFailure> {
        if self.memory.try_reserve(bytes) {
            return Ok(());
        }
        let detail = "memory is short; no more of a body is held".to_owned();
        Err(ExchangeFailure::new(Cause::MemoryLimit, detail))
    }
}
