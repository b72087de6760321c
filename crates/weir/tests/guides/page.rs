//! The fenced blocks of a page, and what the word behind their language says about them.
//!
//! | language | word | use |
//! |---|---|---|
//! | `console`, `sh`, `bash` | none | commands: those behind `$ ` with their output, or all lines |
//! | `console`, `sh`, `bash` | `not-run` | commands that are not run; the reason is in the table |
//! | any | a word with a dot or a slash | a file of this name, which `weir check` accepts if it is YAML or JSON |
//! | any | such a word, and `faulty`, `foreign` or `object` | a file that is not checked: with faults that the page is about, of another program, or one object |
//! | `yaml`, `json` | `settings`, `resources` | such a file, which is only checked |
//! | `yaml`, `json` | `route`, `upstream`, `plugins`, `vars`, … | such an object or part of one, which is checked |
//! | `yaml`, `json` | `response`, `foreign` | shown: an answer, or a file of another program |
//! | any other | | shown |

use std::process::{Command, Stdio};

/// A fenced block.
#[derive(Debug)]
pub(crate) struct Block {
    pub(crate) page: String,
    pub(crate) line: usize,
    pub(crate) text: String,
    pub(crate) purpose: Use,
    has_prompts: bool,
}

/// The use of a block.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Use {
    Commands,
    NotRun,
    /// A file: its name, and whether it has no fault.
    File(String, bool),
    Object(String),
    Shown,
}

/// A command, and its output on the page; `None` where the page shows commands only.
#[derive(Debug)]
pub(crate) struct Step {
    pub(crate) place: String,
    pub(crate) command: String,
    pub(crate) output: Option<String>,
}

impl Block {
    /// The page and the line, for messages.
    pub(crate) fn place(&self) -> String {
        format!("{}:{}", self.page, self.line)
    }

    /// The commands of the block.
    pub(crate) fn steps(&self) -> Vec<Step> {
        let mut steps: Vec<Step> = Vec::new();
        let mut is_open = false;
        for (index, line) in self.text.lines().enumerate() {
            let place = format!("{}:{}", self.page, self.line + 1 + index);
            let begins = match self.has_prompts {
                true => line.strip_prefix("$ "),
                false => Some(line),
            };
            match begins {
                _ if is_open => {
                    let step = steps.last_mut().unwrap();
                    step.command += &format!("\n{line}");
                    is_open = !is_complete(&step.command);
                }
                Some(command) if command.trim().is_empty() || command.starts_with('#') => {}
                Some(command) => {
                    is_open = !is_complete(command);
                    let output = self.has_prompts.then(String::new);
                    steps.push(Step { place, command: command.to_owned(), output });
                }
                None => {
                    let step = steps.last_mut().unwrap_or_else(|| panic!("{place}: output before a command"));
                    step.output.get_or_insert_default().push_str(&format!("{line}\n"));
                }
            }
        }
        assert!(!is_open, "{}: the last command is cut", self.place());
        steps
    }
}

/// Whether a shell reads this as a whole command.
fn is_complete(command: &str) -> bool {
    if command.ends_with('\\') {
        return false;
    }
    // The shell only warns about a here-document without an end.
    let checked = Command::new("bash").args(["-n", "-c", command]).stdin(Stdio::null()).output().unwrap();
    checked.status.success() && checked.stderr.is_empty()
}

/// The fenced blocks of a page.
pub(crate) fn blocks(page: &str, text: &str) -> Vec<Block> {
    let mut blocks = Vec::new();
    let mut lines = text.lines().enumerate();
    while let Some((index, line)) = lines.next() {
        let Some(info) = line.trim_start().strip_prefix("```") else { continue };
        let indent = line.len() - line.trim_start().len();
        let body: Vec<&str> =
            lines.by_ref().map(|(_, line)| line).take_while(|line| line.trim() != "```").collect();
        let body = body.iter().map(|line| format!("{}\n", line.get(indent..).unwrap_or_default()));
        let (language, word) = info.split_once(' ').unwrap_or((info, ""));
        blocks.push(Block {
            page: page.to_owned(),
            line: index + 1,
            text: body.collect(),
            purpose: purpose(language, word, &format!("{page}:{}", index + 1)),
            has_prompts: language == "console",
        });
    }
    blocks
}

fn purpose(language: &str, word: &str, place: &str) -> Use {
    let is_shell = ["console", "sh", "bash"].contains(&language);
    let is_data = ["yaml", "json"].contains(&language);
    match word {
        "not-run" if is_shell => Use::NotRun,
        "" if is_shell => Use::Commands,
        "" if is_data => panic!("{place}: the word behind `{language}` says the use of the block"),
        _ if word.contains(['.', '/']) => match word.split_once(' ') {
            Some((name, "faulty" | "foreign" | "object")) => Use::File(name.to_owned(), false),
            Some((_, other)) => panic!("{place}: no file is called {other}"),
            None => Use::File(word.to_owned(), true),
        },
        "response" | "foreign" if is_data => Use::Shown,
        "" => Use::Shown,
        _ if is_data => Use::Object(word.to_owned()),
        _ => panic!("{place}: no use is called {word}"),
    }
}
