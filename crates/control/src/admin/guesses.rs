//! Wrong Admin keys by address of the client: after [`WRONG_KEYS_MAX`] of them every further key from that
//! address waits for the end of a pause, so that a short key cannot be guessed at the rate of the network. It
//! compares no key.

use std::collections::VecDeque;
use std::hash::{BuildHasher, RandomState};
use std::net::{IpAddr, Ipv6Addr};

use stdx::hash::FastMap;

/// Different wrong keys from one address until the first pause. Mistyped keys do not get there.
pub(super) const WRONG_KEYS_MAX: usize = 20;
/// The first pause. Every further wrong key doubles the pause.
const FIRST_PAUSE_MS: u64 = 1_000;
/// The longest pause. Short, because operators behind one proxy share its address and are refused meanwhile.
const PAUSE_MAX_MS: u64 = 30_000;
/// An address without a wrong key for this long after its pause is forgotten. Ten minutes, so that a client
/// that waits for it gets no more keys compared (20 in 600 s) than one that waits for the end of each pause
/// (one in 30 s).
const FORGET_MS: u64 = 600_000;
/// Addresses with a count of their own; further ones share one count. Few addresses use an Admin API, and an
/// entry takes about 300 bytes.
const ADDRESSES_MAX: usize = 1_024;

/// The counts of wrong keys. Times are milliseconds of the wall clock.
#[derive(Debug, Default)]
pub(super) struct WrongKeys {
    addresses: FastMap<Client, Count>,
    /// The count of addresses for which the table had no capacity.
    others: Option<Count>,
    hasher: RandomState,
}

/// The clients that share a count.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Client {
    /// The IPv4 address, or the /64 network of an IPv6 address, because one machine has all addresses of such
    /// a network.
    network: IpAddr,
    /// Whether the browser says that a page of another origin sent the request. Such requests have a count of
    /// their own, because otherwise any page could pause the user of the browser.
    is_foreign: bool,
}

#[derive(Debug, Default)]
struct Count {
    /// Hashes of the last different wrong keys. The same key again is no guess: a program with an old key
    /// would otherwise keep all users of its address out.
    keys: VecDeque<u64>,
    /// The length of the pause that the next wrong key causes; 0 before the first one.
    next_pause_ms: u64,
    /// The end of the pause.
    until_ms: u64,
    last_ms: u64,
}

impl Client {
    /// The client at `address`; `is_foreign` says that a page of another origin sent the request.
    pub(super) fn new(address: IpAddr, is_foreign: bool) -> Client {
        let network = match address.to_canonical() {
            IpAddr::V6(v6) => IpAddr::V6(Ipv6Addr::from_bits(v6.to_bits() & NETWORK_64)),
            v4 => v4,
        };
        Client { network, is_foreign }
    }
}

impl WrongKeys {
    /// Milliseconds until keys of `client` are compared again; none outside a pause.
    pub(super) fn pause_ms(&self, client: &Client, now_ms: u64) -> Option<u64> {
        let own = self.addresses.get(client);
        let shared = self.others.as_ref().filter(|_| self.addresses.len() >= ADDRESSES_MAX);
        let left_ms = own.or(shared)?.until_ms.checked_sub(now_ms).filter(|left_ms| *left_ms > 0)?;
        // A wall clock that was set back does not make the pause longer.
        (left_ms <= PAUSE_MAX_MS).then_some(left_ms)
    }

    /// Counts a wrong key of `client`.
    pub(super) fn note(&mut self, client: Client, key: &str, now_ms: u64) {
        let hash = self.hasher.hash_one(key);
        if !self.addresses.contains_key(&client) && self.addresses.len() >= ADDRESSES_MAX {
            self.addresses.retain(|_, count| !count.is_over(now_ms));
        }
        let has_capacity = self.addresses.contains_key(&client) || self.addresses.len() < ADDRESSES_MAX;
        let count = match has_capacity {
            true => self.addresses.entry(client).or_default(),
            false => self.others.get_or_insert_with(Count::default),
        };
        count.note(hash, now_ms);
    }
}

impl Count {
    fn note(&mut self, hash: u64, now_ms: u64) {
        if self.is_over(now_ms) {
            *self = Count::default();
        }
        self.last_ms = now_ms;
        if self.keys.contains(&hash) {
            return;
        }
        self.keys.push_back(hash);
        if self.keys.len() < WRONG_KEYS_MAX {
            return;
        }
        if self.keys.len() > WRONG_KEYS_MAX {
            self.keys.pop_front();
        }
        let pause_ms = self.next_pause_ms.max(FIRST_PAUSE_MS);
        self.until_ms = now_ms.saturating_add(pause_ms);
        self.next_pause_ms = (pause_ms * 2).min(PAUSE_MAX_MS);
    }

