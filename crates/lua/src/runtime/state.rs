//! The state that the functions of one interpreter share: the request or session that is lent to them, the
//! call that runs, and the step that it waits for. It holds no strong reference to the interpreter, so that
//! an interpreter that is replaced is freed.

use std::cell::{Cell, RefCell};
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;

use exchange::Exchange;
use exchange::plugin::stream::StreamSession;
use mlua::{Error, MultiValue};
use router::vars::Variable;
use stdx::hash::FastMap;
use stdx::lent::Lent;

use super::call::ProgramCall;
use super::limits::VARIABLES_MAX;
use crate::budget::CallBudget;
use crate::ngx::{FieldNames, Sockets};

/// A step that a coroutine waits for; its values are the results of the function that waits.
pub(crate) type PendingOperation = Pin<Box<dyn Future<Output = mlua::Result<MultiValue>>>>;

/// Variables by name, parsed once; none for a name that is no variable.
type Variables = FastMap<Box<[u8]>, Option<Rc<Variable>>>;

/// See the module.
pub(crate) struct InterpreterState {
    pub(crate) budget: Rc<CallBudget>,
    exchange: Lent<Exchange>,
    session: Lent<StreamSession>,
    call: RefCell<Option<Rc<ProgramCall>>>,
    operation: RefCell<Option<PendingOperation>>,
    variables: RefCell<Variables>,
    pub(crate) field_names: FieldNames,
    /// Timers that wait or run.
    pub(crate) timers: Cell<usize>,
    /// Sockets and their destinations.
    pub(crate) sockets: Rc<Sockets>,
}

impl InterpreterState {
    pub(crate) fn new(budget: Rc<CallBudget>) -> InterpreterState {
        InterpreterState {
            budget,
            exchange: Lent::default(),
            session: Lent::default(),
            call: RefCell::default(),
            operation: RefCell::default(),
            variables: RefCell::default(),
            field_names: FieldNames::default(),
            timers: Cell::new(0),
            sockets: Rc::default(),
        }
    }

    /// Runs `work` as a part of `call`, with the request or session within reach of functions.
    pub(super) fn enter<R>(
        &self,
        call: &Rc<ProgramCall>,
        lent: &mut Reach<'_>,
        work: impl FnOnce() -> R,
    ) -> R {
        let former = self.call.replace(Some(call.clone()));
        let begun = call.steps_left.get().min(crate::budget::STEPS_MAX);
        let (result, steps) = self.budget.run(begun, || {
            let result = match lent {
                Reach::Edit(exchange) => self.exchange.lend(exchange, work),
                Reach::Read(exchange) => self.exchange.lend_shared(exchange, work),
                Reach::EditSession(session) => self.session.lend(session, work),
                Reach::ReadSession(session) => self.session.lend_shared(session, work),
                Reach::None => work(),
            };
            // Many short parts between waits would never be counted otherwise.
            let waits = self.operation.borrow().is_some();
            (result, if waits { self.budget.uncharged_steps() } else { 0 })
        });
        let steps = steps.max(begun - self.budget.left());
        call.steps_left.set(call.steps_left.get().saturating_sub(steps));
        *self.call.borrow_mut() = former;
        result
    }

    /// Reads the request of the call.
    ///
    /// # Errors
    /// The call belongs to no request.
    pub(crate) fn read<R>(&self, work: impl FnOnce(&Exchange) -> R) -> mlua::Result<R> {
        self.exchange.read(work).ok_or_else(|| self.no_request("no request found"))
    }

    /// Changes the request of the call.
    ///
    /// # Errors
    /// The call belongs to no request, or to one that has ended.
    pub(crate) fn edit<R>(&self, work: impl FnOnce(&mut Exchange) -> R) -> mlua::Result<R> {
        self.exchange.with(work).ok_or_else(|| self.no_request("API disabled in the current context"))
    }

    fn no_request(&self, reason: &'static str) -> Error {
        match self.read_session(|_| ()) {
            Some(()) => Error::runtime("not available in sessions of layer 4, which have no request"),
            None => Error::runtime(reason),
        }
    }

    /// Reads the session of the call; none if it belongs to none.
    pub(crate) fn read_session<R>(&self, work: impl FnOnce(&StreamSession) -> R) -> Option<R> {
        self.session.read(work)
    }

    /// Changes the session of the call; none if it belongs to none, or to one that has ended.
    pub(crate) fn edit_session<R>(&self, work: impl FnOnce(&mut StreamSession) -> R) -> Option<R> {
        self.session.with(work)
    }

    /// Whether a call runs.
    pub(super) fn is_running(&self) -> bool {
        self.call.borrow().is_some()
    }

    /// The call that runs.
    ///
    /// # Errors
    /// None runs: the code is being loaded.
    pub(crate) fn call(&self) -> mlua::Result<Rc<ProgramCall>> {
        self.call
            .borrow()
            .clone()
            .ok_or_else(|| Error::runtime("API disabled in the context of init_by_lua*"))
    }

    /// Lets the coroutine that yields next wait for `operation`.
    ///
    /// # Errors
    /// The call may not wait.
    pub(crate) fn wait(
        &self,
        operation: impl Future<Output = mlua::Result<MultiValue>> + 'static,
    ) -> mlua::Result<()> {
        self.may_wait()?;
        *self.operation.borrow_mut() = Some(Box::pin(operation));
        Ok(())
    }

    /// Fails where the present call may not wait.
    ///
    /// # Errors
    /// As said.
    pub(crate) fn may_wait(&self) -> mlua::Result<()> {
        let call = self.call()?;
        match call.may_wait {
            true => Ok(()),
            false => Err(Error::runtime(format!("API disabled in the context of {}", call.phase))),
        }
    }

    /// The operation that was begun last.
    pub(super) fn take_operation(&self) -> Option<PendingOperation> {
        self.operation.borrow_mut().take()
    }

    /// The variable `name`; none if there is no such name.
    pub(crate) fn variable(&self, name: &[u8]) -> Option<Rc<Variable>> {
        let mut variables = self.variables.borrow_mut();
        if let Some(known) = variables.get(name) {
            return known.clone();
        }
        if variables.len() >= VARIABLES_MAX {
            variables.clear();
        }
        let parsed = str::from_utf8(name).ok().and_then(|name| Variable::parse(name).ok()).map(Rc::new);
        variables.insert(name.into(), parsed.clone());
        parsed
    }
}

/// The request or session of a call, as far as its phase reaches it.
pub(crate) enum Reach<'a> {
    Edit(&'a mut Exchange),
    Read(&'a Exchange),
    EditSession(&'a mut StreamSession),
    ReadSession(&'a StreamSession),
    None,
}
