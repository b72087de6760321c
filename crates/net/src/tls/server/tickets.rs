//! Session tickets (RFC 8446 section 4.6.1): the state of a session, encrypted with keys that all workers
//! share and that change with time. A ticket is bound to the client-certificate policy that it was made
//! under; rustls binds it to the server name.

use std::time::Duration;

use aws_lc_rs::aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use aws_lc_rs::rand;
use parking_lot::RwLock;
use rustls::server::ProducesTickets;
use std::sync::Arc;

/// How long a key makes new tickets. It reads them for as long again, so that no ticket ends before its time.
const KEY_LIFETIME: Duration = Duration::from_secs(12 * 3600);
/// Keys that are kept: those that instances share, the own one and the one before, and those that another
/// process handed over.
const KEYS_MAX: usize = 8;
const NAME_BYTES: usize = 16;
const SECRET_BYTES: usize = 32;

/// A key as it is handed to another process.
#[derive(Clone, PartialEq, Eq)]
pub struct TicketSecret {
    /// Its name, which its tickets begin with.
    pub name: [u8; NAME_BYTES],
    /// Its bytes.
    pub secret: [u8; SECRET_BYTES],
    /// Seconds since the Unix epoch at which it begins to make tickets.
    pub made_s: u64,
}

impl std::fmt::Debug for TicketSecret {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("TicketSecret").field("made_s", &self.made_s).finish_non_exhaustive()
    }
}

/// The keys of a process, the one that makes tickets first.
pub(super) struct TicketKeys {
    keys: RwLock<Vec<(TicketSecret, LessSafeKey)>>,
}

impl TicketKeys {
    /// With a new key.
    pub(super) fn random() -> Result<TicketKeys, String> {
        let first = fresh().ok_or("the system has no random numbers")?;
        Ok(TicketKeys { keys: RwLock::new(vec![first]) })
    }

    /// Its keys, for another process.
    pub(super) fn secrets(&self) -> Vec<TicketSecret> {
        self.keys.read().iter().map(|(secret, _)| secret.clone()).collect()
    }

    /// Puts the keys of another process, or of all instances, in front of its own.
    pub(super) fn adopt(&self, secrets: &[TicketSecret]) {
        let adopted = secrets.iter().filter_map(|secret| Some((secret.clone(), key_of(&secret.secret)?)));
        let mut keys = self.keys.write();
        keys.retain(|(known, _)| secrets.iter().all(|secret| secret.name != known.name));
        keys.splice(0..0, adopted);
        keys.truncate(KEYS_MAX);
    }

    fn encrypt(&self, plain: &[u8], tag: &[u8], now_s: u64) -> Option<Vec<u8>> {
        self.rotate(now_s);
        let keys = self.keys.read();
        let (secret, key) = keys.iter().find(|(secret, _)| makes_tickets(secret, now_s))?;
        let mut nonce = [0; NONCE_LEN];
        rand::fill(&mut nonce).ok()?;
        let mut ticket = Vec::with_capacity(NAME_BYTES + NONCE_LEN + plain.len() + AES_256_GCM.tag_len());
        ticket.extend_from_slice(&secret.name);
        ticket.extend_from_slice(&nonce);
        let mut text = plain.to_vec();
        let nonce = Nonce::assume_unique_for_key(nonce);
        key.seal_in_place_append_tag(nonce, Aad::from(tag), &mut text).ok()?;
        ticket.append(&mut text);
        Some(ticket)
    }

    fn decrypt(&self, ticket: &[u8], tag: &[u8], now_s: u64) -> Option<Vec<u8>> {
        let (name, rest) = ticket.split_at_checked(NAME_BYTES)?;
        let (nonce, text) = rest.split_at_checked(NONCE_LEN)?;
        let keys = self.keys.read();
        let (_, key) = keys.iter().find(|(secret, _)| secret.name == name && !is_over(secret, 2, now_s))?;
        let nonce = Nonce::try_assume_unique_for_key(nonce).ok()?;
        let mut text = text.to_vec();
        let length = key.open_in_place(nonce, Aad::from(tag), &mut text).ok()?.len();
        text.truncate(length);
        Some(text)
    }

    /// Puts a new key in front when no other makes tickets.
    fn rotate(&self, now_s: u64) {
        let is_due = |keys: &[(TicketSecret, LessSafeKey)]| {
            !keys.iter().any(|(secret, _)| makes_tickets(secret, now_s))
        };
        if !is_due(&self.keys.read()) {
            return;
        }
        let mut keys = self.keys.write();
        if is_due(&keys)
            && let Some((mut secret, key)) = fresh()
        {
            secret.made_s = now_s;
            keys.insert(0, (secret, key));
            keys.retain(|(secret, _)| !is_over(secret, 2, now_s));
            keys.truncate(KEYS_MAX);
        }
    }
}

impl std::fmt::Debug for TicketKeys {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("TicketKeys").finish_non_exhaustive()
    }
}

