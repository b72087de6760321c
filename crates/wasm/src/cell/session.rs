//! The wait of a session for its guest: answers of the guest's calls are brought to it meanwhile.

use std::task::{Context, Poll};

use exchange::plugin::stream::StreamSession;

use super::{CallSubject, VmCell};
use crate::abi::StreamSide;
use crate::fault::GuestFault;

/// How a session goes on that its guest has paused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SessionResumed {
    Continue,
    Closed,
    /// The guest has no call under way that it could wait for.
    Idle,
}

impl VmCell {
    /// Waits until the guest lets the session go on, or has no call under way any more.
    pub(crate) fn poll_session(
        &self,
        cx: &mut Context<'_>,
        session: &mut StreamSession,
        context: u32,
    ) -> Poll<Result<SessionResumed, GuestFault>> {
        loop {
            let looked = self.enter(None, context, |vm| {
                let gone = || GuestFault::new("instance_gone", "its context is gone");
                let stream = vm.host().streams.get_mut(&context).ok_or_else(gone)?;
                if stream.is_closed {
                    return Ok(Poll::Ready(Some(SessionResumed::Closed)));
                }
                if std::mem::take(&mut stream.continues[StreamSide::Downstream as usize]) {
                    return Ok(Poll::Ready(Some(SessionResumed::Continue)));
                }
                if !stream.inbox.is_empty() {
                    return Ok(Poll::Ready(None));
                }
                if stream.calls.is_empty() {
                    return Ok(Poll::Ready(Some(SessionResumed::Idle)));
                }
                stream.waker = Some(cx.waker().clone());
                Ok(Poll::Pending)
            });
            match looked {
                Err(fault) => return Poll::Ready(Err(fault)),
                Ok(Poll::Pending) => return Poll::Pending,
                Ok(Poll::Ready(Some(resumed))) => return Poll::Ready(Ok(resumed)),
                Ok(Poll::Ready(None)) => {}
            }
            let bytes = session.first_bytes.clone();
            let delivered = self.enter_with(CallSubject::Session(&mut *session), context, |vm| {
                let arrival = vm.host().streams.get_mut(&context).and_then(|stream| stream.inbox.pop_front());
                let arrival =
                    arrival.ok_or_else(|| GuestFault::new("instance_gone", "its context is gone"))?;
                vm.host().frame.downstream_data = Some(bytes);
                let answered = vm.on_answer(context, arrival);
                vm.host().frame.downstream_data = None;
                answered
            });
            if let Err(fault) = delivered {
                return Poll::Ready(Err(fault));
            }
        }
    }
}
