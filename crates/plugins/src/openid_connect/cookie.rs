//! The session cookie: the session as JSON, encrypted with AES-256-GCM under a key derived from
//! `session.secret`, and split into several cookies where it is long. A cookie that was changed, comes from
//! another client of the provider, or has expired counts as none.

use aws_lc_rs::aead::{AES_256_GCM, Aad, NONCE_LEN, Nonce, RandomizedNonceKey};
use aws_lc_rs::hkdf::{HKDF_SHA256, KeyType, Prk, Salt};
use aws_lc_rs::rand;
use data_encoding::BASE64URL_NOPAD;
use exchange::Exchange;
use jsonx::Bounds;
use message::Headers;

use super::authorization::scheme;
use super::session::{Lifetimes, OpenidSession};
use super::settings::{SessionSettings, objects::SameSite};

/// The most cookies of one session, as lua-resty-session has it.
const COOKIES_MAX: usize = 9;
/// The most characters of a session in one cookie. Browsers keep 4096 bytes of a cookie, name and attributes
/// included.
const CHUNK_BYTES: usize = 3_800;
/// Bytes of the salt from which the key of one cookie is derived.
const SALT_BYTES: usize = 16;
/// The purpose of the derived keys; another form of the cookie has another label.
const LABEL: &[u8] = b"openid-connect session 1";

/// See the module.
pub(super) struct Jar {
    name: Box<str>,
    attributes: Box<str>,
    /// None: where the request came over TLS, to this gateway or to a trusted proxy in front.
    secure: Option<bool>,
    secret: Prk,
    /// Authenticated with each cookie: the client of the provider.
    client: Box<[u8]>,
    pub(super) lifetimes: Lifetimes,
}

/// The length of an AES-256 key.
struct KeyLength;

impl KeyType for KeyLength {
    fn len(&self) -> usize {
        AES_256_GCM.key_len()
    }
}

impl Jar {
    /// The cookies of the client `client_id` at the provider `discovery`.
    pub(super) fn new(settings: &SessionSettings, client_id: &str, discovery: &str) -> Jar {
        let name = settings.cookie_name.as_deref().unwrap_or("session");
        let mut attributes = format!("; Path={}", settings.cookie_path.as_deref().unwrap_or("/"));
        if let Some(domain) = &settings.cookie_domain {
            attributes.push_str(&format!("; Domain={domain}"));
        }
        match settings.cookie_same_site.unwrap_or(SameSite::Lax) {
            SameSite::Default => {}
            same_site => attributes.push_str(&format!("; SameSite={}", same_site.word())),
        }
        if settings.cookie_http_only.unwrap_or(true) {
            attributes.push_str("; HttpOnly");
        }
        Jar {
            name: name.into(),
            attributes: attributes.into(),
            secure: settings.cookie_secure,
            secret: Salt::new(HKDF_SHA256, LABEL).extract(settings.secret.as_bytes()),
            client: format!("{name}\0{client_id}\0{discovery}").into_bytes().into(),
            lifetimes: Lifetimes::of(settings),
        }
    }

    /// The session that a request brings, if it still holds at `now_s`.
    pub(super) fn open(&self, headers: &Headers, now_s: u64) -> Option<OpenidSession> {
        let session = self.decrypt(&self.collect(headers)?)?;
        self.lifetimes.admit(&session, now_s).then_some(session)
    }

    /// The values of `Set-Cookie` that replace the session of the request's browser.
    ///
    /// # Errors
    /// The session does not fit into the cookies that a browser keeps, a sentence for the log.
    pub(super) fn write(&self, exchange: &Exchange, session: &OpenidSession) -> Result<Vec<String>, String> {
        self.lines(exchange, &self.encrypt(session).ok_or("the session cannot be encrypted")?)
    }

    /// The values of `Set-Cookie` that bring this text to the request's browser.
    ///
    /// # Errors
    /// As [`Jar::write`].
    pub(super) fn lines(&self, exchange: &Exchange, text: &str) -> Result<Vec<String>, String> {
        let count = text.len().div_ceil(CHUNK_BYTES);
        if count > COOKIES_MAX {
            return Err(format!(
                "the session takes {} bytes, and {} fit into cookies; session_contents leaves parts of it out",
                text.len(),
                COOKIES_MAX * CHUNK_BYTES
            ));
        }
        let mut lines: Vec<String> = Vec::new();
        for (index, chunk) in text.as_bytes().chunks(CHUNK_BYTES).enumerate() {
            // Base64 is ASCII, so that every chunk is text.
            let chunk = String::from_utf8_lossy(chunk);
            let value = if index == 0 { format!("{count}.{chunk}") } else { chunk.into_owned() };
            lines.push(self.line(exchange, index, &value, ""));
        }
        lines.extend(self.removals(exchange, count));
        Ok(lines)
    }

