//! One instance of a guest: its store, and its callbacks, each with the time that it may take. It knows no
//! worker and no plugin phase.

use std::sync::Arc;

use wasmtime::{CallHook, Store, Trap, TypedFunc, UpdateDeadline, WasmParams, WasmResults};

use crate::abi::Pairs;
use crate::exports::{Exports, HeadCallback};
use crate::fault::GuestFault;
use crate::fields::MessageKind;
use crate::host::{CallKind, CallbackData, CpuBudget, Host, ResponseDelivery, Root, StreamContext};
use crate::limits::{CALL_CPU_MS, CONTEXTS_MAX, ROOTS_MAX, START_CPU_MS};
use crate::module::CompiledModule;

/// See the module.
pub(crate) struct Vm {
    store: Store<Host>,
    exports: Exports,
    last_context: u32,
    has_started: bool,
}

/// The answer of a guest to a part of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum GuestAction {
    /// It goes on.
    Continue,
    /// It is held until the guest continues it.
    Pause,
    /// The part is not sent and not held.
    Drop,
}

impl GuestAction {
    /// Of a head: every number but 0 and 2 holds it, as in Envoy.
    fn of_head(number: i32) -> GuestAction {
        if matches!(number, 0 | 2) { GuestAction::Continue } else { GuestAction::Pause }
    }

    fn of_session(number: i32) -> GuestAction {
        if number == 0 { GuestAction::Continue } else { GuestAction::Pause }
    }

    fn of_body(number: i32) -> GuestAction {
        match number {
            0 => GuestAction::Continue,
            3 => GuestAction::Drop,
            _ => GuestAction::Pause,
        }
    }
}

impl Vm {
    /// Makes an instance and runs the code with which the compiler of the guest begins.
    pub(crate) fn start(module: &CompiledModule, host: Host) -> Result<Vm, GuestFault> {
        let mut store = Store::new(module.pre.module().engine(), host);
        store.limiter(|host| &mut host.limits);
        store.epoch_deadline_callback(|mut context| {
            // Processor time counts, because the thread may not have run since the last tick.
            let is_over = context.data_mut().budget.is_over(stdx::clock::thread_cpu_ns());
            Ok(if is_over { UpdateDeadline::Interrupt } else { UpdateDeadline::Continue(1) })
        });
        store.call_hook(|mut context, hook| {
            let is_host = matches!(hook, CallHook::CallingHost);
            if is_host && !context.data_mut().budget.allows_host_call(stdx::clock::thread_cpu_ns) {
                return Err(Trap::Interrupt.into());
            }
            Ok(())
        });
        allow(&mut store, START_CPU_MS);
        let instance = match module.pre.instantiate(&mut store) {
            Ok(instance) => instance,
            Err(error) => return Err(GuestFault::of_trap(&error, store.data())),
        };
        let abi = store.data().identity.abi;
        let exports = Exports::of(&instance, &mut store, abi)
            .map_err(|reason| GuestFault::new("not_proxy_wasm", reason))?;
        let host = store.data_mut();
        host.memory = Some(exports.memory);
        host.allocate.clone_from(&exports.allocate);
        let mut vm = Vm { store, exports, last_context: 0, has_started: false };
        match (vm.exports.initialize.clone(), vm.exports.start.clone(), vm.exports.main.clone()) {
            (Some(initialize), _, main) => {
                vm.call(&initialize, (), 0, START_CPU_MS)?;
                if let Some(main) = main {
                    vm.call(&main, (0, 0), 0, START_CPU_MS)?;
                }
            }
            (None, Some(start), _) => vm.call(&start, (), 0, START_CPU_MS)?,
            (None, None, _) => {}
        }
        Ok(vm)
    }

    /// The state of the host.
    pub(crate) fn host(&mut self) -> &mut Host {
        self.store.data_mut()
    }

    /// The functions of the guest.
    pub(crate) fn exports(&self) -> &Exports {
        &self.exports
    }