fn makes_tickets(secret: &TicketSecret, now_s: u64) -> bool {
    secret.made_s <= now_s && !is_over(secret, 1, now_s)
}

fn is_over(secret: &TicketSecret, lifetimes: u64, now_s: u64) -> bool {
    now_s.saturating_sub(secret.made_s) >= lifetimes * KEY_LIFETIME.as_secs()
}

fn key_of(secret: &[u8; SECRET_BYTES]) -> Option<LessSafeKey> {
    UnboundKey::new(&AES_256_GCM, secret).ok().map(LessSafeKey::new)
}

fn fresh() -> Option<(TicketSecret, LessSafeKey)> {
    let mut secret = TicketSecret { name: [0; NAME_BYTES], secret: [0; SECRET_BYTES], made_s: now_s() };
    rand::fill(&mut secret.name).ok()?;
    rand::fill(&mut secret.secret).ok()?;
    let key = key_of(&secret.secret)?;
    Some((secret, key))
}

fn now_s() -> u64 {
    stdx::clock::unix_time().as_secs()
}

/// Makes and reads the tickets of one client-certificate policy.
#[derive(Debug)]
pub(super) struct PolicyTicketer {
    keys: Arc<TicketKeys>,
    tag: [u8; 32],
}

impl PolicyTicketer {
    /// `tag` is the policy's: tickets with another one are not read.
    pub(super) fn new(keys: Arc<TicketKeys>, tag: [u8; 32]) -> PolicyTicketer {
        PolicyTicketer { keys, tag }
    }
}

impl ProducesTickets for PolicyTicketer {
    fn enabled(&self) -> bool {
        true
    }

    fn lifetime(&self) -> u32 {
        u32::try_from(KEY_LIFETIME.as_secs()).unwrap_or(u32::MAX)
    }

    fn encrypt(&self, plain: &[u8]) -> Option<Vec<u8>> {
        self.keys.encrypt(plain, &self.tag, now_s())
    }

    fn decrypt(&self, cipher: &[u8]) -> Option<Vec<u8>> {
        self.keys.decrypt(cipher, &self.tag, now_s())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticket_is_read_only_under_its_policy_and_in_time() {
        let keys = TicketKeys::random().unwrap();
        let now = now_s();
        let lifetime = KEY_LIFETIME.as_secs();
        let ticket = keys.encrypt(b"session", b"policy", now).unwrap();
        assert_eq!(keys.decrypt(&ticket, b"policy", now).unwrap(), b"session");
        assert_eq!(keys.decrypt(&ticket, b"another", now), None);
        assert_eq!(keys.decrypt(&ticket, b"policy", now + 2 * lifetime), None);
        // A key that has followed does not end tickets of the one before.
        let later = keys.encrypt(b"session", b"policy", now + lifetime).unwrap();
        assert_ne!(ticket[..NAME_BYTES], later[..NAME_BYTES]);
        assert!(keys.decrypt(&ticket, b"policy", now + lifetime).is_some());
        for cut in 0..ticket.len() {
            assert_eq!(keys.decrypt(&ticket[..cut], b"policy", now), None, "cut at {cut}");
        }
    }

    #[test]
    fn adopted_keys_make_and_read_tickets() {
        let (old, new) = (TicketKeys::random().unwrap(), TicketKeys::random().unwrap());
        let now = now_s();
        let own = new.encrypt(b"own", b"", now).unwrap();
        let ticket = old.encrypt(b"session", b"", now).unwrap();
        assert_eq!(new.decrypt(&ticket, b"", now), None);
        new.adopt(&old.secrets());
        assert!(new.decrypt(&ticket, b"", now).is_some() && new.decrypt(&own, b"", now).is_some());
        let later = new.encrypt(b"later", b"", now).unwrap();
        assert!(old.decrypt(&later, b"", now).is_some(), "both processes read each other's");
    }

    #[test]
    fn key_of_the_future_reads_and_makes_none_yet() {
        let keys = TicketKeys::random().unwrap();
        let now = now_s();
        let (mut secret, _) = fresh().unwrap();
        secret.made_s = now + 300;
        for _ in 0..2 * KEYS_MAX {
            keys.adopt(std::slice::from_ref(&secret));
        }
        assert_eq!(keys.secrets().len(), 2, "a key is adopted once");
        assert_ne!(keys.encrypt(b"session", b"", now).unwrap()[..NAME_BYTES], secret.name);
        let ticket = keys.encrypt(b"session", b"", now + 300).unwrap();
        assert_eq!(ticket[..NAME_BYTES], secret.name);
        assert!(keys.decrypt(&ticket, b"", now).is_some(), "another instance has a clock that is ahead");
        // Without a store the instance goes on with a key of its own.
        let lifetime = KEY_LIFETIME.as_secs();
        let own = keys.encrypt(b"session", b"", now + 301 + lifetime).unwrap();
        assert_ne!(own[..NAME_BYTES], secret.name);
    }
}
