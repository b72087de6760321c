//! The name of the machine that the gateway runs on, read once.

use std::sync::LazyLock;

/// The name of this machine.
pub fn hostname() -> &'static str {
    &HOSTNAME
}

static HOSTNAME: LazyLock<String> =
    LazyLock::new(|| rustix::system::uname().nodename().to_string_lossy().into_owned());
