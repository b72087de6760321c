//! An instance on its worker, as requests, timers and answers of calls share it: each enters it for one call
//! at a time. An instance of which a call fails is never entered again.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll};

use exchange::Exchange;
use exchange::plugin::BufferedReply;
use exchange::plugin::events::EventCounter;
use exchange::plugin::stream::StreamSession;

use crate::abi::StreamSide;
use crate::fault::GuestFault;
use crate::host::{Loan, ResponseDelivery};
use crate::vm::Vm;

mod session;

pub(crate) use session::SessionResumed;

/// See the module.
pub(crate) struct VmCell {
    vm: RefCell<Option<Vm>>,
    lent: Rc<Loan>,
    is_broken: Cell<bool>,
    plugin: &'static str,
    background_faults: EventCounter,
    /// Contexts that ended while the instance ran.
    ended: RefCell<Vec<u32>>,
}

/// The request or session that is lent to a call.
pub(crate) enum CallSubject<'a> {
    Exchange(&'a mut Exchange),
    Session(&'a mut StreamSession),
    /// A session that has ended.
    EndedSession(&'a StreamSession),
    None,
}

/// How a paused request goes on.
pub(crate) enum Resumed {
    Continue,
    Reply(Box<BufferedReply>),
    Closed,
}

impl VmCell {
    /// A cell that has no instance yet.
    pub(crate) fn new(plugin: &'static str, lent: Rc<Loan>, background_faults: EventCounter) -> VmCell {
        VmCell {
            vm: RefCell::new(None),
            lent,
            is_broken: Cell::new(false),
            plugin,
            background_faults,
            ended: RefCell::default(),
        }
    }

    /// Puts the instance in.
    pub(crate) fn fill(&self, vm: Vm) {
        *self.vm.borrow_mut() = Some(vm);
    }

    /// Whether a call has ended the instance.
    pub(crate) fn is_broken(&self) -> bool {
        self.is_broken.get()
    }

    /// Runs `run` with the instance for `context`; an exchange is lent to it if it is the context of one.
    pub(crate) fn enter<R>(
        &self,
        exchange: Option<&mut Exchange>,
        context: u32,
        run: impl FnOnce(&mut Vm) -> Result<R, GuestFault>,
    ) -> Result<R, GuestFault> {
        self.enter_with(exchange.map_or(CallSubject::None, CallSubject::Exchange), context, run)
    }

    /// As [`VmCell::enter`], for any subject.
    pub(crate) fn enter_with<R>(
        &self,
        subject: CallSubject<'_>,
        context: u32,
        run: impl FnOnce(&mut Vm) -> Result<R, GuestFault>,
    ) -> Result<R, GuestFault> {
        let gone = || GuestFault::new("instance_gone", "its instance was ended by the fault of another call");
        let mut place =
            self.vm.try_borrow_mut().map_err(|_| GuestFault::new("busy", "its instance is entered twice"))?;
        let vm = place.as_mut().ok_or_else(gone)?;
        vm.host().lent_to = if matches!(subject, CallSubject::None) { 0 } else { context };
        let result = match subject {
            CallSubject::Exchange(exchange) => self.lent.exchange.lend(exchange, || run(vm)),
            CallSubject::Session(session) => self.lent.session.lend(session, || run(vm)),
            CallSubject::EndedSession(session) => self.lent.session.lend_shared(session, || run(vm)),
            CallSubject::None => run(vm),
        };
        vm.host().lent_to = 0;
        let result = result.and_then(|value| {
            self.settle(vm)?;
            Ok(value)
        });
        if let Err(fault) = &result
            && fault.ends_instance
        {
            self.is_broken.set(true);
            // Requests that wait for the guest go on with the fault.
            for stream in vm.host().streams.values_mut() {
                stream.wake();
            }
            // Its memory returns at once.
            *place = None;
        }
        result
    }

    /// Ends contexts that are over.
    fn settle(&self, vm: &mut Vm) -> Result<(), GuestFault> {
        while let Some(context) = vm.host().done.pop() {
            vm.delete(context)?;
        }
        loop {
            let Some(context) = self.ended.borrow_mut().pop() else { return Ok(()) };
            close(vm, context)?;
        }
    }

    /// Runs work of no request. A fault of it is logged and counted here.
    fn background(&self, run: impl FnOnce(&mut Vm) -> Result<(), GuestFault>) -> bool {
        match self.enter(None, 0, run) {
            Ok(()) => true,
            Err(fault) => {
                self.background_faults.fetch_add(1, Ordering::Relaxed);
                let (plugin, cause) = (self.plugin, fault.code);
                tracing::error!(target: "wasm", plugin, cause, "work between requests failed: {}", fault.text);
                false
            }
        }
    }

    /// Brings an answer to the context that called: at once to a configuration, and through its own task to a
    /// request.
    pub(crate) fn deliver(&self, context: u32, arrival: ResponseDelivery) {
        if self.is_broken() {
            return;
        }
        self.background(|vm| match vm.host().streams.get_mut(&context) {
            Some(stream) if !stream.awaits_done => {
                stream.inbox.push_back(arrival);
                stream.wake();
                Ok(())
            }
            _ => vm.on_answer(context, arrival),
        });
    }

    /// Ticks; false if the timer is over.
    pub(crate) fn tick(&self, root: u32, tick: u32) -> bool {
        let mut is_current = false;
        !self.is_broken()
            && self.background(|vm| {
                is_current = vm.host().roots.get(&root).is_some_and(|root| root.tick == tick);
                if is_current { vm.on_tick(root) } else { Ok(()) }
            })
            && is_current
    }

    /// Tells of an item in a queue.
    pub(crate) fn queue_ready(&self, root: u32, number: u32) -> bool {
        !self.is_broken() && self.background(|vm| vm.on_queue_ready(root, number))
    }

    /// Whether there is the configuration `root`.
    pub(crate) fn has_root(&self, root: u32) -> bool {
        let mut place = self.vm.borrow_mut();
        place.as_mut().is_some_and(|vm| vm.host().roots.contains_key(&root))
    }

    /// Ends the configuration `root`.
    pub(crate) fn end_root(&self, root: u32) {
        if !self.is_broken() {
            self.background(|vm| {
                vm.on_done(root)?;
                vm.delete(root)
            });
        }
    }

    /// Ends the context of a request without an exchange.
    pub(crate) fn end(&self, context: u32) {
        if self.is_broken() {
            return;
        }
        if self.vm.try_borrow_mut().is_err() {
            return self.ended.borrow_mut().push(context);
        }
        self.background(|vm| close(vm, context));
    }

    /// Waits until the guest lets `side` of a request go on. Answers of its calls are brought to it
    /// meanwhile.
    pub(crate) fn poll_resumed(
        &self,
        cx: &mut Context<'_>,
        exchange: &mut Exchange,
        context: u32,
        side: StreamSide,
        body: &mut Option<Vec<u8>>,
    ) -> Poll<Result<Resumed, GuestFault>> {
        loop {
            let looked = self.enter(None, context, |vm| {
                let Some(stream) = vm.host().streams.get_mut(&context) else { return Ok(Poll::Ready(None)) };
                if let Some(reply) = stream.reply.take() {
                    return Ok(Poll::Ready(Some(Resumed::Reply(reply))));
                }
                if stream.is_closed {
                    return Ok(Poll::Ready(Some(Resumed::Closed)));
                }
                if std::mem::take(&mut stream.continues[side as usize]) {
                    return Ok(Poll::Ready(Some(Resumed::Continue)));
                }
                if stream.inbox.is_empty() {
                    stream.waker = Some(cx.waker().clone());
                    return Ok(Poll::Pending);
                }
                Ok(Poll::Ready(None))
            });
            match looked {
                Err(fault) => return Poll::Ready(Err(fault)),
                Ok(Poll::Pending) => return Poll::Pending,
                Ok(Poll::Ready(Some(resumed))) => return Poll::Ready(Ok(resumed)),
                Ok(Poll::Ready(None)) => {}
            }
            let delivered = self.enter(Some(&mut *exchange), context, |vm| {
                let arrival = vm.host().streams.get_mut(&context).and_then(|stream| stream.inbox.pop_front());
                let arrival =
                    arrival.ok_or_else(|| GuestFault::new("instance_gone", "its context is gone"))?;
                let frame = &mut vm.host().frame;
                let place = match side {
                    StreamSide::Request => &mut frame.request_body,
                    StreamSide::Response | StreamSide::Downstream => &mut frame.response_body,
                };
                *place = body.take();
                vm.on_answer(context, arrival)?;
                let frame = &mut vm.host().frame;
                *body = match side {
                    StreamSide::Request => frame.request_body.take(),
                    StreamSide::Response | StreamSide::Downstream => frame.response_body.take(),
                };
                Ok(())
            });
            if let Err(fault) = delivered {
                return Poll::Ready(Err(fault));
            }
        }
    }
}

/// Tells the guest that a request is over, and forgets the context unless the guest keeps it.
fn close(vm: &mut Vm, context: u32) -> Result<(), GuestFault> {
    let is_known = vm.host().streams.get(&context).is_some_and(|stream| !stream.awaits_done);
    if is_known && vm.on_done(context)? {
        vm.delete(context)?;
    }
    Ok(())
}
