//! `weir check`: every fault of a settings file or a resources file, touching neither a running node nor a store.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use control::source::file;
use model::Catalog;

use crate::boot;
use crate::settings::{FileKind, Loaded, Settings, kind_of};
use crate::terminal::{Paint, print};

/// Check a settings file, a resources file or a `config.yaml` of APISIX
///
/// Prints every fault as `file:line: path: reason` and ends with 1, or ends with 0. What kind of file it is shows in
/// its content; a `config.yaml` of APISIX is one too, and what of it has no effect here is printed as a warning. The
/// resources file that a settings file names is checked too.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct CheckArguments {
    /// Files to check
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
}

/// Checks each file.
pub(crate) fn run(arguments: &CheckArguments) -> anyhow::Result<ExitCode> {
    let mut is_good = true;
    for path in &arguments.files {
        let faults = faults_of(path);
        faults.iter().for_each(print);
        is_good &= faults.is_empty();
        if faults.is_empty() {
            print(format_args!("{}: {}", path.display(), Paint::for_stdout().good("ok")));
        }
    }
    Ok(if is_good { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// The faults of one file, each as a line; warnings are printed here.
fn faults_of(path: &Path) -> Vec<String> {
    let text = match std::fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) => return vec![format!("{}: cannot be read: {error}", path.display())],
    };
    if kind_of(&text) == FileKind::Resources {
        return faults_of_resources(path, &boot::catalog(None).without_stream_routes());
    }
    match Settings::from_file_text(path, &text) {
        Ok(Loaded { settings, remarks }) => {
            remarks.lines().for_each(print);
            let catalog = boot::catalog_for(&settings);
            settings.resources.as_deref().map(|path| faults_of_resources(path, &catalog)).unwrap_or_default()
        }
        Err(faults) => faults.0.iter().map(ToString::to_string).collect(),
    }
}

/// The faults of a resources file for a gateway of that catalog.
fn faults_of_resources(path: &Path, catalog: &Catalog) -> Vec<String> {
    file::check(path, catalog).iter().map(ToString::to_string).collect()
}
