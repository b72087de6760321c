//! `weir plugin new`: writes a working plugin with its test into a new folder.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, bail};
use clap::ValueEnum;
use exchange::plugin::extension::interned_name;

use crate::terminal::print;

/// Write a working plugin with its test into a new folder
#[derive(Clone, Debug, clap::Args)]
pub(super) struct NewArguments {
    /// Language of the plugin
    #[arg(value_name = "LANGUAGE")]
    language: SkeletonLanguage,
    /// Name of the plugin, and of the folder
    #[arg(value_name = "NAME")]
    name: String,
    /// Folder to write into [default: NAME]
    #[arg(long, value_name = "DIR")]
    folder: Option<PathBuf>,
}

/// A language that there is a skeleton for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum SkeletonLanguage {
    /// A plugin as APISIX has them
    Lua,
    /// A filter of proxy-wasm in Rust
    Wasm,
    /// A plugin for the runner of APISIX in Go
    Go,
}

/// The name that the skeletons have in the place of that of the plugin.
const PLACEHOLDER: &str = "PLUGIN_NAME";
/// As [`PLACEHOLDER`], in Go, where a module that is compiled has it.
const GO_PLACEHOLDER: &str = "my-plugin";

pub(super) fn execute_plugin_new(arguments: &NewArguments) -> anyhow::Result<ExitCode> {
    let name = interned_name(&arguments.name).map_err(anyhow::Error::msg)?;
    let folder = arguments.folder.clone().unwrap_or_else(|| PathBuf::from(name));
    if folder.exists() {
        bail!("{} exists already", folder.display());
    }
    let files = match arguments.language {
        SkeletonLanguage::Lua => LUA.as_slice(),
        SkeletonLanguage::Wasm => WASM.as_slice(),
        SkeletonLanguage::Go => GO.as_slice(),
    };
    for (path, text) in files {
        let text = text.replace(PLACEHOLDER, name).replace(GO_PLACEHOLDER, name);
        write(&folder.join(path.replace(PLACEHOLDER, name)), &text)?;
    }
    print(format_args!(
        "{} is written; a comment or its README says how to test and load it",
        folder.display()
    ));
    Ok(ExitCode::SUCCESS)
}

fn write(path: &Path, text: &str) -> anyhow::Result<()> {
    let about = || format!("cannot write {}", path.display());
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder).with_context(about)?;
    }
    fs::write(path, text).with_context(about)
}

/// The files of the skeleton in Lua.
const LUA: [(&str, &str); 3] = [
    ("PLUGIN_NAME.lua", include_str!("skeletons/lua/plugin.lua")),
    ("PLUGIN_NAME.test.yaml", include_str!("skeletons/lua/test.yaml")),
    ("README.md", include_str!("skeletons/lua/README.md")),
];
/// The files of the skeleton of a filter of proxy-wasm.
const WASM: [(&str, &str); 4] = [
    ("Cargo.toml", include_str!("skeletons/wasm/Cargo.toml.txt")),
    ("src/lib.rs", include_str!("skeletons/wasm/lib.rs.txt")),
    ("PLUGIN_NAME.test.yaml", include_str!("skeletons/wasm/test.yaml")),
    ("README.md", include_str!("skeletons/wasm/README.md")),
];
/// The files of the skeleton of a plugin for the runner in Go.
const GO: [(&str, &str); 4] = [
    ("go.mod", include_str!("skeletons/go/go.mod")),
    ("main.go", include_str!("skeletons/go/main.go")),
    ("plugin.go", include_str!("skeletons/go/plugin.go")),
    ("plugin_test.go", include_str!("skeletons/go/plugin_test.go")),
];
