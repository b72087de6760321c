//! The events of a connection; it does not know when they happen.

use crate::Priority;

/// Something that happened on the control stream of the peer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    /// The settings of the peer arrived; they are in force.
    SettingsArrived,
    /// The peer takes no further requests (client), or promises to need no further pushes (server). A
    /// client's requests on this stream and later ones were not processed and may be repeated.
    GoAway(u64),
    /// The client changed the priority of an open request stream: the driver passes it to
    /// [`RequestReader::set_priority`](crate::RequestReader::set_priority) and to its order of writing.
    PriorityChanged(u64, Priority),
}
