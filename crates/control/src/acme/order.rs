//! One order at one authority, from the list of names to the chain of certificates (RFC 8555 section 7.4). It
//! decides neither when to order nor where the result goes.

use std::time::Duration;

use instant_acme::{
    Account, AuthorizationStatus, CertificateIdentifier, ChallengeType, Error, Identifier, NewOrder, Order,
    OrderStatus, RetryPolicy,
};
use rcgen::{CertificateParams, DistinguishedName, KeyPair};

use super::answers::{AcmeAnswers, OrderAnswers};
use super::config::ChallengeKind;
use super::current::Current;
use super::failure::{AcmeFailure, cleaned};
use super::http::LastAnswer;

/// An order that is under way.
pub(super) struct ActiveOrder<'a> {
    pub(super) names: &'a [String],
    /// The challenges that may be used, the preferred one first.
    pub(super) challenges: &'a [ChallengeKind],
    pub(super) answers: &'a AcmeAnswers,
    pub(super) last: LastAnswer,
    order: Order,
}

/// A new order.
pub(super) struct OrderRequest<'a> {
    pub(super) names: &'a [String],
    pub(super) challenges: &'a [ChallengeKind],
    pub(super) profile: Option<&'a str>,
    /// The certificate that it replaces, where the authority knows that extension (RFC 9773 section 5).
    pub(super) replaces: Option<CertificateIdentifier<'static>>,
    /// An order of the same names that was begun before.
    pub(super) open_order: Option<&'a str>,
}

/// An issued certificate.
#[derive(Clone)]
pub(super) struct Issued {
    /// The certificate with its chain behind it, PEM.
    pub(super) chain: String,
    /// Its private key, PEM.
    pub(super) key: String,
    /// The names and the validity of the certificate.
    pub(super) current: Current,
}

