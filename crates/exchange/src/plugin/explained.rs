//! The answer of a plugin to the question "what would you do with this request?", for pages and commands that
//! explain a decision. Giving it has no effect on anything but the exchange of the question.

use std::borrow::Cow;

use super::reply::BufferedReply;
use super::upstream_ref::UpstreamRef;

/// The longest text of an answer, in characters; the body of a reply may be longer.
const TEXT_CHARS_MAX: usize = 200;

/// See the module.
#[derive(Clone, Debug)]
pub struct Explained {
    /// Whether the plugin would do something; none where that is not known without doing it.
    pub runs: Option<bool>,
    /// The reason, or a remark.
    pub why: Option<Cow<'static, str>>,
    /// The effect of the plugin; none if the request passes it unchanged, or that is not known.
    pub would: Option<Would>,
    /// The upstreams that the plugin divides such requests among; empty if it does not, or there is only one.
    pub choices: Vec<UpstreamChoice>,
}

/// One upstream that a plugin may choose.
#[derive(Clone, Debug)]
pub struct UpstreamChoice {
    /// None: that of the route.
    pub upstream: Option<UpstreamRef>,
    /// Its share of the requests, in percent.
    pub share: f64,
}

/// The effect that a plugin would have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Would {
    /// The kind of effect.
    pub action: EffectKind,
    /// The status of a reply.
    pub status: Option<u16>,
    /// The effect in words.
    pub text: Cow<'static, str>,
}

/// The kind of an effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EffectKind {
    /// It answers the request.
    Reply,
    /// It answers with a redirection.
    Redirect,
    /// It calls another server and then decides.
    Call,
    /// It counts the request.
    Count,
    /// It changes the request.
    Change,
    /// It chooses the upstream. The words hold names of objects and no values, so that each key may see them.
    Choose,
}

impl EffectKind {
    /// The name for users.
    pub fn as_str(self) -> &'static str {
        match self {
            EffectKind::Reply => "reply",
            EffectKind::Redirect => "redirect",
            EffectKind::Call => "call",
            EffectKind::Count => "count",
            EffectKind::Change => "change",
            EffectKind::Choose => "choose",
        }
    }
}

impl Explained {
    /// It is not known what the plugin would do.
    pub fn unknown(why: impl Into<Cow<'static, str>>) -> Explained {
        Explained { runs: None, why: Some(why.into()), ..Explained::passes() }
    }

    /// The plugin runs, and the request passes it as it is.
    pub fn passes() -> Explained {
        Explained { runs: Some(true), why: None, would: None, choices: Vec::new() }
    }

    /// The plugin does not run.
    pub fn skipped(why: impl Into<Cow<'static, str>>) -> Explained {
        Explained { runs: Some(false), why: Some(why.into()), ..Explained::passes() }
    }

    /// The plugin answers the request with `reply`.
    pub fn replies(reply: &BufferedReply) -> Explained {
        let location = reply.headers.iter().find(|(name, _)| name.eq_ignore_ascii_case("location"));
        let (action, text) = match location {
            Some((_, location)) if (300..400).contains(&reply.status) => {
                (EffectKind::Redirect, cut(location))
            }
            _ => (EffectKind::Reply, cut(String::from_utf8_lossy(&reply.body).trim_end())),
        };
        Explained::does(action, Some(reply.status), text)
    }

    /// The plugin counts the request; `text` says by what and within which limit.
    pub fn counts(text: impl Into<Cow<'static, str>>) -> Explained {
        Explained::does(EffectKind::Count, None, text)
    }

    /// The plugin calls another server; what it does then is not known.
    pub fn calls(text: impl Into<Cow<'static, str>>) -> Explained {
        Explained { runs: None, ..Explained::does(EffectKind::Call, None, text) }
    }

    /// The plugin changes the request.
    pub fn changes(text: impl Into<Cow<'static, str>>) -> Explained {
        Explained::does(EffectKind::Change, None, text)
    }

    /// The plugin divides such requests among these upstreams; `text` names the rule, and the shares are
    /// added to it.
    pub fn divides(text: &str, choices: Vec<UpstreamChoice>) -> Explained {
        let named = choices.iter().map(|choice| {
            let name = choice.upstream.as_ref().map_or("that of the route", |upstream| upstream.identity());
            let name = name.strip_prefix("/upstreams/").unwrap_or(name);
            format!("{name} {} %", (choice.share * 10.0).round() / 10.0)
        });
        let text = format!("{text}{}", named.collect::<Vec<_>>().join(", "));
        Explained { choices, ..Explained::does(EffectKind::Choose, None, text) }
    }

    /// The plugin has this effect.
    pub fn does(action: EffectKind, status: Option<u16>, text: impl Into<Cow<'static, str>>) -> Explained {
        let would = Would { action, status, text: text.into() };
        Explained { would: Some(would), ..Explained::passes() }
    }

    /// The same answer, with a remark.
    #[must_use]
    pub fn because(mut self, why: impl Into<Cow<'static, str>>) -> Explained {
        self.why = Some(why.into());
        self
    }

    /// Whether the request would end here.
    pub fn ends(&self) -> bool {
        self.would
            .as_ref()
            .is_some_and(|would| matches!(would.action, EffectKind::Reply | EffectKind::Redirect))
    }
}

/// The first characters of a text.
fn cut(text: &str) -> String {
    match text.char_indices().nth(TEXT_CHARS_MAX) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reply_is_a_redirect_with_a_location() {
        let plain = Explained::replies(&BufferedReply::message(403, "no"));
        let would = plain.would.as_ref().unwrap();
        assert_eq!(
            (would.action, would.status, &*would.text),
            (EffectKind::Reply, Some(403), r#"{"message":"no"}"#)
        );
        assert!(plain.ends());
        let redirect = Explained::replies(&BufferedReply::status(301).with_header("Location", "https://a/"));
        assert_eq!(redirect.would.map(|would| would.action), Some(EffectKind::Redirect));
        assert!(!Explained::counts("by client").ends());
        assert_eq!(cut(&"x".repeat(300)).chars().count(), TEXT_CHARS_MAX + 1);
    }
}
