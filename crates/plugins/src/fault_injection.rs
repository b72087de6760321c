//! # fault-injection
//!
//! Delays requests and answers them in place of the upstream, to test how clients deal with slow and failing
//! services.
//!
//! ```json
//! {
//!   "delay": { "duration": 0.5, "percentage": 50 },
//!   "abort": {
//!     "http_status": 503,
//!     "body": "no answer for $remote_addr",
//!     "headers": { "X-Fault": "injected" },
//!     "percentage": 10,
//!     "vars": [[["arg_name", "==", "jack"]]]
//!   }
//! }
//! ```
//!
//! **`delay`** makes a request wait for `duration` seconds, below 60, before anything else is decided about
//! it; no worker waits. **`abort`** then answers with `http_status`, `body` and `headers`; the body and
//! values of `headers` may hold variables. A value that is not valid in a field, such as one with a line
//! break from a variable, leaves the field out.
//!
//! Each of the two applies to `percentage` percent of the requests, drawn at random for each request and each
//! of the two; without it to all. With `vars` it applies only if one of the listed
//! [expressions](../../guide/routing.md#expressions) holds; an empty list holds for no request.
//!
//! The plugin runs before authentication and before every plugin of the route with a lower priority.

use std::sync::Arc;

use exchange::Exchange;
use exchange::plugin::{
    BufferedReply, Build, Explained, Flow, PHASE_WAIT_MS, PhaseDecision, Plugin, PluginKind, PluginPhase,
};
use net::env;
use router::vars::{Expression, Template};
use serde_json::{Map, Value};

use crate::shared::attributes::{Attribute, attributes};
use crate::shared::reply_fields::ReplyFields;
use crate::shared::{config, expression};

/// The plugin.
pub(crate) const KIND: PluginKind =
    PluginKind::new("fault-injection", 11000, &[PluginPhase::Rewrite], FaultInjectionConfig::schema, build)
        .checked(|config| compile(config).map(drop))
        .documented(include_str!("fault_injection.rs"));

attributes! {
    struct FaultInjectionConfig {
        /// Answers requests in place of the upstream.
        abort: Option<WrittenAbort>;
        /// Makes requests wait.
        delay: Option<WrittenDelay>;
    }
    { "minProperties": 1 }
}

attributes! {
    struct WrittenAbort {
        /// The status of the response.
        http_status: u16, { "minimum": 200 };
        /// The body of the response, with variables.
        body: Option<String>, { "minLength": 0 };
        /// Fields of the response, with variables in their values.
        headers: Option<Map<String, Value>>, {
            "minProperties": 1,
            "patternProperties": { "^[^:]+$": { "oneOf": [{ "type": "string" }, { "type": "number" }] } },
        };
        /// The percentage of requests that are answered; all by default.
        percentage: Option<u64>, { "minimum": 0, "maximum": 100 };
        /// Expressions over variables, one of which has to hold.
        vars: Option<Vec<Value>>, { "maxItems": 20, "items": { "type": "array" } };
    }
}

attributes! {
    struct WrittenDelay {
        /// How many seconds a request waits.
        duration: f64, { "minimum": 0 };
        /// The percentage of requests that wait; all by default.
        percentage: Option<u64>, { "minimum": 0, "maximum": 100 };
        /// Expressions over variables, one of which has to hold.
        vars: Option<Vec<Value>>, { "maxItems": 20, "items": { "type": "array" } };
    }
}

/// The compiled plugin.
struct FaultInjection {
    abort: Option<Abort>,
    delay: Option<Delay>,
}

struct Abort {
    sample: Sample,
    status: u16,
    fields: ReplyFields,
    body: Template,
}

struct Delay {
    sample: Sample,
    duration_ms: u64,
}

/// The requests that a fault applies to.
struct Sample {
    percentage: Option<u64>,
    /// One of these has to hold, if there is a list.
    conditions: Option<Box<[Expression]>>,
}

fn build(_build: &Build<'_>, config: &Value) -> Result<Arc<dyn Plugin>, String> {
    compile(config).map(|plugin| Arc::new(plugin) as Arc<dyn Plugin>)
}

fn compile(config: &Value) -> Result<FaultInjection, String> {
    let config: FaultInjectionConfig = config::parse_config(config)?;
    let abort = config.abort.as_ref().map(Abort::compile).transpose();
    let delay = config.delay.as_ref().map(Delay::compile).transpose();
    Ok(FaultInjection {
        abort: abort.map_err(|reason| format!("abort: {reason}"))?,
        delay: delay.map_err(|reason| format!("delay: {reason}"))?,
    })
}

