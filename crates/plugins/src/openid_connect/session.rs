//! The contents of a browser's session: the logins under way, and the login that has succeeded. It knows no
//! cookie.

use aws_lc_rs::constant_time::verify_slices_are_equal;
use jsonx::Exact;
use serde::{Deserialize, Serialize};

use super::sessions::SessionId;
use super::settings::SessionSettings;
use super::token_parts::claims_of;

/// The most logins under way in one browser, such as of several tabs; the oldest is forgotten. Each takes a
/// few hundred bytes of the cookie.
const PENDING_MAX: usize = 4;
/// Seconds in which the user has to log in at the provider.
const PENDING_SECONDS: u64 = 3_600;
/// The longest URL that a browser is sent back to after the login, in bytes; of a longer one only the path is
/// kept.
const ORIGINAL_BYTES_MAX: usize = 2_048;

/// See the module. The names are short, because they are in every cookie.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct OpenidSession {
    /// Its identifier, where it is kept in Redis; none before it was kept.
    #[serde(skip)]
    pub(super) id: Option<SessionId>,
    /// Seconds since the epoch when it began, when it was last renewed, and when it was last used.
    #[serde(rename = "c")]
    pub(super) created_s: u64,
    #[serde(rename = "r")]
    pub(super) rolled_s: u64,
    #[serde(rename = "u")]
    pub(super) used_s: u64,
    #[serde(rename = "l", default, skip_serializing_if = "Option::is_none")]
    pub(super) login: Option<SessionLogin>,
    #[serde(rename = "p", default, skip_serializing_if = "Vec::is_empty")]
    pub(super) pending: Vec<PendingLogin>,
    /// The URL of the latest login, for a callback that matches none under way.
    #[serde(rename = "o", default, skip_serializing_if = "Option::is_none")]
    pub(super) original: Option<String>,
    /// How often in a row a failed callback has begun the login anew.
    #[serde(rename = "n", default, skip_serializing_if = "is_zero")]
    pub(super) restarts: u32,
}

/// A login under way.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct PendingLogin {
    #[serde(rename = "s")]
    pub(super) state: String,
    #[serde(rename = "n", default, skip_serializing_if = "Option::is_none")]
    pub(super) nonce: Option<String>,
    /// The secret of PKCE.
    #[serde(rename = "v", default, skip_serializing_if = "Option::is_none")]
    pub(super) verifier: Option<String>,
    /// Path and query that the browser asked for.
    #[serde(rename = "o")]
    pub(super) original: String,
    #[serde(rename = "b")]
    pub(super) begun_s: u64,
}

/// A login that has succeeded, with the parts that the session holds.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct SessionLogin {
    #[serde(rename = "a", default, skip_serializing_if = "Option::is_none")]
    pub(super) access_token: Option<String>,
    /// When the access token counts as expired.
    #[serde(rename = "e", default)]
    pub(super) expires_s: u64,
    #[serde(rename = "f", default, skip_serializing_if = "Option::is_none")]
    pub(super) refresh_token: Option<String>,
    /// The signed ID token.
    #[serde(rename = "t", default, skip_serializing_if = "Option::is_none")]
    pub(super) raw_id_token: Option<String>,
    /// Its claims.
    #[serde(rename = "i", default, skip_serializing_if = "Option::is_none")]
    pub(super) id_token: Option<Exact>,
    #[serde(rename = "w", default, skip_serializing_if = "Option::is_none")]
    pub(super) user: Option<Exact>,
    /// When the browser last came from the provider.
    #[serde(rename = "d", default)]
    pub(super) authenticated_s: u64,
}

fn is_zero(count: &u32) -> bool {
    *count == 0
}

impl OpenidSession {
    /// A session that begins now.
    pub(super) fn new(now_s: u64) -> OpenidSession {
        OpenidSession { created_s: now_s, rolled_s: now_s, used_s: now_s, ..OpenidSession::default() }
    }

