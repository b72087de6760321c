//! The shared keys at one time, and the decision when a new one is due. It does no I/O but asks for random
//! bytes.

use data_encoding::BASE64;
use jsonx::Bounds;
use model::tickets::{KEY_LIFETIME_S, TicketKey};
use serde::{Deserialize, Serialize};

/// Time from the write of a key to its first ticket, in seconds. Instances see a write within a second; five
/// minutes bridge a short loss of etcd, and clocks that differ.
const LEAD_S: u64 = 300;
/// Limit of the keys in a text: one that makes tickets, one that only reads, one that is about to begin, and
/// one more.
const KEYS_MAX: usize = 4;

/// Keys, the newest first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct TicketKeyRing {
    keys: Vec<TicketKey>,
}

/// A key as it is kept.
#[derive(Serialize, Deserialize)]
struct StoredTicketKey {
    name: String,
    secret: String,
    from_s: u64,
}

impl TicketKeyRing {
    /// Its keys, the newest first.
    pub(super) fn keys(&self) -> &[TicketKey] {
        &self.keys
    }

    /// Reads what [`TicketKeyRing::text`] has written.
    pub(super) fn parse(text: &str) -> Result<TicketKeyRing, String> {
        let kept: Vec<StoredTicketKey> =
            jsonx::read(text.as_bytes(), Bounds::SMALL).map_err(|fault| fault.to_string())?;
        let key = |kept: StoredTicketKey| {
            let bytes = |text: &str| BASE64.decode(text.as_bytes()).ok();
            let name = bytes(&kept.name)?.try_into().ok()?;
            let secret = bytes(&kept.secret)?.try_into().ok()?;
            Some(TicketKey { name, secret, from_s: kept.from_s })
        };
        let keys: Option<Vec<TicketKey>> = kept.into_iter().take(KEYS_MAX).map(key).collect();
        let keys = keys.ok_or("a name or secret has not the right length")?;
        Ok(TicketKeyRing { keys })
    }

    pub(super) fn text(&self) -> String {
        let kept = |key: &TicketKey| StoredTicketKey {
            name: BASE64.encode(&key.name),
            secret: BASE64.encode(&key.secret),
            from_s: key.from_s,
        };
        let kept: Vec<StoredTicketKey> = self.keys.iter().map(kept).collect();
        serde_json::to_string(&kept).unwrap_or_default()
    }

    /// The ring with a new key, if one is due; the first one makes tickets at once.
    pub(super) fn renewed(&self, now_s: u64) -> Option<TicketKeyRing> {
        let from_s = match self.keys.first() {
            None => now_s,
            Some(newest) if newest.from_s + KEY_LIFETIME_S > now_s + LEAD_S => return None,
            Some(newest) => (newest.from_s + KEY_LIFETIME_S).max(now_s + LEAD_S),
        };
        let mut fresh = TicketKey { name: [0; 16], secret: [0; 32], from_s };
        // Without random bytes the instances keep their own keys.
        getrandom::fill(&mut fresh.name).ok()?;
        getrandom::fill(&mut fresh.secret).ok()?;
        let mut keys = vec![fresh];
        let is_used = |key: &&TicketKey| key.from_s + 2 * KEY_LIFETIME_S > now_s;
        keys.extend(self.keys.iter().filter(is_used).take(KEYS_MAX - 1).cloned());
        Some(TicketKeyRing { keys })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn new_key_is_written_before_it_is_used() {
        let first = TicketKeyRing::default().renewed(1_000_000).unwrap();
        assert_eq!(first.keys[0].from_s, 1_000_000);
        let due_s = 1_000_000 + KEY_LIFETIME_S - LEAD_S;
        assert_eq!(first.renewed(due_s - 1), None);
        let second = first.renewed(due_s).unwrap();
        assert_eq!((second.keys[0].from_s, &second.keys[1]), (due_s + LEAD_S, &first.keys[0]));
        assert_ne!(second.keys[0].secret, first.keys[0].secret);
        assert_eq!(second.renewed(due_s + LEAD_S), None);
        // After a long time without any instance, no old key is left.
        let late = second.renewed(due_s + 10 * KEY_LIFETIME_S).unwrap();
        assert_eq!((late.keys.len(), late.keys[0].from_s), (1, due_s + 10 * KEY_LIFETIME_S + LEAD_S));
    }

    #[test]
    fn text_is_read_as_written_or_refused() {
        let ring = TicketKeyRing::default().renewed(7).unwrap();
        assert_eq!(TicketKeyRing::parse(&ring.text()), Ok(ring));
        for text in ["", "{}", r#"[{"name":"AA==","secret":"AA==","from_s":1}]"#] {
            assert!(TicketKeyRing::parse(text).is_err(), "{text}");
        }
    }
}
