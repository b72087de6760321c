//! The place where the commands of one page run: namespaces of their own for network, mounts and processes,
//! with the binary on the path, the servers that the page needs, and copies of `/etc`, `/usr` and `/var` that
//! may be written.

use std::fmt::Write;
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use crate::output::{begins_as_shown, is_shown};
use crate::page::{Block, Step, Use};
use crate::table::{Guide, PUT};

const BINARY: &str = env!("CARGO_BIN_EXE_weir");

/// The longest that the commands of a page may take, in seconds. The slowest page takes about ten on two
/// cores.
const LIMIT: &str = "100";

/// The root of the repository.
pub(crate) fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// The folders of one page.
pub(crate) struct Place {
    folder: tempfile::TempDir,
    guide: &'static Guide,
    unshare: Vec<&'static str>,
}

/// A command with its number in the script, which names the files of its output.
struct Numbered {
    number: usize,
    step: Step,
    stays: bool,
}

impl Place {
    /// Makes the folders; `None` where this machine has no namespaces for this user.
    pub(crate) fn new(guide: &'static Guide) -> Option<Place> {
        let unshare = namespaces()?;
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        for name in ["bin", "work", "outputs", "memory"] {
            fs::create_dir(at(name)).unwrap();
        }
        symlink(BINARY, at("bin/weir")).unwrap();
        // The pages say `sudo` where a reader needs it; the namespaces have one user, with all rights.
        fs::write(at("bin/sudo"), "#!/bin/sh\nexec \"$@\"\n").unwrap();
        fs::set_permissions(at("bin/sudo"), fs::Permissions::from_mode(0o755)).unwrap();
        for name in ["examples", "packaging"] {
            if repository().join(name).exists() {
                symlink(repository().join(name), at("work").join(name)).unwrap();
            }
        }
        Some(Place { folder, guide, unshare })
    }

    /// Runs the blocks; returns the faults.
    pub(crate) fn run(&self, blocks: &[Block]) -> Vec<String> {
        let mut script = self.beginning();
        let mut steps = Vec::new();
        for block in blocks {
            self.add(block, &mut script, &mut steps);
        }
        script += "echo 0 >\"$place/outputs/end\"\n";
        let file = self.folder.path().join("script");
        fs::write(&file, &script).unwrap();
        let mut command = Command::new("timeout");
        command.args(["--kill-after=5", LIMIT]).args(&self.unshare).arg("bash").arg(&file);
        for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("WEIR_")) {
            command.env_remove(name);
        }
        let ran = command.current_dir(self.folder.path()).stdin(Stdio::null()).output().unwrap();
        let mut faults: Vec<String> = steps.iter().filter_map(|step| self.fault(step)).collect();
        if self.printed("end").is_empty() {
            let rest = String::from_utf8_lossy(&ran.stderr).into_owned();
            faults.push(format!(
                "{}: the script did not reach its end: {}\n{rest}",
                self.guide.page, ran.status
            ));
        }
        if !faults.is_empty() {
            faults.push(format!("the gateway says:\n{}", self.printed("gateway.log")));
        }
        faults
    }

    fn beginning(&self) -> String {
        let setup = &self.guide.setup;
        let mut addresses: Vec<&str> = setup
            .origins
            .iter()
            .chain(setup.addresses)
            .filter_map(|address| Some(address.rsplit_once(':')?.0))
            .filter(|address| !address.starts_with("127."))
            .collect();
        addresses.sort_unstable();
        addresses.dedup();
        let tools = repository().join("crates/weir/tests/guides");
        let mut script = String::new();
        let _ = writeln!(script, "place={}", self.folder.path().display());
        let _ = writeln!(script, "repository={}", repository().display());
        let _ = writeln!(script, "addresses='{}' names='{}'", addresses.join(" "), setup.names.join(" "));
        let _ = writeln!(script, ". {}/place.sh", tools.display());
        for origin in setup.origins {
            let _ = writeln!(script, "origin {origin}");
        }
        if !setup.prepare.is_empty() {
            let _ = writeln!(script, "{}", setup.prepare);
        }
        if setup.gateway {
            script += "gateway\n";
        }
        if !setup.objects.is_empty() {
            let _ = writeln!(script, "{PUT}{}", setup.objects);
        }
        script
    }

    fn add(&self, block: &Block, script: &mut String, steps: &mut Vec<Numbered>) {
        let mut push = |step: Step, script: &mut String| {
            let number = steps.len() + 1;
            let stays = stays(&step.command);
            let _ = if stays {
                let command = step.command.trim_end().trim_end_matches('&');
                writeln!(
                    script,
                    "terminal {number} <<'END OF COMMAND'\n{command}\nEND OF COMMAND\nfinish {number} $?"
                )
            } else {
                let redirected =
                    format!(">\"$place/outputs/{number}.out\" 2>\"$place/outputs/{number}.err\"");
                writeln!(script, "{{ {}\n}} {redirected}\nfinish {number} $?", step.command)
            };
            steps.push(Numbered { number, step, stays });
        };
        let check = |file: &str| Step {
            place: block.place(),
            command: format!("weir check {file} >/dev/null"),
            output: None,
        };
        match &block.purpose {
            Use::Commands => block.steps().into_iter().for_each(|step| push(step, script)),
            Use::File(name, is_good) => {
                let _ = writeln!(
                    script,
                    "mkdir -p \"$(dirname {name})\"; cat >{name} <<'END OF FILE'\n{}END OF FILE",
                    block.text
                );
                if *is_good && [".yaml", ".json"].iter().any(|end| name.ends_with(end)) {
                    push(check(name), script);
                }
                if block.text.starts_with("#!") {
                    let _ = writeln!(script, "chmod 755 {name}");
                }
            }
            Use::Object(kind) => {
                let text = whole(kind, &block.text, &block.place());
                let name = format!("checked-{}.yaml", block.line);
                let _ = writeln!(script, "cat >{name} <<'END OF FILE'\n{text}\nEND OF FILE");
                push(check(&name), script);
            }
            Use::NotRun | Use::Shown => {}
        }
    }

    fn printed(&self, name: &str) -> String {
        let path = self.folder.path().join("outputs").join(name);
        fs::read(path).map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).unwrap_or_default()
    }

    /// The fault of a step, if there is one.
    fn fault(&self, Numbered { number, step, stays }: &Numbered) -> Option<String> {
        let (printed, errors) =
            (self.printed(&format!("{number}.out")), self.printed(&format!("{number}.err")));
        let status = self.printed(&format!("{number}.status")).trim().to_owned();
        let fault = match &step.output {
            _ if status.is_empty() => "was not reached".to_owned(),
            // A terminal shows both outputs.
            Some(shown)
                if *stays && (shown.is_empty() || begins_as_shown(shown, &format!("{printed}{errors}"))) =>
            {
                (status != "0").then(|| format!("ended with {status}"))?
            }
            // A page may show a command that fails: the output says so.
            Some(shown) if !shown.is_empty() && is_shown(shown, &printed) => return None,
            Some(shown) if !is_shown(shown, &printed) => format!("prints something else than\n{shown}"),
            _ if status != "0" => format!("ended with {status}"),
            _ if printed.contains("error_msg") => "was refused".to_owned(),
            _ => return None,
        };
        Some(format!("{}: {}\n{fault}\n--- it printed\n{printed}{errors}---", step.place, step.command))
    }
}

