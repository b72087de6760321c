//! The name of the machine, for the resource or service instance that spans belong to.

/// The name that the kernel has for the machine.
pub(crate) fn read_machine_name() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}