impl<'a> ActiveOrder<'a> {
    /// Begins an order, or takes up the one that was begun before.
    pub(super) async fn begin(
        account: &Account,
        last: LastAnswer,
        answers: &'a AcmeAnswers,
        request: OrderRequest<'a>,
    ) -> Result<ActiveOrder<'a>, AcmeFailure> {
        let OrderRequest { names, challenges, profile, replaces, open_order } = request;
        let run = |order| ActiveOrder { names, challenges, answers, last: last.clone(), order };
        if let Some(url) = open_order
            && let Ok(mut order) = account.order(url.to_owned()).await
            && matches!(order.state().status, OrderStatus::Pending | OrderStatus::Ready)
        {
            return Ok(run(order));
        }
        let identifiers: Vec<Identifier> = names.iter().cloned().map(Identifier::Dns).collect();
        let new = || {
            let new = NewOrder::new(&identifiers);
            if let Some(profile) = profile { new.profile(profile) } else { new }
        };
        if let Some(replaces) = replaces {
            // An authority refuses it for a certificate that was replaced already; the names count then.
            if let Ok(order) = account.new_order(&new().replaces(replaces)).await {
                return Ok(run(order));
            }
        }
        let order = account.new_order(&new()).await.map_err(|fault| AcmeFailure::of(&fault, &last))?;
        Ok(run(order))
    }

    /// The URL of the order, under which it can be taken up again.
    pub(super) fn url(&self) -> &str {
        self.order.url()
    }

    /// Proves control of the names and fetches the certificate. Answers to challenges are taken back in any
    /// case.
    pub(super) async fn finish(mut self) -> Result<Issued, AcmeFailure> {
        let mut given = OrderAnswers::default();
        let steps = tokio::time::timeout(ORDER_TIMEOUT, self.steps(&mut given)).await;
        self.answers.take_back(given).await;
        steps.unwrap_or_else(|_| {
            Err(AcmeFailure::new(format!("the order was not done within {} s", ORDER_TIMEOUT.as_secs())))
        })
    }

    async fn steps(&mut self, given: &mut OrderAnswers) -> Result<Issued, AcmeFailure> {
        if self.order.state().status == OrderStatus::Pending {
            let chosen = self.answer_challenges(given).await?;
            self.answers.settle(given).await;
            self.say_ready(&chosen).await?;
            match self.order.poll_ready(&POLLING).await {
                Ok(OrderStatus::Ready) => {}
                Ok(_) => return Err(self.why_invalid(None).await),
                Err(fault) => return Err(self.why_invalid(Some(fault)).await),
            }
        }
        let key = KeyPair::generate()
            .map_err(|fault| AcmeFailure::new(format!("no key could be made: {fault}")))?;
        let request = signing_request(self.names, &key)
            .map_err(|fault| AcmeFailure::new(format!("no signing request could be made: {fault}")))?;
        self.order.finalize_csr(&request).await.map_err(|fault| self.failure(&fault))?;
        let chain = self.order.poll_certificate(&POLLING).await.map_err(|fault| self.failure(&fault))?;
        let current = Current::parse(&chain)
            .map_err(|fault| AcmeFailure::new(format!("its certificate cannot be used: {fault}")))?;
        if let Some(name) = self.names.iter().find(|name| !current.covers(name)) {
            return Err(AcmeFailure::new(format!("its certificate is not for {name}")));
        }
        Ok(Issued { chain, key: key.serialize_pem(), current })
    }

    /// Gives an answer for each name that is not proven yet; the challenge that was chosen for each
    /// authorization.
    async fn answer_challenges(
        &mut self,
        given: &mut OrderAnswers,
    ) -> Result<Vec<Option<ChallengeKind>>, AcmeFailure> {
        let mut chosen = Vec::new();
        let (last, kinds, answers) = (self.last.clone(), self.challenges, self.answers);
        let mut authorizations = self.order.authorizations();
        while let Some(authorization) = authorizations.next().await {
            if chosen.len() == AUTHORIZATIONS_MAX {
                return Err(AcmeFailure::new("it asks for more proofs than there can be names"));
            }
            let mut authorization = authorization.map_err(|fault| AcmeFailure::of(&fault, &last))?;
            match authorization.status {
                AuthorizationStatus::Valid => {
                    chosen.push(None);
                    continue;
                }
                AuthorizationStatus::Pending => {}
                other => {
                    return Err(AcmeFailure::new(format!(
                        "the proof of a name is {other:?} from the beginning"
                    )));
                }
            }
            let Identifier::Dns(domain) = authorization.identifier().identifier.clone() else {
                return Err(AcmeFailure::new("it asks for a proof of something that is no name"));
            };
            if !self.names.iter().any(|name| name.strip_prefix("*.").unwrap_or(name) == domain) {
                return Err(AcmeFailure::new(format!(
                    "it asks for a proof of {domain}, which was not ordered"
                )));
            }
            let offered: Vec<&ChallengeType> =
                authorization.challenges.iter().map(|offer| &offer.r#type).collect();
            let kind = choose(kinds, &offered, authorization.wildcard)
                .ok_or_else(|| no_challenge(&domain, &offered, authorization.wildcard))?;
            let Some(challenge) = authorization.challenge(kind.of_authority()) else {
                return Err(AcmeFailure::new("its challenges changed meanwhile"));
            };
            let proof = challenge.key_authorization();
            let (text, record) = (proof.as_str().to_owned(), proof.dns_value());
            answers.give(given, kind, &domain, &challenge.token, &text, &record).await?;
            chosen.push(Some(kind));
        }
        Ok(chosen)
    }

    /// Tells the authority that the answers are there.
    async fn say_ready(&mut self, chosen: &[Option<ChallengeKind>]) -> Result<(), AcmeFailure> {
        let last = self.last.clone();
        let mut authorizations = self.order.authorizations();
        for kind in chosen {
            let Some(authorization) = authorizations.next().await else { break };
            let mut authorization = authorization.map_err(|fault| AcmeFailure::of(&fault, &last))?;
            let Some(kind) = kind else { continue };
            if let Some(mut challenge) = authorization.challenge(kind.of_authority()) {
                challenge.set_ready().await.map_err(|fault| AcmeFailure::of(&fault, &last))?;
            }
        }
        Ok(())
    }

    /// The reason of an order that did not become ready: what the authority says of its challenges.
    async fn why_invalid(&mut self, fault: Option<Error>) -> AcmeFailure {
        let failure =
            fault.map_or_else(|| AcmeFailure::new("the order is invalid"), |fault| self.failure(&fault));
        let mut reasons = Vec::new();
        let mut authorizations = self.order.authorizations();
        while let Some(Ok(mut authorization)) = authorizations.next().await {
            let Ok(state) = authorization.refresh().await else { break };
            let domain = state.identifier().to_string();
            let problems = state.challenges.iter().filter_map(|challenge| challenge.error.as_ref());
            let details = problems.filter_map(|problem| problem.detail.as_deref());
            reasons.extend(details.map(|detail| format!("{domain}: {detail}")));
            if reasons.len() >= REASONS_MAX {
                break;
            }
        }
        if reasons.is_empty() {
            failure
        } else {
            AcmeFailure { reason: cleaned(&reasons.join("; ")), ..failure }
        }
    }

    fn failure(&self, fault: &Error) -> AcmeFailure {
        AcmeFailure::of(fault, &self.last)
    }
}

