//! Where sessions are kept: in the cookie itself, or in Redis under an identifier that the cookie holds. In
//! Redis a session is encrypted as in a cookie, and its key is a hash of the identifier, so that a reader of
//! Redis has no valid cookie.

use std::rc::Rc;
use std::sync::Arc;

use aws_lc_rs::digest::{SHA256, digest};
use aws_lc_rs::rand;
use data_encoding::{BASE64URL_NOPAD, HEXLOWER};
use exchange::Exchange;
use exchange::local::WorkerLocal;
use exchange::plugin::Build;

use super::cookie::Jar;
use super::session::OpenidSession;
use super::settings::SessionSettings;
use super::settings::objects::{SessionRedisSettings, Storage};
use crate::shared::redis::RedisClient;
use crate::shared::redis::error::RedisError;
use crate::shared::redis::resp::RedisValue;
use crate::shared::redis::settings::{RedisSettings as Server, RedisTopology, format_host_port};

/// Seconds that Redis keeps a session without any lifetime.
const KEPT_SECONDS_MAX: u64 = 30 * 24 * 60 * 60;
/// The most connections to Redis of each worker.
const POOL: u32 = 100;

/// See the module.
pub(super) struct Sessions {
    pub(super) jar: Jar,
    store: Option<RedisSessionStore>,
}

struct RedisSessionStore {
    redis: Arc<RedisClient>,
    prefix: Box<str>,
}

/// The identifier of a session in Redis: random, and known to its browser only.
pub(super) type SessionId = [u8; 32];

impl Sessions {
    /// # Errors
    /// Redis cannot be reached with these settings, a sentence.
    pub(super) fn new(build: &Build<'_>, settings: &SessionSettings, jar: Jar) -> Result<Sessions, String> {
        let redis = settings.redis.as_ref().filter(|_| settings.storage == Storage::Redis);
        let store = redis.map(|redis| {
            let prefix = redis.prefix.as_str().into();
            Ok::<_, String>(RedisSessionStore { redis: RedisClient::new(build, &server(redis))?, prefix })
        });
        Ok(Sessions { jar, store: store.transpose()? })
    }

    /// The session that a request brings, if it still holds at `now_s`.
    ///
    /// # Errors
    /// Redis does not answer, a sentence for the log.
    pub(super) async fn open(
        &self,
        exchange: &Exchange,
        now_s: u64,
    ) -> Result<Option<OpenidSession>, String> {
        let headers = &exchange.request.headers;
        let Some(store) = &self.store else { return Ok(self.jar.open(headers, now_s)) };
        let Some(id) = self.id_of(exchange) else { return Ok(None) };
        let key = store.key(&id);
        let kept = match store.command(exchange.local(), &key, &[b"GET", &key]).await? {
            RedisValue::Nil => return Ok(None),
            RedisValue::Bytes(text) => self.jar.decrypt(&text),
            _ => return Err(RedisError::UNEXPECTED.to_string()),
        };
        let held = kept.filter(|session| self.jar.lifetimes.admit(session, now_s));
        Ok(held.map(|session| OpenidSession { id: Some(id), ..session }))
    }

    /// Keeps a session; the values of `Set-Cookie` for its browser. None: the session has ended since it was
    /// opened, by a logout that ran at the same time, and is not kept.
    ///
    /// # Errors
    /// Redis does not answer, or the session is too long for cookies, a sentence for the log.
    pub(super) async fn write(
        &self,
        exchange: &Exchange,
        session: &OpenidSession,
    ) -> Result<Option<Vec<String>>, String> {
        let Some(store) = &self.store else { return self.jar.write(exchange, session).map(Some) };
        let id = match session.id {
            Some(id) => id,
            None => {
                let mut id: SessionId = [0; 32];
                rand::fill(&mut id).map_err(|_| "the library has no random numbers")?;
                id
            }
        };
        let text = self.jar.encrypt(session).ok_or("the session cannot be encrypted")?;
        let kept_s = self.jar.lifetimes.kept_seconds(session).unwrap_or(KEPT_SECONDS_MAX).to_string();
        let key = store.key(&id);
        // With XX an ended session is not made again.
        let command: [&[u8]; 6] = [b"SET", &key, text.as_bytes(), b"EX", kept_s.as_bytes(), b"XX"];
        let words = if session.id.is_some() { &command[..] } else { &command[..5] };
        match store.command(exchange.local(), &key, words).await? {
            RedisValue::Bytes(_) => self.jar.lines(exchange, &BASE64URL_NOPAD.encode(&id)).map(Some),
            RedisValue::Nil => Ok(None),
            _ => Err(RedisError::UNEXPECTED.to_string()),
        }
    }

    /// Ends the session of a request; the values of `Set-Cookie` for its browser.
    ///
    /// # Errors
    /// Redis does not answer: the session may still be there. A sentence for the log.
    pub(super) async fn remove(&self, exchange: &Exchange) -> Result<Vec<String>, String> {
        if let Some(id) = self.id_of(exchange) {
            self.forget(exchange.local(), id).await?;
        }
        Ok(self.jar.remove(exchange))
    }

    /// Removes a session from Redis.
    ///
    /// # Errors
    /// As [`Sessions::remove`].
    pub(super) async fn forget(&self, local: &Rc<WorkerLocal>, id: SessionId) -> Result<(), String> {
        let Some(store) = &self.store else { return Ok(()) };
        let key = store.key(&id);
        store.command(local, &key, &[b"DEL", &key]).await.map(drop)
    }

    /// The identifier in the cookie of a request.
    fn id_of(&self, exchange: &Exchange) -> Option<SessionId> {
        self.store.as_ref()?;
        let text = self.jar.collect(&exchange.request.headers)?;
        BASE64URL_NOPAD.decode(&text).ok()?.try_into().ok()
    }
}

impl RedisSessionStore {
    fn key(&self, id: &SessionId) -> Vec<u8> {
        format!("{}:{}", self.prefix, HEXLOWER.encode(digest(&SHA256, id).as_ref())).into_bytes()
    }

    async fn command(
        &self,
        local: &Rc<WorkerLocal>,
        key: &[u8],
        words: &[&[u8]],
    ) -> Result<RedisValue, String> {
        let answer = self.redis.command(local, key, words).await;
        answer.map_err(|error| format!("the session storage failed: {error}"))
    }
}

fn server(settings: &SessionRedisSettings) -> Server {
    Server {
        topology: RedisTopology::Single(format_host_port(&settings.host, settings.port)),
        username: settings.username.as_deref().map(Into::into),
        password: settings.password.as_deref().map(Into::into),
        database: u64::from(settings.database),
        tls_verifies: settings.ssl.then_some(settings.ssl_verify),
        connect_timeout_ms: settings.connect_timeout.min(TIMEOUT_MS_MAX),
        reply_timeout_ms: settings.send_timeout.max(settings.read_timeout).min(TIMEOUT_MS_MAX),
        idle_timeout_ms: settings.keepalive_timeout,
        pool: POOL,
    }
}

/// The longest wait for Redis, far below the time that a plugin may wait in a phase.
const TIMEOUT_MS_MAX: u64 = 10_000;
