//! The answers to challenges: kept where the instances share their state, so that the authority may ask any
//! of them, and published to the data plane. Records of DNS are set by a command.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use aws_lc_rs::digest::{SHA256, digest};
use jsonx::Bounds;
use model::acme::{ChallengeAnswers, ChallengeCertificate, Challenges};
use parking_lot::Mutex;
use rcgen::{CertificateParams, CustomExtension, DistinguishedName, KeyPair};
use serde::{Deserialize, Serialize};
use tokio::io::AsyncReadExt;
use tokio::process::Command;

use super::config::ChallengeKind;
use super::failure::{AcmeFailure, cleaned};
use crate::shared_state::SharedState;

/// The answers of the instances, and their way to the data plane.
pub(super) struct AcmeAnswers {
    shared: SharedState,
    challenges: Arc<Challenges>,
    dns_hook: Option<PathBuf>,
    dns_wait: Duration,
    /// Certificates that were made, by their token: making one takes a key.
    made: Mutex<HashMap<String, Arc<ChallengeCertificate>>>,
}

/// An answer as the instances share it.
#[derive(Debug, Serialize, Deserialize)]
struct SharedAnswer {
    domain: String,
    authorization: String,
    /// Over TLS; else over HTTP.
    over_tls: bool,
}

/// Answers that were given for one order, to be taken back when it ends.
#[derive(Debug, Default)]
pub(super) struct OrderAnswers {
    paths: Vec<String>,
    records: Vec<(String, String)>,
}

impl AcmeAnswers {
    pub(super) fn new(
        shared: SharedState,
        challenges: Arc<Challenges>,
        dns_hook: Option<PathBuf>,
        dns_wait: Duration,
    ) -> AcmeAnswers {
        AcmeAnswers { shared, challenges, dns_hook, dns_wait, made: Mutex::default() }
    }

    /// Gives the answer to one challenge; it holds once [`AcmeAnswers::settle`] has returned.
    pub(super) async fn give(
        &self,
        given: &mut OrderAnswers,
        kind: ChallengeKind,
        domain: &str,
        token: &str,
        authorization: &str,
        dns_value: &str,
    ) -> Result<(), AcmeFailure> {
        if kind == ChallengeKind::Dns01 {
            let record = (format!("_acme-challenge.{domain}"), dns_value.to_owned());
            // Before it is set: a command that fails half way may have set it.
            given.records.push(record.clone());
            return self.hook("present", &record).await;
        }
        let is_token = |byte: u8| byte.is_ascii_alphanumeric() || b"-_".contains(&byte);
        if token.is_empty() || token.len() > TOKEN_BYTES_MAX || !token.bytes().all(is_token) {
            return Err(AcmeFailure::new("the token of its challenge is malformed"));
        }
        let path = format!("{FOLDER}{token}");
        let answer = SharedAnswer {
            domain: domain.to_owned(),
            authorization: authorization.to_owned(),
            over_tls: kind == ChallengeKind::TlsAlpn01,
        };
        let text = serde_json::to_string(&answer).map_err(|fault| AcmeFailure::new(fault.to_string()))?;
        given.paths.push(path.clone());
        match self.shared.put(&path, &text, Some(ANSWER_TTL)).await {
            Ok(true) => Ok(()),
            Ok(false) => Err(AcmeFailure::new("another instance answers the same challenge")),
            Err(reason) => Err(AcmeFailure::new(format!("the answer cannot be shared: {reason}"))),
        }
    }

    /// Waits until every instance and every name server has the answers that were given.
    pub(super) async fn settle(&self, given: &OrderAnswers) {
        self.publish();
        if self.shared.is_cluster() && !given.paths.is_empty() {
            tokio::time::sleep(SPREAD_WAIT).await;
        }
        if !given.records.is_empty() {
            tokio::time::sleep(self.dns_wait).await;
        }
    }

    /// Takes answers back. What fails is logged: an answer of an old order does no harm.
    pub(super) async fn take_back(&self, given: OrderAnswers) {
        for path in given.paths {
            if let Err(reason) = self.shared.remove(&path).await {
                tracing::warn!(path, reason, "the answer to a challenge stays until it expires");
            }
        }
        for record in &given.records {
            if let Err(failure) = self.hook("cleanup", record).await {
                tracing::warn!(record = record.0, reason = failure.reason, "a record of DNS was not removed");
            }
        }
        self.publish();
    }