    /// Notes a login under way.
    pub(super) fn begin(&mut self, mut pending: PendingLogin) {
        if pending.original.len() > ORIGINAL_BYTES_MAX {
            let path = pending.original.split('?').next().unwrap_or_default();
            pending.original = if path.len() > ORIGINAL_BYTES_MAX { "/".to_owned() } else { path.to_owned() };
        }
        let now_s = pending.begun_s;
        self.pending.retain(|other| now_s.saturating_sub(other.begun_s) < PENDING_SECONDS);
        if self.pending.len() >= PENDING_MAX {
            self.pending.remove(0);
        }
        self.original = Some(pending.original.clone());
        self.pending.push(pending);
    }

    /// Takes the login under way with this `state`, which is used up by it.
    pub(super) fn take_pending(&mut self, state: &str, now_s: u64) -> Option<PendingLogin> {
        let is_it = |pending: &PendingLogin| {
            verify_slices_are_equal(pending.state.as_bytes(), state.as_bytes()).is_ok()
                && now_s.saturating_sub(pending.begun_s) < PENDING_SECONDS
        };
        let found = self.pending.iter().position(is_it)?;
        Some(self.pending.remove(found))
    }
}

impl SessionLogin {
    /// The user that it is of, where the session holds a part that says so.
    pub(super) fn subject(&self) -> Option<String> {
        let claims = self.id_token.clone().or_else(|| claims_of(self.raw_id_token.as_deref()?));
        claims?.get("sub")?.as_str().map(str::to_owned)
    }
}

/// The lifetimes of a session, in seconds; 0 for without end. Defaults are those of lua-resty-session 4.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Lifetimes {
    idling_s: u64,
    rolling_s: u64,
    absolute_s: u64,
}

/// The longest interval between two renewals of the time of use, in seconds.
const TOUCH_SECONDS_MAX: u64 = 60;

impl Lifetimes {
    pub(super) fn of(settings: &SessionSettings) -> Lifetimes {
        let legacy = settings.cookie.as_ref().and_then(|cookie| cookie.lifetime);
        Lifetimes {
            idling_s: settings.idling_timeout.unwrap_or(900),
            rolling_s: settings.rolling_timeout.unwrap_or(3_600),
            absolute_s: settings.absolute_timeout.or(legacy).unwrap_or(86_400),
        }
    }

    /// Whether the session still holds at `now_s`.
    pub(super) fn admit(&self, session: &OpenidSession, now_s: u64) -> bool {
        let within = |since_s: u64, limit_s: u64| limit_s == 0 || now_s.saturating_sub(since_s) < limit_s;
        within(session.created_s, self.absolute_s)
            && within(session.rolled_s, self.rolling_s)
            && within(session.used_s, self.idling_s)
    }

    /// The longest time, in seconds, that a session which is written now can still hold; none: without end.
    pub(super) fn kept_seconds(&self, session: &OpenidSession) -> Option<u64> {
        let age_s = session.used_s.saturating_sub(session.created_s);
        let absolute_s = (self.absolute_s > 0).then(|| self.absolute_s.saturating_sub(age_s));
        let others = [self.idling_s, self.rolling_s].into_iter().filter(|limit_s| *limit_s > 0);
        others.chain(absolute_s).min().map(|limit_s| limit_s.max(1))
    }

    /// Notes the use of a session; true if the browser needs a new cookie for it, so that not every response
    /// has one.
    pub(super) fn touch(&self, session: &mut OpenidSession, now_s: u64) -> bool {
        let rolls = self.rolling_s > 0
            && now_s.saturating_sub(session.rolled_s) >= self.rolling_s.saturating_mul(3) / 4;
        let interval_s = TOUCH_SECONDS_MAX.min(self.idling_s / 2);
        let idles = self.idling_s > 0 && now_s.saturating_sub(session.used_s) >= interval_s.max(1);
        if rolls || idles {
            self.renew(session, now_s);
        }
        rolls || idles
    }

