//! `weir check`: every fault of a settings file or a resources file. Touches neither a running instance nor a
//! store.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use control::source::file::{self, FileCheck, FileFault};
use model::PluginCatalog;
use model::check::{CheckOptions, UnknownFields};

use crate::boot;
use crate::settings::{FileKind, LoadedSettings, Settings, kind_of};
use crate::terminal::{Paint, print};

/// Check a settings file, a resources file or a `config.yaml` of APISIX
///
/// Prints every fault as `file:line: path: reason` and ends with 1, or ends with 0. What kind of file it is
/// shows in its content; a `config.yaml` of APISIX is one too. What has no effect is printed as a warning:
/// keys of APISIX, unknown fields of plugins, paths that match no request, equal routes. The resources file
/// that a settings file names is checked too.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct CheckArguments {
    /// Files to check
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Refuse what is only a warning otherwise, as the setting `strict` does with unknown fields
    #[arg(long)]
    strict: bool,
}

/// Checks each file.
pub(crate) fn execute_check(arguments: &CheckArguments) -> anyhow::Result<ExitCode> {
    let mut is_good = true;
    for path in &arguments.files {
        let FileFindings { faults, warnings } = check_file(path, arguments.strict);
        warnings.iter().chain(&faults).for_each(print);
        let is_file_good = faults.is_empty() && (warnings.is_empty() || !arguments.strict);
        is_good &= is_file_good;
        if is_file_good {
            print(format_args!("{}: {}", path.display(), Paint::for_stdout().good("ok")));
        }
    }
    Ok(if is_good { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// The findings of a check of one file, each as a line.
#[derive(Default)]
struct FileFindings {
    faults: Vec<String>,
    warnings: Vec<String>,
}

impl FileFindings {
    fn fault(line: String) -> FileFindings {
        FileFindings { faults: vec![line], warnings: Vec::new() }
    }
}

fn check_file(path: &Path, strict: bool) -> FileFindings {
    let text = match std::fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) => return FileFindings::fault(format!("{}: cannot be read: {error}", path.display())),
    };
    if file::is_blank(&text) {
        let line =
            format!("{}:1: warning: the file is empty: it has neither settings nor objects", path.display());
        return FileFindings { faults: Vec::new(), warnings: vec![line] };
    }
    if kind_of(&text) == FileKind::Resources {
        let options = strictly(CheckOptions::default(), strict);
        let catalog = boot::catalog(None, options);
        return match super::plugin::loader() {
            Ok(loader) => check_resources(path, &catalog.with_loader(loader)),
            Err(error) => FileFindings::fault(format!("{error:#}")),
        };
    }
    match Settings::from_file_text(path, &text) {
        Ok(LoadedSettings { settings, remarks }) => {
            let catalog = boot::catalog_with(&settings, strictly(settings.check_options(), strict));
            let resources = settings.resources.as_deref();
            let mut found = resources.map(|path| check_resources(path, &catalog)).unwrap_or_default();
            found.warnings = remarks.lines().chain(found.warnings).collect();
            found
        }
        Err(faults) => {
            FileFindings { faults: faults.0.iter().map(ToString::to_string).collect(), warnings: Vec::new() }
        }
    }
}

/// The options, or stricter ones where `strict` is given.
fn strictly(mut options: CheckOptions, strict: bool) -> CheckOptions {
    if strict {
        options.unknown_fields = UnknownFields::Refuse;
    }
    options
}

/// Checks a resources file for a gateway of that catalog.
fn check_resources(path: &Path, catalog: &PluginCatalog) -> FileFindings {
    let FileCheck { faults, warnings } = file::check_resource_file(path, catalog);
    let lines = |found: Vec<FileFault>| found.iter().map(ToString::to_string).collect();
    FileFindings { faults: lines(faults), warnings: lines(warnings) }
}