    /// Hands the answers of all instances to the data plane.
    pub(super) fn publish(&self) {
        let mut answers = ChallengeAnswers::default();
        let mut made = self.made.lock();
        let shared = self.shared.list(FOLDER);
        made.retain(|token, _| shared.iter().any(|(shared, _)| shared == token));
        for (token, text) in shared.into_iter().take(ANSWERS_MAX) {
            let Ok(answer) = jsonx::read::<SharedAnswer>(text.as_bytes(), Bounds::SMALL) else { continue };
            if !answer.over_tls {
                answers.tokens.insert(token.into(), answer.authorization.into());
                continue;
            }
            let certificate = match made.get(&token) {
                Some(certificate) => Arc::clone(certificate),
                None => match challenge_certificate(&answer) {
                    Ok(certificate) => Arc::clone(made.entry(token).or_insert(Arc::new(certificate))),
                    Err(fault) => {
                        tracing::error!(domain = answer.domain, %fault, "no certificate for a challenge");
                        continue;
                    }
                },
            };
            answers.certificates.insert(answer.domain.into(), certificate);
        }
        self.challenges.set(answers);
    }

    /// Runs the command for records of DNS: `HOOK present|cleanup NAME VALUE`.
    async fn hook(&self, action: &str, (name, value): &(String, String)) -> Result<(), AcmeFailure> {
        let Some(hook) = &self.dns_hook else { return Err(AcmeFailure::new("there is no acme_dns_hook")) };
        match tokio::time::timeout(HOOK_TIMEOUT, run_hook(hook, action, name, value)).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(reason)) => Err(AcmeFailure::new(format!("acme_dns_hook {action} {name}: {reason}"))),
            Err(_) => {
                let seconds = HOOK_TIMEOUT.as_secs();
                Err(AcmeFailure::new(format!("acme_dns_hook {action} {name} did not end within {seconds} s")))
            }
        }
    }
}

/// Runs the command; its last words are part of an error. Dropping the future ends the process.
async fn run_hook(hook: &Path, action: &str, name: &str, value: &str) -> Result<(), String> {
    let mut command = Command::new(hook);
    command.args([action, name, value]).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut child = command.kill_on_drop(true).spawn().map_err(|fault| format!("cannot be run: {fault}"))?;
    let mut said = Vec::new();
    if let Some(errors) = child.stderr.take() {
        let mut bounded = errors.take(HOOK_OUTPUT_BYTES);
        // An error of reading is the end of what it says.
        let _ = bounded.read_to_end(&mut said).await;
    }
    let status = child.wait().await.map_err(|fault| fault.to_string())?;
    match status.success() {
        true => Ok(()),
        false => Err(cleaned(format!("{status}: {}", String::from_utf8_lossy(&said)).trim_end())),
    }
}

/// The certificate of TLS-ALPN-01 (RFC 8737 section 3).
fn challenge_certificate(answer: &SharedAnswer) -> Result<ChallengeCertificate, rcgen::Error> {
    let mut params = CertificateParams::new(vec![answer.domain.clone()])?;
    params.distinguished_name = DistinguishedName::new();
    let proof = digest(&SHA256, answer.authorization.as_bytes());
    params.custom_extensions = vec![CustomExtension::new_acme_identifier(proof.as_ref())];
    let key = KeyPair::generate()?;
    let certificate = params.self_signed(&key)?;
    Ok(ChallengeCertificate { certificate: certificate.der().to_vec(), key: key.serialize_der() })
}

/// The folder of shared answers, each under its token.
const FOLDER: &str = "challenges/";
/// A token has 43 characters at Let's Encrypt.
const TOKEN_BYTES_MAX: usize = 256;
/// Answers that are published at once: each order has at most as many as names.
const ANSWERS_MAX: usize = 10_000;
/// The lifetime of an answer that its instance did not take back, because it died; longer than an order may
/// take.
const ANSWER_TTL: Duration = Duration::from_secs(1800);
/// Until every instance has heard of an answer: a watch tells it within milliseconds.
const SPREAD_WAIT: Duration = Duration::from_secs(1);
/// For one run of the command.
const HOOK_TIMEOUT: Duration = Duration::from_secs(120);
/// Of the command's standard error, which is read to its end otherwise.
const HOOK_OUTPUT_BYTES: u64 = 4096;