    fn call<P: WasmParams, R: WasmResults>(
        &mut self,
        function: &TypedFunc<P, R>,
        parameters: P,
        context: u32,
        limit_ms: u64,
    ) -> Result<R, GuestFault> {
        self.store.data_mut().current = context;
        allow(&mut self.store, limit_ms);
        let result = function.call(&mut self.store, parameters);
        result.map_err(|error| GuestFault::of_trap(&error, self.store.data()))
    }

    fn next_context(&mut self) -> u32 {
        loop {
            self.last_context = self.last_context.checked_add(1).unwrap_or(1);
            let host = self.store.data();
            if !host.streams.contains_key(&self.last_context) && !host.roots.contains_key(&self.last_context)
            {
                return self.last_context;
            }
        }
    }

    /// Makes the context of a configuration, and gives the guest its text.
    pub(crate) fn configure(&mut self, configuration: &Arc<[u8]>) -> Result<u32, GuestFault> {
        if self.store.data().roots.len() >= ROOTS_MAX {
            return Err(GuestFault::new("contexts", format!("it has {ROOTS_MAX} configurations already")));
        }
        let root = self.next_context();
        let bytes = configuration.len() as i32;
        self.host().roots.insert(root, Root::default());
        self.host().frame =
            CallbackData { configuration: Some(configuration.clone()), ..CallbackData::default() };
        if let Some(create) = self.exports.on_context_create.clone() {
            self.call(&create, signed(root, 0), root, START_CPU_MS)?;
        }
        if !self.has_started {
            self.has_started = true;
            if let Some(start) = self.exports.on_vm_start.clone()
                && self.call(&start, (root as i32, 0), root, START_CPU_MS)? == 0
            {
                return Err(GuestFault {
                    ends_instance: true,
                    ..GuestFault::new("not_started", "it refuses to start (proxy_on_vm_start)")
                });
            }
        }
        if let Some(configure) = self.exports.on_configure.clone()
            && self.call(&configure, (root as i32, bytes), root, START_CPU_MS)? == 0
        {
            let said = std::mem::take(&mut self.host().last_words);
            let said = if said.is_empty() { said } else { format!(": {said}") };
            self.delete(root)?;
            return Err(GuestFault::new("not_configured", format!("it refuses its configuration{said}")));
        }
        self.host().frame = CallbackData::default();
        Ok(root)
    }

    /// Makes the context of a request or session.
    pub(crate) fn open(&mut self, root: u32, is_session: bool) -> Result<u32, GuestFault> {
        if self.store.data().streams.len() >= CONTEXTS_MAX {
            return Err(GuestFault::new("contexts", format!("{CONTEXTS_MAX} requests are under way in it")));
        }
        let context = self.next_context();
        self.host().streams.insert(context, StreamContext::new(root, is_session));
        if let Some(create) = self.exports.on_context_create.clone() {
            self.call(&create, signed(context, root), context, CALL_CPU_MS)?;
        }
        Ok(context)
    }

    /// Gives the guest a head of `fields` fields.
    pub(crate) fn on_head(
        &mut self,
        context: u32,
        head: MessageKind,
        fields: usize,
        is_end: bool,
    ) -> Result<GuestAction, GuestFault> {
        let callback = match head {
            MessageKind::Request => self.exports.on_request_headers.clone(),
            MessageKind::Response => self.exports.on_response_headers.clone(),
        };
        let (context_i32, fields) = (context as i32, fields as i32);
        let number = match callback {
            None => return Ok(GuestAction::Continue),
            Some(HeadCallback::Old(old)) => self.call(&old, (context_i32, fields), context, CALL_CPU_MS)?,
            Some(HeadCallback::New(new)) => {
                self.call(&new, (context_i32, fields, i32::from(is_end)), context, CALL_CPU_MS)?
            }
        };
        Ok(GuestAction::of_head(number))
    }