/// The first of `kinds` that is offered; for a wildcard only a record in DNS is a proof.
fn choose(kinds: &[ChallengeKind], offered: &[&ChallengeType], is_wildcard: bool) -> Option<ChallengeKind> {
    let is_offered = |kind: &ChallengeKind| offered.contains(&&kind.of_authority());
    let fits = |kind: &ChallengeKind| !is_wildcard || *kind == ChallengeKind::Dns01;
    kinds.iter().copied().find(|kind| fits(kind) && is_offered(kind))
}

fn no_challenge(domain: &str, offered: &[&ChallengeType], is_wildcard: bool) -> AcmeFailure {
    let known = ChallengeKind::ALL.into_iter().filter(|(_, kind)| offered.contains(&&kind.of_authority()));
    let offered: Vec<&str> = known.map(|(name, _)| name).collect();
    let hint = if is_wildcard {
        "a wildcard needs dns-01 in acme_challenges"
    } else {
        "acme_challenges allows none of them"
    };
    AcmeFailure::new(format!("for {domain} it offers the challenges {}; {hint}", offered.join(", ")))
}

/// A certificate signing request, DER.
fn signing_request(names: &[String], key: &KeyPair) -> Result<Vec<u8>, rcgen::Error> {
    let mut params = CertificateParams::new(names.to_vec())?;
    params.distinguished_name = DistinguishedName::new();
    Ok(params.serialize_request(key)?.der().to_vec())
}

/// For the authority to check names and to issue. It says itself how often it wants to be asked.
const POLLING: RetryPolicy = RetryPolicy::new()
    .initial_delay(Duration::from_millis(250))
    .backoff(1.5)
    .timeout(Duration::from_secs(180));
/// For a whole order, with the time that records of DNS need.
const ORDER_TIMEOUT: Duration = Duration::from_secs(1200);
/// Let's Encrypt allows a hundred names in a certificate.
const AUTHORIZATIONS_MAX: usize = 200;
/// Reasons that are shown for one order.
const REASONS_MAX: usize = 5;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn preferred_challenge_that_is_offered_is_chosen() {
        use ChallengeKind::{Dns01, Http01, TlsAlpn01};
        let check = |kinds: &[ChallengeKind], offered: &[ChallengeType], is_wildcard, expected| {
            let offered: Vec<&ChallengeType> = offered.iter().collect();
            assert_eq!(choose(kinds, &offered, is_wildcard), expected, "{kinds:?} {offered:?}");
        };
        let all = [ChallengeType::Dns01, ChallengeType::TlsAlpn01, ChallengeType::Http01];
        check(&[Http01, TlsAlpn01], &all, false, Some(Http01));
        check(&[TlsAlpn01, Http01], &all, false, Some(TlsAlpn01));
        check(&[Http01, Dns01], &all, true, Some(Dns01));
        check(&[Http01], &all, true, None);
        check(&[Http01], &[ChallengeType::Dns01, ChallengeType::Unknown("x".to_owned())], false, None);
        check(&[], &all, false, None);
        let reason = no_challenge("a.example", &[&ChallengeType::Dns01], false).reason;
        assert!(reason.contains("offers the challenges dns-01; acme_challenges allows none"), "{reason}");
    }
}