    /// Begins the rolling and the idle time anew, because the session is written.
    pub(super) fn renew(&self, session: &mut OpenidSession, now_s: u64) {
        session.rolled_s = now_s;
        session.used_s = now_s;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pending(state: &str, begun_s: u64) -> PendingLogin {
        let original = format!("/{state}?q");
        PendingLogin { state: state.to_owned(), nonce: None, verifier: None, original, begun_s }
    }

    #[test]
    fn state_is_used_once_and_expires() {
        let mut session = OpenidSession::new(100);
        session.begin(pending("a", 100));
        session.begin(pending("b", 101));
        assert_eq!(session.take_pending("c", 102), None);
        assert_eq!(session.take_pending("a", 102).unwrap().original, "/a?q");
        assert_eq!(session.take_pending("a", 102), None);
        assert_eq!(session.take_pending("b", 101 + PENDING_SECONDS), None);
    }

    #[test]
    fn oldest_pending_login_makes_way() {
        let mut session = OpenidSession::new(0);
        for number in 0..=PENDING_MAX {
            session.begin(pending(&number.to_string(), 1));
        }
        assert_eq!(session.pending.len(), PENDING_MAX);
        assert_eq!(session.take_pending("0", 2), None);
        assert!(session.take_pending("1", 2).is_some());
        session.begin(pending("late", 2 + PENDING_SECONDS));
        assert_eq!(session.pending.len(), 1);
    }

    #[test]
    fn long_original_url_is_cut_to_its_path() {
        let mut session = OpenidSession::new(0);
        let begin = |session: &mut OpenidSession, original: String| {
            session.begin(PendingLogin { original, ..pending("s", 0) });
            session.original.clone().unwrap()
        };
        let query = "q".repeat(ORIGINAL_BYTES_MAX);
        assert_eq!(begin(&mut session, format!("/a?{query}")), "/a");
        assert_eq!(begin(&mut session, format!("/{query}")), "/");
    }

    #[test]
    fn session_ends_after_each_of_its_times() {
        let lifetimes = Lifetimes { idling_s: 10, rolling_s: 40, absolute_s: 100 };
        let check = |created_s, rolled_s, used_s, now_s, expected| {
            let session = OpenidSession { created_s, rolled_s, used_s, ..OpenidSession::default() };
            assert_eq!(lifetimes.admit(&session, now_s), expected, "{created_s} {rolled_s} {used_s} {now_s}");
        };
        check(0, 0, 0, 9, true);
        check(0, 0, 0, 10, false);
        check(0, 0, 39, 39, true);
        check(0, 0, 39, 40, false);
        check(0, 95, 99, 99, true);
        check(0, 95, 99, 100, false);
        let endless = Lifetimes { idling_s: 0, rolling_s: 0, absolute_s: 0 };
        assert!(endless.admit(&OpenidSession::new(0), u64::MAX));
    }

    #[test]
    fn session_is_kept_as_long_as_it_can_hold() {
        let check = |idling_s, rolling_s, absolute_s, expected| {
            let session =
                OpenidSession { created_s: 100, rolled_s: 150, used_s: 150, ..OpenidSession::default() };
            let lifetimes = Lifetimes { idling_s, rolling_s, absolute_s };
            assert_eq!(lifetimes.kept_seconds(&session), expected, "{idling_s} {rolling_s} {absolute_s}");
        };
        check(10, 20, 1_000, Some(10));
        check(0, 20, 1_000, Some(20));
        check(0, 0, 1_000, Some(950));
        check(0, 0, 50, Some(1));
        check(0, 0, 0, None);
    }

    #[test]
    fn cookie_is_renewed_from_time_to_time_only() {
        let lifetimes = Lifetimes { idling_s: 900, rolling_s: 3_600, absolute_s: 0 };
        let mut session = OpenidSession::new(0);
        assert!(!lifetimes.touch(&mut session, TOUCH_SECONDS_MAX - 1));
        assert!(lifetimes.touch(&mut session, TOUCH_SECONDS_MAX));
        assert_eq!((session.rolled_s, session.used_s), (TOUCH_SECONDS_MAX, TOUCH_SECONDS_MAX));
        let rolling = Lifetimes { idling_s: 0, rolling_s: 100, absolute_s: 0 };
        let mut session = OpenidSession::new(0);
        assert!(!rolling.touch(&mut session, 74));
        assert!(rolling.touch(&mut session, 75));
    }
}
