//! # workflow
//!
//! Runs an action for the requests that meet a condition: refuses them, or limits them with limits of their
//! own.
//!
//! ```json
//! {
//!   "rules": [
//!     { "case": [["uri", "==", "/internal"]], "actions": [["return", { "code": 403 }]] },
//!     {
//!       "case": ["OR", ["http_x_plan", "==", "free"], ["arg_plan", "==", "free"]],
//!       "actions": [["limit-count", { "count": 10, "time_window": 60, "rejected_code": 429 }]]
//!     }
//!   ]
//! }
//! ```
//!
//! The rules are tried in their order, and the first one with a `case` that holds decides; `case` is an
//! [expression](../../guide/routing.md#expressions), and a rule without it holds for every request. Of its
//! `actions` the first one runs, as in APISIX; the others are checked only. Without a rule that holds the
//! request passes.
//!
//! | action | effect |
//! |---|---|
//! | `["return", {"code": 403}]` | answers with the status `code` (200 to 599) and `{"error_msg":"rejected by workflow"}` |
//! | `["limit-count", {…}]` | runs [limit-count](limit-count.md) with this configuration, without `group` |
//! | `["limit-conn", {…}]` | runs [limit-conn](limit-conn.md) with this configuration |
//!
//! Limits of different rules count apart. An instance of the same plugin on the route, the service, the
//! consumer or in a global rule does not run for a request for which an action ran it, so that no request
//! counts twice.

use std::sync::Arc;

use exchange::Exchange;
use exchange::plugin::chain::PluginInstance;
use exchange::plugin::{BufferedReply, Build, Flow, Plugin, PluginKind, PluginPhase, ResponseStep};
use model::PluginCatalog;
use model::catalog::SchemaType;
use model::check::UnknownFields;
use router::vars::Expression;
use serde_json::{Value, json};

use crate::shared::attributes::{Attribute, attributes};
use crate::shared::{config, expression};

/// The plugin.
pub(crate) const KIND: PluginKind = PluginKind::new(
    "workflow",
    1006,
    &[PluginPhase::Access, PluginPhase::ResponseHead, PluginPhase::Log],
    WorkflowConfig::schema,
    build,
)
.checked(check)
.with_parts(&PLUGINS)
.documented(include_str!("workflow.rs"));

/// The plugins that an action may run.
const PLUGINS: [&str; 2] = ["limit-count", "limit-conn"];

attributes! {
    struct WorkflowConfig {
        /// The rules; the first one that holds decides.
        rules: Vec<WorkflowRuleConfig>;
    }
}

attributes! {
    struct WorkflowRuleConfig {
        /// The condition; without it the rule holds for every request.
        case: Option<Value>, {
            "type": "array",
            "minItems": 1,
            "items": { "anyOf": [{ "type": "array" }, { "type": "string" }] },
        };
        /// The actions, each a name and a configuration; the first one runs.
        actions: Vec<WrittenAction>;
    }
}

/// An action as it is written: a name, and a configuration.
struct WrittenAction(Vec<Value>);

impl Attribute for WrittenAction {
    fn schema() -> Value {
        json!({ "type": "array", "minItems": 1 })
    }

    fn read(written: Value) -> Result<Self, String> {
        Vec::read(written).map(WrittenAction)
    }

    fn write(&self) -> Value {
        self.0.clone().into()
    }
}

/// The compiled plugin.
struct Workflow {
    rules: Box<[WorkflowRule]>,
}

struct WorkflowRule {
    case: Option<Expression>,
    action: WorkflowAction,
}

enum WorkflowAction {
    /// Answers.
    Return(BufferedReply),
    /// Runs a plugin; `None` is one that its `_meta` switches off.
    Run(Option<Arc<PluginInstance>>),
}

/// The rule that decided about a request.
#[derive(Default)]
struct Decided(Option<usize>);

fn check(config: &Value) -> Result<(), String> {
    let parsed: WorkflowConfig = config::parse_config(config)?;
    for rule in &parsed.rules {
        compile_case(rule)?;
        if rule.actions.is_empty() {
            return Err("a rule needs an action".to_owned());
        }
        for action in &rule.actions {
            check_action(action)?;
        }
    }
    Ok(())
}

fn compile_case(rule: &WorkflowRuleConfig) -> Result<Option<Expression>, String> {
    rule.case.as_ref().map(|case| expression::compile_expression("case", case)).transpose()
}

/// The name and the configuration of an action; nothing where none is written.
fn parts(action: &WrittenAction) -> (&Value, &Value) {
    const NOTHING: &Value = &Value::Null;
    (action.0.first().unwrap_or(NOTHING), action.0.get(1).unwrap_or(NOTHING))
}

