//! Runs the phases of one plugin on one request, without sockets of a gateway, and records what each phase
//! changed. It knows no language and prints nothing.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context, bail};
use exchange::Exchange;
use exchange::plugin::{
    BodyNeed, BufferedReply, Flow, PHASE_WAIT_MS, PhaseDecision, Plugin, PluginPhase, Portion, ResponseStep,
};
use exchange::testing::{Scene, lines, respond};

use super::requests::WrittenRequest;

/// The number of the only instance.
const INSTANCE: u32 = 1;

/// The changes of one phase.
pub(super) struct PhaseRecord {
    /// The name of the phase.
    pub(super) phase: &'static str,
    /// Each change in a line; empty: nothing changed.
    pub(super) changes: Vec<String>,
}

/// The outcome of a request.
pub(super) struct TrialOutcome {
    /// The changes of each phase, in their order.
    pub(super) phases: Vec<PhaseRecord>,
    /// Whether the plugin answered itself.
    pub(super) answered: bool,
    /// Status, fields and body that the client gets.
    pub(super) status: u16,
    pub(super) headers: Vec<String>,
    pub(super) body: Vec<u8>,
    /// Path, query, fields and body that the upstream gets.
    pub(super) upstream_path: String,
    pub(super) upstream_query: String,
    pub(super) upstream_headers: Vec<String>,
    pub(super) upstream_body: Vec<u8>,
}

/// Status, fields and body of a reply.
type ReplyParts = (u16, Vec<(String, String)>, Vec<u8>);

/// Both heads as they are at one moment.
#[derive(Default)]
struct Heads {
    target: String,
    request: Vec<String>,
    status: u16,
    response: Vec<String>,
}

/// A plugin on trial.
pub(super) struct PluginTrial<'p> {
    pub(super) plugin: &'p dyn Plugin,
    pub(super) phases: &'p [PluginPhase],
}

impl PluginTrial<'_> {
    /// Runs one request.
    ///
    /// # Errors
    /// The request is none, or a phase did not end in its time.
    pub(super) async fn run(
        &self,
        scene: &mut Scene,
        written: &WrittenRequest,
    ) -> anyhow::Result<TrialOutcome> {
        let mut exchange = scene.exchange(&written.text()?);
        let exchange = &mut *exchange;
        exchange.instance.set(INSTANCE);
        let mut phases = Vec::new();
        let mut request_body = written.body.clone().into_bytes();
        let mut reply = None;
        for phase in [PluginPhase::Rewrite, PluginPhase::Access, PluginPhase::BeforeProxy] {
            if !self.phases.contains(&phase) || reply.is_some() {
                continue;
            }
            let before = heads(exchange);
            reply = self.request_phase(phase, exchange).await?;
            let mut changes = differences(&before, &heads(exchange));
            if let Some((status, ..)) = &reply {
                changes.push(format!("answers {status}"));
            }
            phases.push(PhaseRecord { phase: phase.name(), changes });
        }
        let is_forwarded = reply.is_none() && !exchange.begun_reply.is_begun();
        if is_forwarded && self.phases.contains(&PluginPhase::RequestBody) {
            self.edit_request_body(exchange, &mut request_body, &mut phases);
        }
        let reply = reply.or_else(|| exchange.begun_reply.take().map(|begun| parts_of(*begun)));
        let answered = reply.is_some();
        let (upstream_path, upstream_query) = target(exchange);
        let upstream_headers = lines(&exchange.request.headers);
        let mut body = match reply {
            Some((status, fields, body)) => {
                set_response(exchange, status, &fields)?;
                body
            }
            None => {
                let fields: Vec<(String, String)> = sorted(&written.response.headers);
                set_response(exchange, written.response.status, &fields)?;
                written.response.body.clone().into_bytes()
            }
        };
        let early: Vec<_> = exchange.early_fields.drain(..).collect();
        for (name, value) in early {
            exchange
                .response
                .headers
                .append(&name, value.as_bytes())
                .map_err(|error| anyhow::anyhow!("the field {name} of the response is none: {error:?}"))?;
        }
        self.response(exchange, &mut body, &mut phases).await?;
        Ok(TrialOutcome {
            phases,
            answered,
            status: exchange.response.status,
            headers: lines(&exchange.response.headers),
            body,
            upstream_path,
            upstream_query,
            upstream_headers,
            upstream_body: request_body,
        })
    }

    /// Runs a phase that may answer; gives status, fields and body of an answer.
    async fn request_phase(
        &self,
        phase: PluginPhase,
        exchange: &mut Exchange,
    ) -> anyhow::Result<Option<ReplyParts>> {
        let decision = {
            let flow = match phase {
                PluginPhase::Rewrite => self.plugin.rewrite(exchange),
                PluginPhase::Access => self.plugin.access(exchange),
                _ => self.plugin.before_proxy(exchange),
            };
            match flow {
                Flow::Continue => PhaseDecision::Continue,
                Flow::Reply(reply) => PhaseDecision::Reply(reply),
                Flow::Stream(reply) => PhaseDecision::Stream(reply),
                Flow::Stored(reply) => PhaseDecision::Stored(reply),
                Flow::Wait(future) => in_time(phase, future).await?,
            }
        };
        let reply = match decision {
            PhaseDecision::Continue => return Ok(None),
            PhaseDecision::Reply(reply) => *exchange.begun_reply.end_with(reply),
            PhaseDecision::Stream(reply) => reply.head,
            PhaseDecision::Stored(_) => bail!("the phase {} answers with a stored response", phase.name()),
        };
        Ok(Some(parts_of(reply)))
    }

    fn edit_request_body(&self, exchange: &mut Exchange, body: &mut Vec<u8>, phases: &mut Vec<PhaseRecord>) {
        if self.plugin.wants_request_body(exchange) == BodyNeed::Stream {
            let before = body.clone();
            self.plugin.request_body(exchange, body, Portion::Last);
            let changes = body_change(&before, body);
            phases.push(PhaseRecord { phase: PluginPhase::RequestBody.name(), changes });
        } else if let Some(prefix) = exchange.body.prefix() {
            // A plugin that has read the body may have put another one in its place.
            *body = prefix.bytes.to_vec();
        }
    }

    async fn response(
        &self,
        exchange: &mut Exchange,
        body: &mut Vec<u8>,
        phases: &mut Vec<PhaseRecord>,
    ) -> anyhow::Result<()> {
        if self.phases.contains(&PluginPhase::ResponseHead) {
            let before = heads(exchange);
            if let ResponseStep::Wait(future) = self.plugin.response_head(exchange) {
                in_time(PluginPhase::ResponseHead, future).await?;
            }
            let changes = differences(&before, &heads(exchange));
            phases.push(PhaseRecord { phase: PluginPhase::ResponseHead.name(), changes });
        }
        let wants = self.phases.contains(&PluginPhase::ResponseBody)
            && matches!(
                self.plugin.wants_response_body(exchange),
                BodyNeed::Stream | BodyNeed::Buffer { .. }
            );
        if wants {
            let before = body.clone();
            if let ResponseStep::Wait(future) = self.plugin.response_body(exchange, body, Portion::Last) {
                in_time(PluginPhase::ResponseBody, future).await?;
            }
            let changes = body_change(&before, body);
            phases.push(PhaseRecord { phase: PluginPhase::ResponseBody.name(), changes });
        }
        if self.phases.contains(&PluginPhase::BeforeLog) {
            self.plugin.request_ended(exchange);
            self.plugin.before_log(exchange);
        }
        if self.phases.contains(&PluginPhase::Log) {
            self.plugin.log(exchange);
            if let Some(task) = self.plugin.log_task(exchange) {
                in_time(PluginPhase::Log, task).await?;
            }
            phases.push(PhaseRecord { phase: PluginPhase::Log.name(), changes: Vec::new() });
        }
        Ok(())
    }
}