    /// The values of `Set-Cookie` that remove the session from the request's browser.
    pub(super) fn remove(&self, exchange: &Exchange) -> Vec<String> {
        self.removals(exchange, 0).collect()
    }

    /// Lines that remove the cookies of the request from number `from` on.
    fn removals<'a>(&'a self, exchange: &'a Exchange, from: usize) -> impl Iterator<Item = String> + 'a {
        let is_there = |index: &usize| self.chunk(&exchange.request.headers, *index).is_some();
        let expired = "; Max-Age=0; Expires=Thu, 01 Jan 1970 00:00:01 GMT";
        (from..COOKIES_MAX).filter(is_there).map(move |index| self.line(exchange, index, "", expired))
    }

    fn line(&self, exchange: &Exchange, index: usize, value: &str, more: &str) -> String {
        let over_tls = scheme(exchange).eq_ignore_ascii_case("https");
        let secure = if self.secure.unwrap_or(over_tls) { "; Secure" } else { "" };
        format!("{}={value}{}{secure}{more}", self.cookie_name(index), self.attributes)
    }

    fn cookie_name(&self, index: usize) -> String {
        if index == 0 { self.name.to_string() } else { format!("{}{}", self.name, index + 1) }
    }

    /// The cookies of a session, joined.
    pub(super) fn collect(&self, headers: &Headers) -> Option<Vec<u8>> {
        let first = self.chunk(headers, 0)?;
        let dot = first.iter().position(|byte| *byte == b'.')?;
        let count: usize = str::from_utf8(&first[..dot]).ok()?.parse().ok()?;
        if count == 0 || count > COOKIES_MAX {
            return None;
        }
        let mut text = first[dot + 1..].to_vec();
        for index in 1..count {
            text.extend_from_slice(self.chunk(headers, index)?);
        }
        Some(text)
    }

    fn chunk<'h>(&self, headers: &'h Headers, index: usize) -> Option<&'h [u8]> {
        let name = self.cookie_name(index);
        headers.get_all("cookie").flat_map(|list| list.split(|byte| *byte == b';')).find_map(|cookie| {
            let value = cookie.trim_ascii().strip_prefix(name.as_bytes())?;
            value.strip_prefix(b"=")
        })
    }

    fn key(&self, salt: &[u8]) -> Option<RandomizedNonceKey> {
        let mut key = [0; 32];
        self.secret.expand(&[LABEL, salt], KeyLength).ok()?.fill(&mut key).ok()?;
        RandomizedNonceKey::new(&AES_256_GCM, &key).ok()
    }

    /// Salt, nonce, ciphertext and tag, in base64url. Each cookie has a key of its own, so that the number of
    /// cookies under one secret is not limited by the random nonces of AES-GCM (NIST SP 800-38D section 8.3).
    pub(super) fn encrypt(&self, session: &OpenidSession) -> Option<String> {
        let mut salt = [0; SALT_BYTES];
        rand::fill(&mut salt).ok()?;
        let mut text = serde_json::to_vec(session).ok()?;
        let nonce = self.key(&salt)?.seal_in_place_append_tag(Aad::from(&*self.client), &mut text).ok()?;
        let mut all = salt.to_vec();
        all.extend_from_slice(nonce.as_ref());
        all.extend_from_slice(&text);
        Some(BASE64URL_NOPAD.encode(&all))
    }

    /// The session in such a text; none if it was changed or is of another client.
    pub(super) fn decrypt(&self, text: &[u8]) -> Option<OpenidSession> {
        let mut all = BASE64URL_NOPAD.decode(text).ok()?;
        let (salt, rest) = all.split_at_mut_checked(SALT_BYTES)?;
        let (nonce, text) = rest.split_at_mut_checked(NONCE_LEN)?;
        let nonce = Nonce::try_assume_unique_for_key(nonce).ok()?;
        let plain = self.key(salt)?.open_in_place(nonce, Aad::from(&*self.client), text).ok()?;
        jsonx::read(plain, Bounds::SMALL).ok()
    }
}

#[cfg(test)]
mod tests;
