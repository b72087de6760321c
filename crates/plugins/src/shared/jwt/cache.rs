//! The tokens that a worker has verified, so that a client that sends its token with every request costs one
//! signature for all of them. An entry says which key verified the token: a token of a key that was replaced
//! is verified anew. Claims are not part of the verdict; plugins check them at every request, because time
//! passes and plugins differ.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

use aws_lc_rs::digest::{SHA256, digest};
use exchange::local::WorkerLocal;

use super::key::VerifyingKey;
use super::token::{JsonWebToken, TOKEN_BYTES_MAX, TokenFault};

/// The most tokens in one of the two generations of a worker's table.
const GENERATION_TOKENS_MAX: usize = 4_096;
/// The most bytes of tokens, as they were sent, in one generation. Read, a token takes about three times as
/// much memory.
const GENERATION_BYTES_MAX: usize = 4 * 1024 * 1024;

/// See the module. Entries are dropped by generations: when the young one is full it becomes the old one, and
/// tokens that were not asked for in the meantime are freed with the old one before it.
#[derive(Default)]
pub(crate) struct VerifiedTokens {
    generations: RefCell<Generations>,
}

#[derive(Default)]
struct Generations {
    young: TokenCacheGeneration,
    old: TokenCacheGeneration,
}

#[derive(Default)]
struct TokenCacheGeneration {
    tokens: HashMap<[u8; 32], (Rc<JsonWebToken>, usize)>,
    bytes: usize,
}

impl VerifiedTokens {
    /// The table of this thread.
    pub(crate) fn of(local: &WorkerLocal) -> Rc<VerifiedTokens> {
        local.resource(VerifiedTokens::default)
    }

    /// Reads a token, or finds it among those that were verified.
    ///
    /// # Errors
    /// It is malformed or beyond a limit.
    pub(crate) fn read(&self, raw: &[u8]) -> Result<Rc<JsonWebToken>, TokenFault> {
        if raw.len() > TOKEN_BYTES_MAX {
            return Err(TokenFault::TooLong);
        }
        let mut hash = [0; 32];
        hash.copy_from_slice(digest(&SHA256, raw).as_ref());
        if let Some(found) = self.generations.borrow_mut().find(&hash) {
            return Ok(found);
        }
        JsonWebToken::parse(raw, hash).map(Rc::new)
    }

    /// Verifies that `key` signed `token`, which was read from `raw`.
    ///
    /// # Errors
    /// The key is not for the token's algorithm, or the signature is wrong.
    pub(crate) fn verify(
        &self,
        token: &Rc<JsonWebToken>,
        raw: &[u8],
        key: &VerifyingKey,
    ) -> Result<(), TokenFault> {
        if token.verified_by.get() == key.number() {
            return Ok(());
        }
        let signed = raw.get(..token.signed_bytes).ok_or(TokenFault::Segments)?;
        key.verify(token.algorithm, signed, &token.signature)?;
        token.verified_by.set(key.number());
        self.generations.borrow_mut().insert(token.clone(), raw.len());
        Ok(())
    }

    /// How many tokens the table holds.
    #[cfg(test)]
    fn len(&self) -> usize {
        let generations = self.generations.borrow();
        generations.young.tokens.len() + generations.old.tokens.len()
    }
}

impl Generations {
    fn find(&mut self, digest: &[u8; 32]) -> Option<Rc<JsonWebToken>> {
        if let Some((token, _)) = self.young.tokens.get(digest) {
            return Some(token.clone());
        }
        let (token, bytes) = self.old.remove(digest)?;
        self.insert(token.clone(), bytes);
        Some(token)
    }

    fn insert(&mut self, token: Rc<JsonWebToken>, bytes: usize) {
        let young = &self.young;
        if young.tokens.len() >= GENERATION_TOKENS_MAX || young.bytes + bytes > GENERATION_BYTES_MAX {
            self.old = std::mem::take(&mut self.young);
        }
        if self.young.tokens.insert(token.digest, (token, bytes)).is_none() {
            self.young.bytes += bytes;
        }
    }
}

impl TokenCacheGeneration {
    fn remove(&mut self, digest: &[u8; 32]) -> Option<(Rc<JsonWebToken>, usize)> {
        let (token, bytes) = self.tokens.remove(digest)?;
        self.bytes -= bytes;
        Some((token, bytes))
    }
}

#[cfg(test)]
mod tests;
