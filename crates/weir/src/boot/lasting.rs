//! Faults of a start that another start does not mend: a service manager should not try again until a file or
//! the machine has changed. They end `weir run` with a status of their own.

use std::fmt;

use control::ControlStartError;

use crate::settings::Faults;

/// A message of such a fault, as the context of its cause.
#[derive(Debug)]
pub(super) struct Lasting(pub(super) String);

impl fmt::Display for Lasting {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.0)
    }
}

/// Whether a failed start fails again in the same way: wrong settings, a right that is missing, a store of a
/// newer version.
pub(crate) fn is_lasting(error: &anyhow::Error) -> bool {
    error.is::<Faults>()
        || error.is::<Lasting>()
        || error.downcast_ref::<ControlStartError>().is_some_and(ControlStartError::is_lasting)
}
