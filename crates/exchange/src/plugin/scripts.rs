//! Scripts that stand in objects beside their plugins: the condition of a route, its script, and the function
//! before a plugin. The language is handed in with the services; this names none.

use std::any::Any;
use std::cell::RefCell;
use std::fmt::Debug;
use std::rc::Rc;
use std::sync::Arc;

use router::vars;
use serde_json::Value;

use super::build::Build;
use super::phase::Plugin;
use super::phase_name::PluginPhase;
use super::services::Services;
use crate::exchange::Exchange;

/// The reason where the program was built without the language.
pub const NO_SCRIPTS: &str = "this program was built without the feature `lua`";

/// Compiles scripts. Errors are sentences with the line.
pub trait Scripts: Send + Sync + 'static {
    /// The condition of the route in `owner` (`filter_func`).
    ///
    /// # Errors
    /// The source does not compile, or is no function.
    fn condition(
        &self,
        services: &Services,
        owner: &str,
        source: &str,
    ) -> Result<Arc<dyn RouteCondition>, String>;

    /// The script of a route, in place of its plugins (`script`), with the phases that it takes part in.
    ///
    /// # Errors
    /// The source does not compile, fails, or gives no table of functions.
    fn script(
        &self,
        build: &Build<'_>,
        source: &str,
    ) -> Result<(&'static [PluginPhase], Arc<dyn Plugin>), String>;

    /// `plugin`, of the kind `name`, with a function before each of its phases (`_meta.pre_function`).
    ///
    /// # Errors
    /// As for [`Scripts::condition`].
    fn before(
        &self,
        build: &Build<'_>,
        name: &'static str,
        config: &Value,
        source: &str,
        plugin: Arc<dyn Plugin>,
    ) -> Result<Arc<dyn Plugin>, String>;
}

/// Variables that code adds to those of requests.
pub trait AddedVariables {
    /// The value of `name`, if code has added it.
    fn value(&self, exchange: &Exchange, name: &str) -> Option<vars::Value<'static>>;
}

thread_local! {
    static ADDED: RefCell<Option<Rc<dyn AddedVariables>>> = const { RefCell::new(None) };
}

/// Lets `added` answer for variables that nothing else has, in requests of this thread.
pub fn answer_added_variables(added: Rc<dyn AddedVariables>) {
    ADDED.set(Some(added));
}

/// The value of a variable that code has added.
pub(crate) fn added_variable(exchange: &Exchange, name: &str) -> Option<vars::Value<'static>> {
    // Cloned, because a getter may add a variable.
    let added = ADDED.with_borrow(Option::clone)?;
    added.value(exchange, name)
}

/// A condition of a route that is code.
pub trait RouteCondition: Debug + Send + Sync + 'static {
    /// Whether it holds for the request; false where the code fails, which it logs and counts.
    fn holds(&self, exchange: &Exchange) -> bool;
}

/// A condition as the rules of the router hold it, which know no exchange.
#[derive(Debug)]
pub struct HeldCondition(pub Arc<dyn RouteCondition>);

/// Whether the condition of a rule holds; one of an unknown type does not.
pub(crate) fn holds(condition: &(dyn Any + Send + Sync), exchange: &Exchange) -> bool {
    condition.downcast_ref::<HeldCondition>().is_some_and(|held| held.0.holds(exchange))
}
