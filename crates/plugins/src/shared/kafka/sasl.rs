//! Logins: PLAIN (RFC 4616) and SCRAM with SHA-256 and SHA-512 (RFC 5802, RFC 7677). It computes messages and
//! sends none.
//!
//! Names and passwords are taken as they are written, without the preparation of RFC 4013, as Kafka's own
//! clients do for ASCII.

use aws_lc_rs::{constant_time, digest, hmac, pbkdf2};
use data_encoding::{BASE64, HEXLOWER};
use std::num::NonZeroU32;

use super::settings::{Mechanism, SaslConfig};

/// Rounds of hashing below which a server is refused, because a copy of the exchange would give the password
/// away too fast.
const ITERATIONS_MIN: u32 = 4_096;
/// Rounds beyond which a server is refused, because the hash would take longer than a login is worth. Kafka
/// allows 16,384.
const ITERATIONS_MAX: u32 = 100_000;
/// Random bytes of a nonce.
const NONCE_BYTES: usize = 24;

/// The hash of a SCRAM login.
#[derive(Clone, Copy)]
struct Hash {
    hmac: hmac::Algorithm,
    digest: &'static digest::Algorithm,
    pbkdf2: pbkdf2::Algorithm,
}

/// A SCRAM login between its first and its second message.
pub(super) struct ScramLogin {
    config: SaslConfig,
    hash: Hash,
    nonce: String,
}

/// The second message of a login, and the answer that proves that the server knows the password too.
pub(super) struct ScramProof {
    pub(super) message: Vec<u8>,
    signature: Vec<u8>,
}

/// The only message of a login by PLAIN.
pub(super) fn encode_sasl_plain(config: &SaslConfig) -> Vec<u8> {
    format!("\0{}\0{}", config.user, config.password).into_bytes()
}

impl ScramLogin {
    /// A login; none where the mechanism is another.
    pub(super) fn begin(config: &SaslConfig) -> Option<ScramLogin> {
        let mut random = [0; NONCE_BYTES];
        aws_lc_rs::rand::fill(&mut random).expect("the system gives random bytes");
        ScramLogin::with_nonce(config, HEXLOWER.encode(&random))
    }

    fn with_nonce(config: &SaslConfig, nonce: String) -> Option<ScramLogin> {
        let hash = match config.mechanism {
            Mechanism::Plain => return None,
            Mechanism::ScramSha256 => {
                Hash { hmac: hmac::HMAC_SHA256, digest: &digest::SHA256, pbkdf2: pbkdf2::PBKDF2_HMAC_SHA256 }
            }
            Mechanism::ScramSha512 => {
                Hash { hmac: hmac::HMAC_SHA512, digest: &digest::SHA512, pbkdf2: pbkdf2::PBKDF2_HMAC_SHA512 }
            }
        };
        Some(ScramLogin { config: config.clone(), hash, nonce })
    }

    /// The first message.
    pub(super) fn first(&self) -> Vec<u8> {
        format!("n,,{}", self.first_bare()).into_bytes()
    }

    fn first_bare(&self) -> String {
        let user = self.config.user.replace('=', "=3D").replace(',', "=2C");
        format!("n={user},r={}", self.nonce)
    }

    /// The second message, from the server's first. It takes milliseconds, so that it does not belong on a
    /// thread that serves.
    ///
    /// # Errors
    /// The misfit of the server's message.
    pub(super) fn prove(&self, server_first: &[u8]) -> Result<ScramProof, String> {
        let server_first = std::str::from_utf8(server_first).map_err(|_| MALFORMED.to_owned())?;
        let field = |name: char| {
            server_first
                .split(',')
                .find_map(|field| field.strip_prefix(name)?.strip_prefix('='))
                .ok_or(MALFORMED)
        };
        let (nonce, salt, iterations) = (field('r')?, field('s')?, field('i')?);
        if !nonce.starts_with(&self.nonce) || nonce.len() == self.nonce.len() {
            return Err("the server does not repeat the nonce of the login".to_owned());
        }
        let salt = BASE64.decode(salt.as_bytes()).map_err(|_| MALFORMED.to_owned())?;
        let iterations: u32 = iterations.parse().map_err(|_| MALFORMED.to_owned())?;
        if !(ITERATIONS_MIN..=ITERATIONS_MAX).contains(&iterations) {
            return Err(format!(
                "the server asks for {iterations} rounds of hashing; {ITERATIONS_MIN} to {ITERATIONS_MAX} are accepted"
            ));
        }
        let without_proof = format!("c=biws,r={nonce}");
        let signed = format!("{},{server_first},{without_proof}", self.first_bare());
        let salted = self.salted(&salt, iterations);
        let client_key = self.sign(&salted, b"Client Key");
        let stored_key = digest::digest(self.hash.digest, client_key.as_ref());
        let client_signature = self.sign(stored_key.as_ref(), signed.as_bytes());
        let proof: Vec<u8> = client_key
            .as_ref()
            .iter()
            .zip(client_signature.as_ref())
            .map(|(key, signature)| key ^ signature)
            .collect();
        let server_key = self.sign(&salted, b"Server Key");
        Ok(ScramProof {
            message: format!("{without_proof},p={}", BASE64.encode(&proof)).into_bytes(),
            signature: self.sign(server_key.as_ref(), signed.as_bytes()).as_ref().to_vec(),
        })
    }

