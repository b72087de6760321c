//! The record of a session: counted when it begins, and counted, logged and shown to its plugins when it
//! ends, however that comes about.

use std::rc::Rc;
use std::sync::Arc;

use crate::context::WorkerContext;
use crate::runtime::stream_route::StreamRoute;
use exchange::plugin::stream::{SessionEnd, StreamSession};

/// See the module.
pub(in crate::downstream) struct SessionRecord {
    pub(in crate::downstream) session: StreamSession,
    /// The route, once it is found: its plugins see the end of the session even if the configuration has
    /// changed.
    pub(in crate::downstream) route: Option<Arc<StreamRoute>>,
    context: Rc<WorkerContext>,
    is_over: bool,
}

impl SessionRecord {
    /// Counts a session that begins.
    pub(in crate::downstream) fn begin(context: &Rc<WorkerContext>, session: StreamSession) -> SessionRecord {
        context.status.sessions.began(session.transport);
        SessionRecord { session, route: None, context: context.clone(), is_over: false }
    }

    /// The session has ended so.
    pub(in crate::downstream) fn end_with(&mut self, end: SessionEnd) {
        self.session.end = Some(end);
        self.finish();
    }

    /// The connection goes on as one of HTTP, of which each request is logged: the end of the session is only
    /// counted.
    pub(in crate::downstream) fn become_http(&mut self) {
        self.is_over = true;
        self.session.end = Some(SessionEnd::BecameHttp);
        self.context.status.sessions.ended(&self.session);
    }

    fn finish(&mut self) {
        if std::mem::replace(&mut self.is_over, true) {
            return;
        }
        let session = &mut self.session;
        session.ended_ns = self.context.local.clock_ns();
        session.began_unix = self.context.local.wall_at(session.started_ns);
        session.end.get_or_insert(SessionEnd::Stopped);
        if let Some(route) = &self.route {
            route.plugins.log(session);
        }
        self.context.session_ended(session);
    }
}

impl Drop for SessionRecord {
    fn drop(&mut self) {
        self.finish();
    }
}