impl Abort {
    fn compile(written: &WrittenAbort) -> Result<Abort, String> {
        if written.http_status > 999 {
            return Err(format!("http_status {} is no status: 200 to 999 are", written.http_status));
        }
        let body = written.body.as_deref().unwrap_or_default();
        let headers = written.headers.iter().flatten().map(|(name, value)| (&**name, value));
        Ok(Abort {
            sample: Sample::compile(written.percentage, written.vars.as_deref())?,
            status: written.http_status,
            fields: ReplyFields::compile("headers", headers)?,
            body: Template::compile(body).map_err(|error| format!("body: {error}"))?,
        })
    }

    fn reply(&self, exchange: &Exchange) -> BufferedReply {
        let reply = self.fields.add_to(exchange, BufferedReply::status(self.status));
        let mut body = Vec::new();
        self.body.render(exchange, &mut body);
        reply.with_body(body)
    }
}

impl Delay {
    fn compile(written: &WrittenDelay) -> Result<Delay, String> {
        let duration_ms = (written.duration * 1_000.0).round();
        // One plugin may wait no longer than this in a phase.
        if duration_ms >= PHASE_WAIT_MS as f64 {
            let max = PHASE_WAIT_MS / 1_000;
            return Err(format!(
                "duration {} is too long: a request may wait for less than {max} s",
                written.duration
            ));
        }
        let sample = Sample::compile(written.percentage, written.vars.as_deref())?;
        Ok(Delay { sample, duration_ms: duration_ms as u64 })
    }
}

impl Sample {
    fn compile(percentage: Option<u64>, vars: Option<&[Value]>) -> Result<Sample, String> {
        let compile = |one: &Value| expression::compile_expression("vars", one);
        let conditions = vars.map(|all| all.iter().map(compile).collect()).transpose()?;
        Ok(Sample { percentage, conditions })
    }

    /// Whether one of the conditions holds.
    fn matches(&self, exchange: &Exchange) -> bool {
        self.conditions.as_ref().is_none_or(|all| all.iter().any(|one| one.evaluate(exchange)))
    }

    /// Draws whether the request is one of the percentage.
    fn is_drawn(&self) -> bool {
        self.percentage.is_none_or(|percentage| fastrand::u64(1..=100) <= percentage)
    }
}

impl Plugin for FaultInjection {
    fn rewrite<'a>(&'a self, exchange: &'a mut Exchange) -> Flow<'a> {
        let abort = self.abort.as_ref().filter(|abort| abort.sample.matches(exchange));
        let abort = abort.filter(|abort| abort.sample.is_drawn());
        let delay =
            self.delay.as_ref().filter(|delay| delay.sample.matches(exchange) && delay.sample.is_drawn());
        let Some(Delay { duration_ms, .. }) = delay.filter(|delay| delay.duration_ms > 0) else {
            return abort.map_or(Flow::Continue, |abort| Flow::reply(abort.reply(exchange)));
        };
        Flow::Wait(Box::pin(async move {
            env::sleep_ms(*duration_ms).await;
            abort.map_or(PhaseDecision::Continue, |abort| {
                PhaseDecision::Reply(Box::new(abort.reply(exchange)))
            })
        }))
    }

