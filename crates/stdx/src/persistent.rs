//! Collections with clones that share structure, so that changing one entry of 100,000 costs microseconds
//! while readers keep the version they hold. They do not track their holders.

mod chunked_vec;
mod sharded_map;

pub use chunked_vec::ChunkedVec;
pub use sharded_map::ShardedMap;