/// Whether a program goes on until it is ended, so that a reader starts it in a terminal of its own.
fn stays(command: &str) -> bool {
    let mut words = command.split_whitespace().skip_while(|word| word.contains('='));
    match words.next() {
        Some("weir") => matches!(words.next(), Some("run" | "origin")),
        Some(program) => program == "examples/try.sh",
        None => false,
    }
}

/// A whole resources or settings file with this part of one in it.
fn whole(kind: &str, text: &str, place: &str) -> String {
    if ["settings", "resources"].contains(&kind) {
        return text.to_owned();
    }
    let mut part: Value = serde_json::from_str(text).unwrap_or_else(|error| panic!("{place}: {error}"));
    let nodes = json!({"127.0.0.1:1980": 1});
    let resources = match kind {
        "upstream" => {
            let is_found = part.get("nodes").is_some() || part.get("service_name").is_some();
            if !is_found {
                part["nodes"] = nodes;
            }
            part["id"] = json!("page");
            json!({"upstreams": [part]})
        }
        "plugins" => {
            json!({"routes": [{"id": "page", "uri": "/page", "plugins": part, "upstream": {"nodes": nodes}}]})
        }
        "vars" => {
            json!({"routes": [{"id": "page", "uri": "/page", "vars": part, "upstream": {"nodes": nodes}}]})
        }
        "route" => {
            part["id"] = json!("page");
            json!({"routes": [part]})
        }
        _ => panic!("{place}: no kind of object is called {kind}"),
    };
    format!("{resources}\n#END")
}

/// The command that makes namespaces; `None` where it fails. Without root a namespace of users would be
/// needed too, in which the folders of the system belong to no user, so that `/etc` and `/var` could not be
/// written.
fn namespaces() -> Option<Vec<&'static str>> {
    let command = vec![
        "unshare",
        "--net",
        "--mount",
        "--pid",
        "--fork",
        "--kill-child",
        "--mount-proc",
        "--propagation",
        "private",
    ];
    let mut tried = Command::new(command[0]);
    tried.args(&command[1..]).arg("true").stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    tried.status().is_ok_and(|status| status.success()).then_some(command)
}

#[test]
#[allow(clippy::print_stderr, reason = "a skipped test says what was skipped")]
fn faults_of_a_page_are_found() {
    static PAGE: Guide = Guide { page: "PAGE.md", setup: crate::table::NOTHING, not_run: &[] };
    let Some(place) = Place::new(&PAGE) else {
        eprintln!("skipped: no commands were run, because unshare makes no namespaces here");
        return;
    };
    let text = "```console\n$ echo a\na\n$ echo a\nb\n```\n```sh\nfalse\nexport place_of=here\n```\n\
                ```console\n$ echo $place_of\nhere\n$ echo '{\"error_msg\":\"no\"}'\n…\n```\n\
                ```sh\necho '{\"error_msg\":\"no\"}'\n```\n```yaml settings\nproxi: 1\n```\n```sh not-run\nfalse\n```\n";
    let faults = place.run(&crate::page::blocks("PAGE.md", text));
    let places: Vec<&str> = faults.iter().filter_map(|fault| fault.split(": ").next()).collect();
    assert_eq!(places[..4], ["PAGE.md:4", "PAGE.md:8", "PAGE.md:18", "PAGE.md:20"], "{faults:#?}");
    assert_eq!(places.len(), 5, "four faults, and the log of the gateway: {faults:#?}");
}