    /// Gives the guest a body, or as much of it as there is. It may change it.
    pub(crate) fn on_body(
        &mut self,
        context: u32,
        head: MessageKind,
        body: &mut Vec<u8>,
        is_end: bool,
    ) -> Result<GuestAction, GuestFault> {
        let callback = match head {
            MessageKind::Request => self.exports.on_request_body.clone(),
            MessageKind::Response => self.exports.on_response_body.clone(),
        };
        let Some(callback) = callback else { return Ok(GuestAction::Continue) };
        let length = body.len() as i32;
        let taken = std::mem::take(body);
        let frame = &mut self.host().frame;
        match head {
            MessageKind::Request => frame.request_body = Some(taken),
            MessageKind::Response => frame.response_body = Some(taken),
        }
        let number =
            self.call(&callback, (context as i32, length, i32::from(is_end)), context, CALL_CPU_MS)?;
        let frame = &mut self.host().frame;
        let given = match head {
            MessageKind::Request => frame.request_body.take(),
            MessageKind::Response => frame.response_body.take(),
        };
        *body = given.unwrap_or_default();
        Ok(GuestAction::of_body(number))
    }

    /// Gives the guest trailers, which it may change.
    pub(crate) fn on_trailers(
        &mut self,
        context: u32,
        head: MessageKind,
        trailers: &mut Pairs,
    ) -> Result<GuestAction, GuestFault> {
        let callback = match head {
            MessageKind::Request => self.exports.on_request_trailers.clone(),
            MessageKind::Response => self.exports.on_response_trailers.clone(),
        };
        let Some(callback) = callback else { return Ok(GuestAction::Continue) };
        let count = trailers.len() as i32;
        let taken = std::mem::take(trailers);
        let frame = &mut self.host().frame;
        match head {
            MessageKind::Request => frame.request_trailers = Some(taken),
            MessageKind::Response => frame.response_trailers = Some(taken),
        }
        let number = self.call(&callback, (context as i32, count), context, CALL_CPU_MS)?;
        let frame = &mut self.host().frame;
        let given = match head {
            MessageKind::Request => frame.request_trailers.take(),
            MessageKind::Response => frame.response_trailers.take(),
        };
        *trailers = given.unwrap_or_default();
        Ok(GuestAction::of_head(number))
    }

    /// Tells the guest of a new session.
    pub(crate) fn on_new_connection(&mut self, context: u32) -> Result<GuestAction, GuestFault> {
        let Some(callback) = self.exports.on_new_connection.clone() else { return Ok(GuestAction::Continue) };
        self.call(&callback, context as i32, context, CALL_CPU_MS).map(GuestAction::of_session)
    }

    /// Gives the guest the first bytes of a session, all that there are.
    pub(crate) fn on_downstream_data(
        &mut self,
        context: u32,
        bytes: &[u8],
    ) -> Result<GuestAction, GuestFault> {
        let Some(callback) = self.exports.on_downstream_data.clone() else {
            return Ok(GuestAction::Continue);
        };
        self.host().frame.downstream_data = Some(bytes.to_vec());
        let number = self.call(&callback, (context as i32, bytes.len() as i32, 0), context, CALL_CPU_MS)?;
        self.host().frame.downstream_data = None;
        Ok(GuestAction::of_session(number))
    }

    /// Tells the guest that a session has ended: `closed_by` is 1 for the gateway and 2 for the client.
    pub(crate) fn on_downstream_close(&mut self, context: u32, closed_by: i32) -> Result<(), GuestFault> {
        let Some(callback) = self.exports.on_downstream_close.clone() else { return Ok(()) };
        self.call(&callback, (context as i32, closed_by), context, CALL_CPU_MS)
    }

