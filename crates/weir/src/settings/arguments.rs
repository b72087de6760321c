//! Settings as flags, made from the table, so that every setting has its flag. Parses no value.

use clap::{Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches};

use super::SETTINGS;
use super::fault::SettingLocation;
use super::table::Setting;
use super::written::WrittenSettings;

/// All settings as flags of a command, with unparsed values.
#[derive(Clone, Debug, Default)]
pub(crate) struct SettingsArguments {
    /// The flags that were given.
    pub(crate) written: WrittenSettings,
}

impl Args for SettingsArguments {
    fn augment_args(command: Command) -> Command {
        SETTINGS.iter().filter(|setting| !setting.is_secret()).map(argument).fold(command, Command::arg)
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for SettingsArguments {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let mut arguments = Self::default();
        arguments.update_from_arg_matches(matches)?;
        Ok(arguments)
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        for setting in SETTINGS.iter().filter(|setting| !setting.is_secret()) {
            if let Some(values) = matches.get_many::<String>(setting.name) {
                self.written.insert(setting, values.cloned().collect(), SettingLocation::Flag);
            }
        }
        Ok(())
    }
}

/// The flag of one setting. Values stay texts, so that every source has the same parser and the same
/// messages.
fn argument(setting: &'static Setting) -> Arg {
    let argument = Arg::new(setting.name)
        .long(setting.flag())
        .value_name(setting.value_name)
        .help(help(setting))
        .help_heading(setting.section)
        .action(ArgAction::Append);
    let argument = match setting.short_name {
        Some(_) => argument.alias(setting.name.replace('_', "-")),
        None => argument,
    };
    if setting.is_switch() {
        argument.num_args(0..=1).require_equals(true).default_missing_value("true")
    } else {
        argument.num_args(1)
    }
}

fn help(setting: &Setting) -> String {
    let text = one_paragraph(setting.documentation);
    if setting.default.is_empty() { text } else { format!("{text} [default: {}]", setting.default) }
}

/// The lines of a doc comment as one paragraph.
pub(super) fn one_paragraph(documentation: &str) -> String {
    documentation.split_whitespace().collect::<Vec<_>>().join(" ")
}