    fn explain(&self, exchange: &mut Exchange, _: PluginPhase) -> Explained {
        let abort = self.abort.as_ref().filter(|abort| abort.sample.matches(exchange));
        let delay = self.delay.as_ref().filter(|delay| delay.sample.matches(exchange));
        let delayed = delay.map(|delay| {
            let share = delay.sample.percentage.unwrap_or(100);
            format!("delays {share} % of these requests by {} ms", delay.duration_ms)
        });
        let explained = match abort {
            Some(abort) if abort.sample.percentage.is_none_or(|share| share >= 100) => {
                Explained::replies(&abort.reply(exchange))
            }
            Some(abort) => {
                let share = abort.sample.percentage.unwrap_or(100);
                return Explained::unknown(format!(
                    "answers {share} % of these requests with {}",
                    abort.status
                ));
            }
            None if delay.is_none() => return Explained::passes(),
            None => return Explained::changes(delayed.unwrap_or_default()),
        };
        match delayed {
            Some(delayed) => explained.because(delayed),
            None => explained,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use exchange::testing::configuration_check;
    use gateway::testing::Scene;
    use model::catalog::SchemaType;
    use serde_json::json;

    use super::*;

    #[test]
    fn configurations() {
        let check = configuration_check(&KIND);
        let abort = |fields: Value| {
            let mut abort = json!({ "http_status": 403 });
            abort.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
            json!({ "abort": abort })
        };
        check(abort(json!({ "body": "", "percentage": 0, "headers": { "A": "$uri", "B": 1.5 } })), None);
        check(
            abort(
                json!({ "vars": [[["arg_a", "==", "1"]], ["OR", ["uri", "==", "/"], ["uri", "==", "/a"]]] }),
            ),
            None,
        );
        check(json!({ "delay": { "duration": 59.9, "vars": [] } }), None);
        check(json!({ "delay": { "duration": 0 }, "abort": { "http_status": 200 } }), None);
        check(json!({}), Some("expect object to have at least 1 properties"));
        check(json!({ "abort": {} }), Some("property \"http_status\" is required"));
        check(json!({ "delay": {} }), Some("property \"duration\" is required"));
        check(abort(json!({ "http_status": 100 })), Some("http_status"));
        check(abort(json!({ "http_status": 1000 })), Some("1000 is no status"));
        check(abort(json!({ "percentage": 101 })), Some("percentage"));
        check(abort(json!({ "headers": {} })), Some("headers"));
        check(abort(json!({ "headers": { "A": "b\n" } })), Some("character"));
        check(abort(json!({ "headers": { "A b": "c" } })), Some("character"));
        check(abort(json!({ "body": "${" })), Some("abort: body"));
        check(
            abort(json!({ "vars": [["arg_a", "==", "1"]] })),
            Some("failed to validate the 'vars' expression"),
        );
        check(json!({ "delay": { "duration": "2" } }), Some("wrong type: expected number, got string"));
        check(json!({ "delay": { "duration": -1 } }), Some("duration"));
        check(json!({ "delay": { "duration": 60 } }), Some("less than 60 s"));
    }

    fn ask(config: Value, target: &str) -> gateway::testing::Outcome {
        let request = format!("GET {target} HTTP/1.1\r\nHost: h\r\n\r\n");
        Scene::with_plugins(&[&KIND], &json!({ "fault-injection": config })).run(&request)
    }

    #[test]
    fn abort_replies_with_variables() {
        let headers = json!({ "X-Path": "$uri", "X-Number": 7, "X-Bad": "$arg_bad\n" });
        let refused = json!({ "abort": { "http_status": 403, "headers": headers } });
        assert!(exchange::testing::accepts(&KIND, SchemaType::Plugin, &refused).is_err());
        let headers = json!({ "X-Path": "$uri", "X-Number": 7, "X-None": "${arg_none ?? nothing}" });
        let config =
            json!({ "abort": { "http_status": 403, "body": "for $remote_addr\n", "headers": headers } });
        let outcome = ask(config, "/a");
        assert_eq!((outcome.status, &*outcome.body), (403, "for 127.0.0.1\n"));
        let field = |name| outcome.field(name);
        assert_eq!(
            [field("x-path"), field("x-number"), field("x-none")],
            [Some("/a"), Some("7"), Some("nothing")]
        );
    }

    #[test]
    fn line_break_of_a_variable_leaves_the_field_out() {
        let headers = json!({ "X-Body": "$request_body", "X-Other": "a" });
        let config = json!({ "fault-injection": { "abort": { "http_status": 403, "headers": headers } } });
        let request = "POST / HTTP/1.1\r\nHost: h\r\n\r\na\r\nX-Forged: 1";
        let outcome = Scene::with_plugins(&[&KIND], &config).run(request);
        assert_eq!((outcome.field("x-body"), outcome.field("x-forged")), (None, None));
        assert_eq!((outcome.status, outcome.field("x-other")), (403, Some("a")));
    }

    #[test]
    fn conditions_and_percentage_decide() {
        let abort = |more: Value| {
            let mut abort = json!({ "http_status": 403 });
            abort.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            json!({ "abort": abort })
        };
        let jack = json!({ "vars": [[["arg_name", "==", "jack"], ["arg_age", "!", "<", 18]], [["arg_b", "==", "1"]]] });
        let check = |more: &Value, target: &str, expected: u16| {
            assert_eq!(ask(abort(more.clone()), target).status, expected, "{more} {target}");
        };
        // 502: the upstream of the scene is never reachable.
        check(&jack, "/?name=jack&age=20", 403);
        check(&jack, "/?name=jack&age=17", 502);
        check(&jack, "/?b=1", 403);
        check(&json!({ "vars": [] }), "/", 502);
        check(&json!({ "percentage": 0 }), "/", 502);
        check(&json!({ "percentage": 100 }), "/", 403);
    }

    #[test]
    fn percentage_is_drawn_for_each_request() {
        fastrand::seed(7);
        let sample = Sample { percentage: Some(30), conditions: None };
        let drawn = (0..10_000).filter(|_| sample.is_drawn()).count();
        assert!((2_800..3_200).contains(&drawn), "{drawn}");
    }

    #[test]
    fn delay_holds_request_before_it_is_answered() {
        let began = Instant::now();
        let outcome = ask(json!({ "delay": { "duration": 0.05 }, "abort": { "http_status": 418 } }), "/");
        assert_eq!(outcome.status, 418);
        assert!(began.elapsed().as_millis() >= 50, "{:?}", began.elapsed());
    }
}
