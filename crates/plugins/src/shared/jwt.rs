//! JSON Web Tokens that are signed (RFC 7519 in the compact form of RFC 7515): reading them within limits,
//! keys from secrets, PEM and JWK, signatures, registered claims, and a table of verified tokens for each
//! worker. It issues no token, knows no plugin and calls no server.
//!
//! A plugin reads a token with [`VerifiedTokens::read`], finds the key by what the token says, and calls
//! [`VerifiedTokens::verify`] before it trusts a claim. The algorithms of a key are fixed when the key is
//! made: the header of a token can only name one of them, so that neither `none` nor an HMAC with a public
//! key as its secret passes.

mod algorithm;
mod cache;
mod claims;
mod jwk;
mod key;
mod pem;
mod token;

pub(crate) use algorithm::JwtAlgorithm;
pub(crate) use cache::VerifiedTokens;
pub(crate) use claims::{ClaimRules, TimeClaim};
pub(crate) use key::VerifyingKey;
pub(crate) use token::{JsonWebToken, TokenFault};

#[cfg(test)]
pub(crate) mod testing;