    /// Gives the guest the answer to a call; nothing happens if the guest has given the call up.
    pub(crate) fn on_answer(&mut self, context: u32, arrival: ResponseDelivery) -> Result<(), GuestFault> {
        let ResponseDelivery { token, kind, answer } = arrival;
        if !self.host().end_call(context, token) {
            return Ok(());
        }
        let (id, number) = (context as i32, token as i32);
        let (fields, body, trailers) =
            (answer.headers.len() as i32, answer.body.len() as i32, answer.trailers.len() as i32);
        let status = answer.status;
        let outer = std::mem::take(&mut self.host().frame.answer);
        self.host().frame.answer = Some(answer);
        match kind {
            CallKind::Http => {
                if let Some(callback) = self.exports.on_http_call_response.clone() {
                    self.call(&callback, (id, number, fields, body, trailers), context, CALL_CPU_MS)?;
                }
            }
            CallKind::Grpc if status == 0 => {
                if let Some(callback) = self.exports.on_grpc_receive.clone() {
                    self.call(&callback, (id, number, body), context, CALL_CPU_MS)?;
                }
            }
            CallKind::Grpc => {
                if let Some(callback) = self.exports.on_grpc_close.clone() {
                    self.call(&callback, (id, number, status as i32), context, CALL_CPU_MS)?;
                }
            }
        }
        self.host().frame.answer = outer;
        Ok(())
    }

    /// Tells the guest that its timer is due.
    pub(crate) fn on_tick(&mut self, root: u32) -> Result<(), GuestFault> {
        let Some(callback) = self.exports.on_tick.clone() else { return Ok(()) };
        self.call(&callback, root as i32, root, CALL_CPU_MS)
    }

    /// Tells the guest of an item in the queue `number`.
    pub(crate) fn on_queue_ready(&mut self, root: u32, number: u32) -> Result<(), GuestFault> {
        let Some(callback) = self.exports.on_queue_ready.clone() else { return Ok(()) };
        self.call(&callback, (root as i32, number as i32), root, CALL_CPU_MS)
    }

    /// Tells the guest that a request has ended; false if it wants to keep its context for now.
    pub(crate) fn on_done(&mut self, context: u32) -> Result<bool, GuestFault> {
        let Some(callback) = self.exports.on_done.clone() else { return Ok(true) };
        if let Some(stream) = self.host().streams.get_mut(&context) {
            // The guest may say that it is done before this call returns.
            stream.awaits_done = true;
        }
        let is_done = self.call(&callback, context as i32, context, CALL_CPU_MS)? != 0;
        let host = self.host();
        host.done.retain(|done| *done != context);
        let Some(stream) = host.streams.get_mut(&context) else { return Ok(true) };
        let is_done = is_done || !stream.awaits_done;
        stream.awaits_done = !is_done;
        Ok(is_done)
    }

    /// Lets the guest write its log.
    pub(crate) fn on_log(&mut self, context: u32) -> Result<(), GuestFault> {
        let Some(callback) = self.exports.on_log.clone() else { return Ok(()) };
        self.call(&callback, context as i32, context, CALL_CPU_MS)
    }

    /// Ends a context, of a request or of a configuration, with its calls.
    pub(crate) fn delete(&mut self, context: u32) -> Result<(), GuestFault> {
        let host = self.host();
        let calls = host.calls_of(context).map_or(0, |calls| std::mem::take(calls).len());
        host.calls -= calls;
        let deleted = match self.exports.on_delete.clone() {
            Some(callback) => self.call(&callback, context as i32, context, CALL_CPU_MS),
            None => Ok(()),
        };
        let host = self.host();
        host.streams.remove(&context);
        host.roots.remove(&context);
        deleted
    }
}

/// Lets the next call take `limit_ms`.
fn allow(store: &mut Store<Host>, limit_ms: u64) {
    store.data_mut().budget = CpuBudget { limit_ms, ..CpuBudget::default() };
    store.set_epoch_deadline(1);
}

/// Two numbers as guests take them.
fn signed(first: u32, second: u32) -> (i32, i32) {
    (first as i32, second as i32)
}
