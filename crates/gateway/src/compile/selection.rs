//! The policies of an upstream that narrow the choice of a node. Learned sessions outlive changes of the
//! upstream.

use std::fmt::Write;
use std::sync::Arc;

use model::resource::{
    SelectionPolicies, SlowStart as WrittenSlowStart, Sticky as WrittenSticky, StickyMode as WrittenMode,
    Subset as WrittenSubset, SubsetFallback, UpstreamConfig as Written, ZoneAware,
};
use router::vars::Template;

use super::SnapshotCompiler;
use crate::upstream::select::Policies;
use crate::upstream::select::slow_start::SlowStart;
use crate::upstream::select::sticky::{Sticky, StickyMode};
use crate::upstream::select::subset::{Fallback, Subsets};
use crate::upstream::select::zone::ZonePreference;

/// How long a learned session without a request is kept if the upstream does not say, in milliseconds: longer
/// than the sessions of most applications.
const LEARNED_TTL_MS: u64 = 3_600_000;

impl SnapshotCompiler {
    /// Prefers nodes in this zone for upstreams that ask for it; without it no upstream prefers any.
    #[must_use]
    pub fn with_zone(mut self, zone: Option<&str>) -> SnapshotCompiler {
        self.zone = zone.map(Box::from);
        self
    }

    /// The policies of `written`; `before` are those that the upstream has until now.
    pub(super) fn policies(
        &self,
        identity: &str,
        written: &Written,
        before: Option<&Policies>,
    ) -> Result<Policies, String> {
        let is_in_panic = before.map(|before| before.is_in_panic.clone()).unwrap_or_default();
        let Some(selection) = written.selection.as_deref() else {
            return Ok(Policies { is_in_panic, ..Policies::default() });
        };
        let SelectionPolicies { panic_threshold, slow_start, overflow, zone_aware, subset, sticky } =
            selection;
        let zone = zone_aware.as_ref().zip(self.zone.as_deref());
        let sticky_before = before.and_then(|before| before.sticky.as_deref());
        let sticky =
            sticky.as_ref().map(|sticky| self::sticky(identity, sticky, sticky_before)).transpose()?;
        Ok(Policies {
            panic_percent: *panic_threshold,
            slow_start: slow_start.as_ref().map(self::slow_start),
            overflow_percent: overflow.map_or(0, |overflow| overflow.percent),
            zone: zone.map(|(zone, own)| preference(zone, own)),
            subsets: subset.as_ref().map(subsets).transpose()?.map(Box::new),
            sticky: sticky.map(Arc::new),
            is_in_panic,
        })
    }
}

fn slow_start(written: &WrittenSlowStart) -> SlowStart {
    SlowStart {
        window_ms: super::upstream::saturating_ms(written.window).max(1),
        least: f64::from(written.min_weight_percent) / 100.0,
    }
}

fn preference(written: &ZoneAware, own: &str) -> ZonePreference {
    ZonePreference {
        key: written.key.clone(),
        own: own.into(),
        nodes_min: written.min_nodes as usize,
        percent: written.percent,
    }
}

fn subsets(written: &WrittenSubset) -> Result<Subsets, String> {
    let value = |text: &str| Template::compile(text).map_err(|error| format!("subset: {error}"));
    Ok(Subsets {
        keys: written.wanted.keys().cloned().collect(),
        values: written.wanted.values().map(|text| value(text)).collect::<Result<_, _>>()?,
        fallback: match written.fallback {
            SubsetFallback::Any => Fallback::Any,
            SubsetFallback::None => Fallback::None,
            SubsetFallback::Default => Fallback::Default(written.default.clone().into_iter().collect()),
        },
    })
}

fn sticky(identity: &str, written: &WrittenSticky, before: Option<&Sticky>) -> Result<Sticky, String> {
    let read = Template::compile(&format!("${{cookie_{}}}", written.cookie));
    let mode = match written.mode {
        WrittenMode::Set => StickyMode::Set(attributes(written).into()),
        WrittenMode::Learn => {
            let ttl_ms = written.ttl.map_or(LEARNED_TTL_MS, super::upstream::saturating_ms);
            let known = match before {
                Some(Sticky { mode: StickyMode::Learn { sessions, .. }, cookie, .. })
                    if *cookie == written.cookie =>
                {
                    Some(sessions.clone())
                }
                _ => None,
            };
            StickyMode::Learn { sessions: known.unwrap_or_default(), ttl_ms }
        }
    };
    Ok(Sticky {
        cookie: written.cookie.clone(),
        read: read.map_err(|error| format!("sticky: {error}"))?,
        identity: identity.into(),
        mode,
    })
}

/// The attributes of the cookie as `Set-Cookie` has them (RFC 6265 section 4.1).
fn attributes(written: &WrittenSticky) -> String {
    let mut text = format!("; Path={}", written.path.as_deref().unwrap_or("/"));
    // Writing to a string cannot fail.
    if let Some(ttl) = written.ttl {
        let _ = write!(text, "; Max-Age={}", ttl.as_secs());
    }
    if let Some(domain) = &written.domain {
        let _ = write!(text, "; Domain={domain}");
    }
    if written.secure {
        text.push_str("; Secure");
    }
    if written.http_only {
        text.push_str("; HttpOnly");
    }
    if let Some(same_site) = written.same_site {
        let _ = write!(text, "; SameSite={}", same_site.as_str());
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(json: &str) -> WrittenSticky {
        serde_json::from_str(json).unwrap()
    }

    #[test]
    fn attributes_are_those_written() {
        for (json, expected) in [
            (r#"{"cookie":"a"}"#, "; Path=/; HttpOnly"),
            (
                r#"{"cookie":"a","ttl":60,"path":"/x","domain":"b.c","secure":true,"http_only":false,"same_site":"lax"}"#,
                "; Path=/x; Max-Age=60; Domain=b.c; Secure; SameSite=Lax",
            ),
        ] {
            assert_eq!(attributes(&written(json)), expected, "{json}");
        }
    }

    #[test]
    fn learned_sessions_outlive_other_changes() {
        let learn =
            |json: &str, before: Option<&Sticky>| sticky("/upstreams/1", &written(json), before).unwrap();
        let sessions = |sticky: &Sticky| match &sticky.mode {
            StickyMode::Learn { sessions, .. } => sessions.clone(),
            StickyMode::Set(_) => unreachable!("the mode is learn"),
        };
        let first = learn(r#"{"mode":"learn","cookie":"a"}"#, None);
        for same in [r#"{"mode":"learn","cookie":"a"}"#, r#"{"mode":"learn","cookie":"a","ttl":60}"#] {
            let same = learn(same, Some(&first));
            assert!(Arc::ptr_eq(&sessions(&first), &sessions(&same)));
        }
        let other = learn(r#"{"mode":"learn","cookie":"b"}"#, Some(&first));
        assert!(!Arc::ptr_eq(&sessions(&first), &sessions(&other)));
    }
}
