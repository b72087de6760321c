//! `weir plugin`: plugins of users, from a skeleton to a version that serves. It names no language.

mod check;
mod file;
mod manage;
mod new;
mod push;
mod requests;
mod stage;
mod test;

use std::process::ExitCode;

use clap::Subcommand;

pub(super) use file::loader;

/// Write, test and change plugins of your own
///
/// A plugin in Lua or WebAssembly is an object of the instance, `extensions/NAME`: it has versions, one of
/// them is active, and one may serve a share of the requests. Changes come into force on all workers at once,
/// without a restart.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct PluginArguments {
    #[command(subcommand)]
    command: PluginCommand,
}

#[derive(Clone, Debug, Subcommand)]
enum PluginCommand {
    Check(check::PluginCheckArguments),
    Test(test::TestArguments),
    New(new::NewArguments),
    Push(push::PushArguments),
    List(manage::ListArguments),
    Activate(manage::ActivateArguments),
    Rollback(manage::PluginRollbackArguments),
    Canary(manage::CanaryArguments),
    Remove(manage::RemoveArguments),
}

/// Runs a command on plugins.
pub(crate) fn execute_plugin(arguments: PluginArguments) -> anyhow::Result<ExitCode> {
    match arguments.command {
        PluginCommand::Check(arguments) => check::execute_plugin_check(&arguments),
        PluginCommand::Test(arguments) => test::execute_plugin_test(&arguments),
        PluginCommand::New(arguments) => new::execute_plugin_new(&arguments),
        PluginCommand::Push(arguments) => push::execute_plugin_push(&arguments),
        PluginCommand::List(arguments) => manage::list_plugins(&arguments),
        PluginCommand::Activate(arguments) => manage::activate(&arguments),
        PluginCommand::Rollback(arguments) => manage::rollback(&arguments),
        PluginCommand::Canary(arguments) => manage::canary(&arguments),
        PluginCommand::Remove(arguments) => manage::remove(&arguments),
    }
}
