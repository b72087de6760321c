//! How many connections each client address has in this process. The table holds an entry only for connected
//! addresses, so it is bounded by the limit on connections.

use parking_lot::{Mutex, MutexGuard};
use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};

use ipnet::IpNet;

/// Parts of the table, each with a lock of its own, so that workers that accept at once seldom meet.
const SHARDS: usize = 64;
/// A client with one IPv6 address usually has its whole /64 (RFC 6177 section 2), which counts as one client.
const IPV6_CLIENT_BITS: u32 = 64;

/// See the module.
#[derive(Debug, Default)]
pub struct AddressCounts {
    /// Connections an address may have; 0 is without limit, and then nothing is counted.
    most: u32,
    /// Balancers and proxies in front: many clients share their address.
    exempt: Vec<IpNet>,
    // The default hasher is keyed at random, so that no client can choose addresses that meet in one bucket.
    shards: Vec<Mutex<HashMap<IpAddr, u32>>>,
}

impl AddressCounts {
    /// At most `most` connections for each address but the `exempt` ones.
    pub fn new(most: u32, exempt: Vec<IpNet>) -> AddressCounts {
        let shards = if most == 0 { 0 } else { SHARDS };
        AddressCounts { most, exempt, shards: (0..shards).map(|_| Mutex::default()).collect() }
    }

    /// Counts a connection from `address`; false if that one has as many as it may.
    pub fn claim(&self, address: IpAddr) -> bool {
        let Some(client) = self.client(address) else { return true };
        let mut shard = self.shard(client);
        let count = shard.entry(client).or_insert(0);
        if *count >= self.most {
            return false;
        }
        *count += 1;
        true
    }

    /// Gives a claimed connection's place back.
    pub fn release(&self, address: IpAddr) {
        let Some(client) = self.client(address) else { return };
        let mut shard = self.shard(client);
        if let Some(count) = shard.get_mut(&client) {
            *count -= 1;
            if *count == 0 {
                shard.remove(&client);
            }
        }
    }

    /// The client that `address` counts for; none where it is not counted.
    #[inline]
    fn client(&self, address: IpAddr) -> Option<IpAddr> {
        if self.most == 0 {
            return None;
        }
        let address = address.to_canonical();
        if self.exempt.iter().any(|network| network.contains(&address)) {
            return None;
        }
        Some(match address {
            IpAddr::V4(_) => address,
            IpAddr::V6(v6) => {
                let rest = u128::BITS - IPV6_CLIENT_BITS;
                IpAddr::V6(Ipv6Addr::from_bits(v6.to_bits() >> rest << rest))
            }
        })
    }

    fn shard(&self, client: IpAddr) -> MutexGuard<'_, HashMap<IpAddr, u32>> {
        let bytes = match client {
            IpAddr::V4(address) => u64::from(address.to_bits()),
            IpAddr::V6(address) => (address.to_bits() >> u64::BITS) as u64,
        };
        let number = (bytes ^ bytes >> 16 ^ bytes >> 32) as usize % self.shards.len();
        self.shards[number].lock()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn claims(counts: &AddressCounts, addresses: &[&str]) -> Vec<bool> {
        addresses.iter().map(|address| counts.claim(address.parse().unwrap())).collect()
    }

    #[test]
    fn each_client_has_its_own_count() {
        let counts = AddressCounts::new(2, vec!["10.0.0.0/8".parse().unwrap()]);
        let v4 = ["192.0.2.1", "192.0.2.1", "::ffff:192.0.2.1", "192.0.2.2"];
        assert_eq!(claims(&counts, &v4), [true, true, false, true]);
        let v6 = ["2001:db8::1", "2001:db8::2", "2001:db8:0:0:ffff::3", "2001:db8:0:1::1"];
        assert_eq!(claims(&counts, &v6), [true, true, false, true], "a /64 is one client");
        assert_eq!(claims(&counts, &["10.1.1.1"; 5]), [true; 5], "a trusted peer is not counted");
        counts.release("192.0.2.1".parse().unwrap());
        assert_eq!(claims(&counts, &v4[..2]), [true, false]);
    }

    #[test]
    fn the_table_holds_only_who_is_connected() {
        let counts = AddressCounts::new(1, Vec::new());
        let addresses: Vec<IpAddr> = (0..1_000).map(|number| IpAddr::V4(number.into())).collect();
        assert!(addresses.iter().all(|address| counts.claim(*address)));
        let held = || counts.shards.iter().map(|shard| shard.lock().len()).sum::<usize>();
        assert_eq!(held(), 1_000);
        addresses.iter().for_each(|address| counts.release(*address));
        assert_eq!(held(), 0);
    }

    #[test]
    fn off_it_counts_nothing() {
        let counts = AddressCounts::default();
        assert_eq!(claims(&counts, &["192.0.2.1"; 3]), [true; 3]);
        counts.release("192.0.2.1".parse().unwrap());
    }
}