fn parts_of(reply: BufferedReply) -> ReplyParts {
    let fields = reply.headers.into_iter().map(|(name, value)| (name.into_owned(), value)).collect();
    (reply.status, fields, reply.body.into_owned())
}

async fn in_time<T>(phase: PluginPhase, future: impl Future<Output = T>) -> anyhow::Result<T> {
    let limit = Duration::from_millis(PHASE_WAIT_MS);
    let ended = tokio::time::timeout(limit, future).await;
    ended.with_context(|| format!("the phase {} has not ended after {PHASE_WAIT_MS} ms", phase.name()))
}

fn set_response(exchange: &mut Exchange, status: u16, fields: &[(String, String)]) -> anyhow::Result<()> {
    let is_field = |(name, value): &(String, String)| {
        !name.is_empty()
            && name.bytes().all(|byte| byte.is_ascii_graphic() && byte != b':')
            && !value.bytes().any(|byte| byte.is_ascii_control())
    };
    if let Some((name, value)) = fields.iter().find(|field| !is_field(field)) {
        bail!("`{name}: {value}` is no field of a response");
    }
    let fields: Vec<(&str, &str)> = fields.iter().map(|(name, value)| (&**name, &**value)).collect();
    respond(exchange, status, &fields);
    Ok(())
}

fn sorted(fields: &BTreeMap<String, String>) -> Vec<(String, String)> {
    fields.iter().map(|(name, value)| (name.clone(), value.clone())).collect()
}

fn target(exchange: &Exchange) -> (String, String) {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (text(exchange.forward_path()), text(exchange.forward_query().unwrap_or_default()))
}

fn heads(exchange: &Exchange) -> Heads {
    let (path, query) = target(exchange);
    let query = if query.is_empty() { query } else { format!("?{query}") };
    Heads {
        target: format!("{path}{query}"),
        request: lines(&exchange.request.headers),
        status: exchange.response.status,
        response: lines(&exchange.response.headers),
    }
}

fn differences(before: &Heads, after: &Heads) -> Vec<String> {
    let mut changes = Vec::new();
    if before.target != after.target {
        changes.push(format!("request target {} -> {}", before.target, after.target));
    }
    list_changes("request", &before.request, &after.request, &mut changes);
    if before.status != after.status && before.status != 0 {
        changes.push(format!("response status {} -> {}", before.status, after.status));
    }
    list_changes("response", &before.response, &after.response, &mut changes);
    changes
}

fn list_changes(of: &str, before: &[String], after: &[String], changes: &mut Vec<String>) {
    let gone = before.iter().filter(|line| !after.contains(line));
    changes.extend(gone.map(|line| format!("{of} - {line}")));
    let new = after.iter().filter(|line| !before.contains(line));
    changes.extend(new.map(|line| format!("{of} + {line}")));
}

fn body_change(before: &[u8], after: &[u8]) -> Vec<String> {
    if before == after {
        return Vec::new();
    }
    let shown: String = String::from_utf8_lossy(after).chars().take(BODY_CHARS_SHOWN).collect();
    vec![format!("body of {} bytes -> {} bytes: {shown:?}", before.len(), after.len())]
}

/// Characters of a changed body that are shown.
const BODY_CHARS_SHOWN: usize = 200;
