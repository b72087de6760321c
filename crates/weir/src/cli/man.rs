//! `weir man`: manual pages, made from the command line's own definition. Installs nothing.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::{fs, io};

use anyhow::Context;

use crate::terminal::print;

/// Write the manual pages, or print that of `weir`
///
/// With a folder, writes `weir.1` and one page for each command into it. Without one, prints `weir.1`, for
/// `weir man | man -l -`.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct ManArguments {
    /// The folder; made if it is missing
    #[arg(value_name = "DIR")]
    folder: Option<PathBuf>,
}

/// Writes or prints the pages of `command_line`.
pub(crate) fn execute_man(arguments: &ManArguments, command_line: clap::Command) -> anyhow::Result<ExitCode> {
    let mut pages = pages(command_line)?;
    match &arguments.folder {
        Some(folder) => {
            write(&pages, folder)?;
            print(format_args!("wrote {} pages into {}", pages.len(), folder.display()));
        }
        None => print(String::from_utf8_lossy(&pages.swap_remove(0).text).trim_end()),
    }
    Ok(ExitCode::SUCCESS)
}

/// One manual page.
struct ManualPage {
    /// Its file: `weir-lab-run.1`.
    file: String,
    text: Vec<u8>,
}

fn write(pages: &[ManualPage], folder: &Path) -> anyhow::Result<()> {
    fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    for page in pages {
        let path = folder.join(&page.file);
        fs::write(&path, &page.text).with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(())
}

/// The page of the program first, then those of its commands.
fn pages(command_line: clap::Command) -> anyhow::Result<Vec<ManualPage>> {
    let mut command_line = command_line.disable_help_subcommand(true);
    command_line.build();
    let mut pages = Vec::new();
    collect(&command_line, &mut pages).context("a manual page cannot be made")?;
    Ok(pages)
}

fn collect(command: &clap::Command, pages: &mut Vec<ManualPage>) -> io::Result<()> {
    let man = clap_mangen::Man::new(command.clone())
        .source(concat!("weir ", env!("CARGO_PKG_VERSION")))
        .manual("Weir manual");
    let mut text = Vec::new();
    man.render(&mut text)?;
    if pages.is_empty() {
        text.extend_from_slice(PROGRAM_SECTIONS.as_bytes());
    }
    pages.push(ManualPage { file: man.get_filename(), text });
    for inner in command.get_subcommands().filter(|inner| !inner.is_hide_set()) {
        collect(inner, pages)?;
    }
    Ok(())
}

/// The sections of `weir.1` that the definition of the command line does not have.
const PROGRAM_SECTIONS: &str = r#".SH "EXIT STATUS"
.TP
\fB0\fR
done
.TP
\fB1\fR
something is wrong with the input or the machine
.TP
\fB2\fR
the command line is wrong
.TP
\fB3\fR
\fBweir plan\fR found a difference, or \fBweir lab compare \-\-fail\-on slower\fR something slower
.SH SIGNALS
.TP
\fBHUP\fR
reads a resources file and the settings file again
.TP
\fBTERM\fR, \fBQUIT\fR
drains, then ends
.TP
\fBINT\fR
ends at once
.TP
\fBUSR1\fR
opens the log files again
.TP
\fBUSR2\fR
starts the binary that lies in its place now, which takes over
.SH ENVIRONMENT
Each setting of \fBweir run\fR may be given as a variable: \fBWEIR_ACCESS_LOG\fR for \fB\-\-access\-log\fR. Secrets are
taken from variables only: \fBWEIR_ADMIN_KEY\fR, \fBWEIR_ETCD_PASSWORD\fR, \fBWEIR_ENCRYPTION_KEYRING\fR.
"#;