fn check_action(action: &WrittenAction) -> Result<(), String> {
    let (name, config) = parts(action);
    let Some(name) = name.as_str() else { return Err(format!("unsupported action: {name}")) };
    let checked = match crate::ALL.iter().find(|kind| kind.name == name && PLUGINS.contains(&name)) {
        _ if name == "return" => code(config).map(drop),
        Some(kind) => check_plugin(kind, config),
        None => return Err(format!("unsupported action: {name}")),
    };
    checked.map_err(|reason| format!("failed to validate the '{name}' action: {reason}"))
}

/// The status of the action `return`.
fn code(config: &Value) -> Result<u16, String> {
    let Some(written) = config.get("code") else { return Err("property \"code\" is required".to_owned()) };
    let Some(code) = written.as_u64() else {
        let kind = if written.is_string() { "string" } else { "another type" };
        return Err(format!("property \"code\" validation failed: wrong type: expected integer, got {kind}"));
    };
    match u16::try_from(code) {
        // A status below 200 ends no exchange (RFC 9110 section 15.2).
        Ok(code @ 200..=599) => Ok(code),
        _ => Err(format!("property \"code\" validation failed: {code} is not a status from 200 to 599")),
    }
}

fn check_plugin(kind: &PluginKind, config: &Value) -> Result<(), String> {
    if !config.is_object() {
        return Err("a configuration is needed".to_owned());
    }
    if config.get("group").is_some() {
        return Err("group is not supported".to_owned());
    }
    let catalog = PluginCatalog::new(vec![kind.info()]).map_err(|error| error.to_string())?;
    let plugin = catalog.get(kind.name).ok_or("the plugin does not exist")?;
    let checked = plugin.check(SchemaType::Plugin, config, UnknownFields::Refuse);
    checked.faults.first().map_or(Ok(()), |fault| Err(fault.plugin_message()))
}

fn build(build: &Build<'_>, config: &Value) -> Result<Arc<dyn Plugin>, String> {
    let parsed: WorkflowConfig = config::parse_config(config)?;
    let rules = parsed.rules.iter().enumerate().map(|(index, rule)| {
        let action = rule.actions.first().ok_or("a rule needs an action")?;
        let (name, config) = parts(action);
        let action = match name.as_str() {
            Some("return") => WorkflowAction::Return(BufferedReply::json(
                code(config)?,
                &json!({ "error_msg": "rejected by workflow" }),
            )),
            Some(name) => WorkflowAction::Run(build.plugin(&format!("rules/{index}"), name, config)?),
            None => return Err("the name of an action is a text".to_owned()),
        };
        Ok(WorkflowRule { case: compile_case(rule)?, action })
    });
    Ok(Arc::new(Workflow { rules: rules.collect::<Result<_, String>>()? }))
}

impl Workflow {
    /// The plugin that ran for the request, if one did.
    fn ran(&self, exchange: &Exchange) -> Option<&Arc<PluginInstance>> {
        let rule = self.rules.get(exchange.peek_state::<Decided>()?.0?)?;
        match &rule.action {
            WorkflowAction::Run(instance) => instance.as_ref(),
            WorkflowAction::Return(_) => None,
        }
    }
}

impl Plugin for Workflow {
    fn access<'a>(&'a self, exchange: &'a mut Exchange) -> Flow<'a> {
        let holds = |rule: &&WorkflowRule| rule.case.as_ref().is_none_or(|case| case.evaluate(exchange));
        let found = self.rules.iter().enumerate().find(|(_, rule)| holds(rule));
        let Some((index, rule)) = found else { return Flow::Continue };
        match &rule.action {
            WorkflowAction::Return(reply) => Flow::reply(reply.clone()),
            WorkflowAction::Run(None) => Flow::Continue,
            WorkflowAction::Run(Some(instance)) => {
                exchange.state::<Decided>().0 = Some(index);
                exchange.skip_plugin(instance.name);
                Flow::Wait(Box::pin(instance.run(PluginPhase::Access, exchange)))
            }
        }
    }

    fn response_head<'a>(&'a self, exchange: &'a mut Exchange) -> ResponseStep<'a> {
        match self.ran(exchange) {
            Some(instance) => ResponseStep::Wait(Box::pin(instance.run_response_head(exchange))),
            None => ResponseStep::Done,
        }
    }

    fn log(&self, exchange: &Exchange) {
        if let Some(instance) = self.ran(exchange) {
            instance.run_log(exchange);
        }
    }
}

#[cfg(test)]
mod tests;
