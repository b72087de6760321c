//! A compiled model with its policy. It knows no request.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::task::{Context, Poll, Waker};

use casbin::{CoreApi, DefaultModel, Enforcer, Model, StringAdapter};

use super::bounds::{check_matchers, check_values};

/// Lines of a policy that are evaluated on the worker: one takes a few microseconds.
const QUICK_LINES_MAX: usize = 64;
/// Functions of matchers that compile a pattern or, with `eval`, an expression for each line.
const SLOW_FUNCTIONS: [&str; 9] = [
    "regexMatch",
    "keyMatch2",
    "keyMatch3",
    "keyMatch4",
    "keyMatch5",
    "keyGet2",
    "keyGet3",
    "globMatch",
    "eval(",
];
/// The effects that Casbin knows, as it writes them.
const EFFECTS: [&str; 4] = [
    "some(where (p_eft == allow))",
    "!some(where (p_eft == deny))",
    "some(where (p_eft == allow)) && !some(where (p_eft == deny))",
    "priority(p_eft) || deny",
];

/// See the module.
pub(super) struct CasbinPolicy {
    enforcer: Enforcer,
    is_quick: bool,
}

/// The values that are decided on.
pub(super) struct CasbinRequest {
    pub(super) subject: String,
    pub(super) object: String,
    pub(super) action: String,
}

impl CasbinPolicy {
    /// Compiles the texts of a model and a policy.
    ///
    /// # Errors
    /// The fault of the model or of a policy line. The sentence quotes neither, because they may come from
    /// files.
    pub(super) fn compile(model: &str, policy: &str) -> Result<CasbinPolicy, String> {
        let model = ready(DefaultModel::from_str(model))?
            .map_err(|_| "model: it is no model of Casbin".to_owned())?;
        check_model(&model)?;
        let are_evaluated = check_matchers(&model)?;
        let mut lines = 0;
        for (index, line) in policy.lines().enumerate() {
            let line = line.trim();
            if !line.is_empty() && !line.starts_with('#') {
                let at = |fault| format!("policy: line {}: {fault}", index + 1);
                check_line(&model, line).map_err(at)?;
                check_values(line, are_evaluated).map_err(at)?;
                lines += 1;
            }
        }
        let matcher = assertion(&model, "m").map(|matcher| matcher.value.clone()).unwrap_or_default();
        let is_slow = SLOW_FUNCTIONS.iter().any(|function| matcher.contains(function));
        let enforcer = guarded(|| {
            ready(Enforcer::new(model, StringAdapter::new(policy)))?.map_err(|error| error.to_string())
        });
        let policy = CasbinPolicy {
            enforcer: enforcer.map_err(|_| "model: it cannot be compiled, perhaps its matcher".to_owned())?,
            is_quick: !is_slow && lines <= QUICK_LINES_MAX,
        };
        let question =
            CasbinRequest { subject: "a".to_owned(), object: "/".to_owned(), action: "GET".to_owned() };
        policy.allows(&question).map_err(|_| {
            "model: its matcher cannot be evaluated; it may name r.*, p.* and functions of Casbin".to_owned()
        })?;
        Ok(policy)
    }

    /// Whether it may be evaluated on a worker.
    pub(super) fn is_quick(&self) -> bool {
        self.is_quick
    }

    /// Whether the policy lets a request pass.
    ///
    /// # Errors
    /// The policy cannot be evaluated, in words.
    pub(super) fn allows(&self, question: &CasbinRequest) -> Result<bool, String> {
        let values = (&*question.subject, &*question.object, &*question.action);
        guarded(|| self.enforcer.enforce(values).map_err(|error| error.to_string()))
    }
}

fn assertion<'m>(model: &'m DefaultModel, name: &str) -> Option<&'m casbin::Assertion> {
    let section = name.get(..1)?;
    model.get_model().get(section)?.get(name)
}

/// The parts that evaluation relies on, and panics without.
fn check_model(model: &DefaultModel) -> Result<(), String> {
    match assertion(model, "r") {
        Some(request) if request.tokens.len() == 3 => {}
        _ => {
            return Err(
                "model: [request_definition] has to be `r` with three values: r = sub, obj, act".to_owned()
            );
        }
    }
    let has = |name: &str, section: &str| {
        assertion(model, name).map(drop).ok_or_else(|| format!("model: there is no `{name}` in [{section}]"))
    };
    has("p", "policy_definition")?;
    has("m", "matchers")?;
    has("e", "policy_effect")?;
    let effect = assertion(model, "e").map(|effect| &*effect.value).unwrap_or_default();
    if !EFFECTS.contains(&effect) {
        let known = EFFECTS.map(|effect| effect.replace('_', ".")).join("; ");
        return Err(format!("model: [policy_effect] is none of {known}"));
    }
    Ok(())
}

/// A line that the model does not define would be left out, and could be one that denies.
fn check_line(model: &DefaultModel, line: &str) -> Result<(), String> {
    let values = line.split(',').count() - 1;
    let name = line.split(',').next().unwrap_or_default().trim();
    let known = ["p", "g"].into_iter().any(|section| name.starts_with(section));
    let Some(definition) = assertion(model, name).filter(|_| known) else {
        return Err("the model does not define its first word".to_owned());
    };
    let wanted = definition.tokens.len();
    // A value in quotes may hold commas.
    if name.starts_with('p') && values != wanted && !line.contains('"') {
        return Err(format!("it has {values} values, and the model defines {wanted}"));
    }
    Ok(())
}

/// The library panics where a pattern of a policy is malformed.
fn guarded<T>(work: impl FnOnce() -> Result<T, String>) -> Result<T, String> {
    let caught = catch_unwind(AssertUnwindSafe(work));
    caught.unwrap_or_else(|_| {
        Err("the evaluation panicked; a pattern of the policy may be malformed".to_owned())
    })
}

/// The result of a future that waits for nothing: the library has asynchronous readers, and these read
/// memory.
fn ready<T>(work: impl Future<Output = T>) -> Result<T, String> {
    let mut work = pin!(work);
    for _ in 0..POLLS_MAX {
        if let Poll::Ready(result) = work.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            return Ok(result);
        }
    }
    Err("the text cannot be read at once".to_owned())
}

/// A runtime around it may make a future yield now and then.
const POLLS_MAX: usize = 10_000;