    fn salted(&self, salt: &[u8], iterations: u32) -> Vec<u8> {
        let mut salted = vec![0; self.hash.digest.output_len()];
        let iterations = NonZeroU32::new(iterations).expect("a checked number");
        pbkdf2::derive(self.hash.pbkdf2, iterations, salt, self.config.password.as_bytes(), &mut salted);
        salted
    }

    fn sign(&self, key: &[u8], message: &[u8]) -> hmac::Tag {
        hmac::sign(&hmac::Key::new(self.hash.hmac, key), message)
    }
}

impl ScramProof {
    /// Checks the server's last message.
    ///
    /// # Errors
    /// The server does not know the password.
    pub(super) fn confirm(&self, server_final: &[u8]) -> Result<(), String> {
        let claimed = server_final.strip_prefix(b"v=").and_then(|claimed| {
            let end = claimed.iter().position(|byte| *byte == b',').unwrap_or(claimed.len());
            BASE64.decode(&claimed[..end]).ok()
        });
        match claimed {
            Some(claimed) if constant_time::verify_slices_are_equal(&claimed, &self.signature).is_ok() => {
                Ok(())
            }
            _ => Err("the server does not prove that it knows the password".to_owned()),
        }
    }
}

const MALFORMED: &str = "the server's message of the login is malformed";

#[cfg(test)]
mod tests {
    use super::*;

    fn config(mechanism: Mechanism, user: &str, password: &str) -> SaslConfig {
        SaslConfig { mechanism, user: user.into(), password: password.into() }
    }

    /// The example of RFC 7677, section 3.
    #[test]
    fn scram_computes_the_example_of_its_rfc() {
        let config = config(Mechanism::ScramSha256, "user", "pencil");
        let login = ScramLogin::with_nonce(&config, "rOprNGfwEbeRWgbNEkqO".to_owned()).unwrap();
        assert_eq!(login.first(), b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO");
        let server_first =
            b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096";
        let proof = login.prove(server_first).unwrap();
        let expected = "c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,\
                        p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=";
        assert_eq!(String::from_utf8(proof.message.clone()).unwrap(), expected);
        assert_eq!(proof.confirm(b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="), Ok(()));
        for answer in [&b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G5="[..], b"e=invalid-proof", b""] {
            assert!(proof.confirm(answer).is_err());
        }
    }

    #[test]
    fn server_that_lies_is_refused() {
        let config = config(Mechanism::ScramSha512, "a=b,c", "p");
        let login = ScramLogin::with_nonce(&config, "abc".to_owned()).unwrap();
        assert_eq!(login.first(), b"n,,n=a=3Db=2Cc,r=abc");
        let check = |server_first: &str, reason: &str| {
            let refused = login.prove(server_first.as_bytes()).err().unwrap();
            assert!(refused.contains(reason), "{server_first}: {refused}");
        };
        check("r=xyz1,s=YQ==,i=4096", "nonce");
        check("r=abc,s=YQ==,i=4096", "nonce");
        check("r=abc1,s=YQ==,i=1", "rounds");
        check("r=abc1,s=YQ==,i=4000000000", "rounds");
        check("r=abc1,s=!,i=4096", "malformed");
        check("r=abc1,i=4096", "malformed");
        assert!(login.prove(b"r=abc1,s=YQ==,i=4096").is_ok());
    }

    #[test]
    fn plain_login_has_no_second_message() {
        let config = config(Mechanism::Plain, "u", "p");
        assert_eq!(encode_sasl_plain(&config), b"\0u\0p");
        assert!(ScramLogin::begin(&config).is_none());
        let other = ScramLogin::begin(&self::config(Mechanism::ScramSha256, "u", "p")).unwrap();
        assert_ne!(
            other.first(),
            ScramLogin::begin(&other.config).unwrap().first(),
            "nonces are not used twice"
        );
    }
}