    /// Whether the count has had no wrong key for so long that it starts anew. A clock that was set back ends
    /// it, too.
    fn is_over(&self, now_ms: u64) -> bool {
        let last_ms = self.until_ms.max(self.last_ms);
        last_ms > now_ms.saturating_add(PAUSE_MAX_MS) || now_ms > last_ms.saturating_add(FORGET_MS)
    }
}

/// The network part of an IPv6 address.
const NETWORK_64: u128 = !0 << 64;

#[cfg(test)]
mod tests {
    use super::*;

    fn client(address: &str) -> Client {
        Client::new(address.parse().unwrap(), false)
    }

    /// Notes `count` different keys at `now_ms`.
    fn guess(wrong: &mut WrongKeys, address: &str, count: usize, now_ms: u64) {
        for number in 0..count {
            wrong.note(client(address), &format!("{now_ms} {number}"), now_ms);
        }
    }

    #[test]
    fn pause_grows_to_its_limit() {
        let (mut wrong, mut now_ms) = (WrongKeys::default(), 5_000);
        guess(&mut wrong, "10.0.0.1", WRONG_KEYS_MAX - 1, now_ms);
        assert_eq!(wrong.pause_ms(&client("10.0.0.1"), now_ms), None);
        for expected in [1_000, 2_000, 4_000, 8_000, 16_000, 30_000, 30_000] {
            wrong.note(client("10.0.0.1"), &format!("next {now_ms}"), now_ms);
            assert_eq!(wrong.pause_ms(&client("10.0.0.1"), now_ms), Some(expected));
            assert_eq!(wrong.pause_ms(&client("10.0.0.2"), now_ms), None);
            now_ms += expected;
            assert_eq!(wrong.pause_ms(&client("10.0.0.1"), now_ms - 1), Some(1));
            assert_eq!(wrong.pause_ms(&client("10.0.0.1"), now_ms), None);
        }
        now_ms += FORGET_MS + 1;
        guess(&mut wrong, "10.0.0.1", WRONG_KEYS_MAX - 1, now_ms);
        assert_eq!(wrong.pause_ms(&client("10.0.0.1"), now_ms), None, "the count starts anew");
    }

    #[test]
    fn same_key_again_is_no_guess() {
        let mut wrong = WrongKeys::default();
        for _ in 0..1_000 {
            wrong.note(client("10.0.0.1"), "old key", 1);
            wrong.note(client("10.0.0.1"), "another old key", 1);
        }
        assert_eq!(wrong.pause_ms(&client("10.0.0.1"), 1), None);
    }

    #[test]
    fn addresses_of_one_client_share_a_count() {
        let check = |noted: &str, asked: &str, expected: bool| {
            let mut wrong = WrongKeys::default();
            guess(&mut wrong, noted, WRONG_KEYS_MAX, 1);
            assert_eq!(wrong.pause_ms(&client(asked), 1).is_some(), expected, "{noted} {asked}");
        };
        check("10.0.0.1", "::ffff:10.0.0.1", true);
        check("2001:db8:0:1::1", "2001:db8:0:1:ffff::2", true);
        check("2001:db8:0:1::1", "2001:db8:0:2::1", false);
        let mut wrong = WrongKeys::default();
        let foreign = Client::new([10, 0, 0, 1].into(), true);
        (0..WRONG_KEYS_MAX).for_each(|number| wrong.note(foreign, &number.to_string(), 1));
        assert!(wrong.pause_ms(&foreign, 1).is_some());
        assert_eq!(wrong.pause_ms(&client("10.0.0.1"), 1), None, "another page cannot pause its reader");
    }

    #[test]
    fn table_of_addresses_is_bounded() {
        let mut wrong = WrongKeys::default();
        let address = |number: usize| format!("10.{}.{}.1", number / 256, number % 256);
        for number in 0..ADDRESSES_MAX + WRONG_KEYS_MAX {
            guess(&mut wrong, &address(number), 1, number as u64);
        }
        assert_eq!(wrong.addresses.len(), ADDRESSES_MAX);
        let now_ms = (ADDRESSES_MAX + WRONG_KEYS_MAX) as u64;
        assert!(wrong.pause_ms(&client("192.0.2.1"), now_ms).is_some(), "further addresses share a count");
        assert_eq!(wrong.pause_ms(&client(&address(0)), now_ms), None);
        guess(&mut wrong, "192.0.2.1", 1, now_ms + FORGET_MS);
        assert_eq!(wrong.addresses.len(), 1, "old counts make room");
    }

    #[test]
    fn clock_that_is_set_back_ends_a_pause() {
        let mut wrong = WrongKeys::default();
        guess(&mut wrong, "10.0.0.1", WRONG_KEYS_MAX, 10_000_000);
        assert_eq!(wrong.pause_ms(&client("10.0.0.1"), 1_000), None);
        guess(&mut wrong, "10.0.0.1", WRONG_KEYS_MAX, 1_000);
        assert_eq!(wrong.pause_ms(&client("10.0.0.1"), 1_000), Some(FIRST_PAUSE_MS));
    }
}
