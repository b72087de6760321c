//! Why an attempt failed, in words that are safe to log and to show, and how long the authority asks to wait.
//! Texts of an authority are cut and cleaned, because it may send anything.

use std::time::Duration;

use instant_acme::Error;

use super::http::LastAnswer;

/// See the module.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct AcmeFailure {
    pub(super) reason: String,
    /// The authority takes no order of this account before.
    pub(super) retry_after: Option<Duration>,
    /// The authority does not know the account: it lost its data, or the account was deactivated.
    pub(super) account_is_unknown: bool,
}

impl AcmeFailure {
    pub(super) fn new(reason: impl Into<String>) -> AcmeFailure {
        AcmeFailure { reason: cleaned(&reason.into()), retry_after: None, account_is_unknown: false }
    }

    /// Of an error of the library, with the answer that it was made of.
    pub(super) fn of(error: &Error, last: &LastAnswer) -> AcmeFailure {
        let (status, wait) = last.get();
        let kind = match error {
            Error::Api(problem) => problem.r#type.as_deref().unwrap_or_default(),
            _ => "",
        };
        let is_limit = status == 429 || kind == "urn:ietf:params:acme:error:rateLimited";
        let is_down = status == 503;
        let reason = match error {
            Error::Api(problem) => {
                let of_names = problem.subproblems.iter().filter_map(|problem| problem.detail.as_deref());
                let details: Vec<&str> = problem.detail.as_deref().into_iter().chain(of_names).collect();
                format!("{} ({kind})", details.join("; "))
            }
            Error::Json(fault) if status != 0 => {
                format!("it answered {status} with something that is not the protocol's: {fault}")
            }
            Error::Timeout(_) => "it did not finish in time".to_owned(),
            other => other.to_string(),
        };
        AcmeFailure {
            reason: cleaned(&reason),
            retry_after: (is_limit || is_down).then(|| wait.unwrap_or(LIMIT_WAIT)),
            account_is_unknown: kind == "urn:ietf:params:acme:error:accountDoesNotExist",
        }
    }
}

/// The text on one line, no longer than [`REASON_CHARS_MAX`].
pub(super) fn cleaned(text: &str) -> String {
    let visible = text.chars().map(|character| if character.is_control() { ' ' } else { character });
    let mut cut: String = visible.take(REASON_CHARS_MAX).collect();
    if text.chars().nth(REASON_CHARS_MAX).is_some() {
        cut.push('…');
    }
    cut
}

/// Of a reason that is logged, stored and shown.
const REASON_CHARS_MAX: usize = 500;
/// The wait for a limit without `Retry-After`.
const LIMIT_WAIT: Duration = Duration::from_secs(3600);

#[cfg(test)]
mod tests {
    use super::*;
    use instant_acme::Problem;

    #[test]
    fn texts_of_authorities_are_cleaned_and_cut() {
        assert_eq!(cleaned("a\r\nb\u{1b}[31m"), "a  b [31m");
        assert_eq!(cleaned(&"ü".repeat(600)).chars().count(), 501);
        let kind = "urn:ietf:params:acme:error:rateLimited";
        let problem = Problem {
            r#type: Some(kind.to_owned()),
            detail: Some("too many\norders".to_owned()),
            status: Some(429),
            subproblems: Vec::new(),
        };
        let failure = AcmeFailure::of(&Error::Api(problem), &LastAnswer::default());
        assert_eq!(failure.reason, format!("too many orders ({kind})"));
        assert_eq!((failure.retry_after, failure.account_is_unknown), (Some(LIMIT_WAIT), false));
    }
}
