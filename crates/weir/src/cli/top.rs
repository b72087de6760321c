//! `weir top`: the busiest routes, upstreams, endpoints, consumers and causes of failures, live on the
//! terminal.

use std::io::IsTerminal;
use std::process::ExitCode;

use clap::ValueEnum;
use serde_json::{Value, json};

use crate::admin_client::{AdminClient, NodeArguments, agreed, decode_response};
use crate::terminal::{Paint, print};
use crate::top::data::{Overview, Top};
use crate::top::screen::printed;
use crate::top::state::TopState;
use crate::top::table::Tab;
use crate::top::{live, numbers::clean};

/// Show the traffic of the running instance, live
///
/// One line for each of the busiest routes, upstreams, endpoints, consumers, or causes of failures, with its
/// rate, its share of all requests, its failures and its 99th percentile. Keys: 1 to 5 or Tab for other rows,
/// `/` filters, s sorts, Enter shows all values, p pauses, q quits. Without a terminal, one table is printed.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct TopArguments {
    /// Rows to begin with
    #[arg(long, value_name = "ROWS", value_enum, default_value_t = Rows::Routes)]
    by: Rows,
    /// Seconds that rates are over
    #[arg(long, value_name = "SECONDS", default_value_t = 60, value_parser = clap::value_parser!(u64).range(10..=60))]
    window: u64,
    /// List at most so many rows
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u64).range(1..=1_000))]
    limit: u64,
    /// Print one table and end
    #[arg(long)]
    once: bool,
    /// Print the answers of the instance as JSON and end
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    node: NodeArguments,
}

/// The kinds of rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Rows {
    Routes,
    Upstreams,
    Endpoints,
    Consumers,
    Causes,
}

impl Rows {
    fn tab(self) -> Tab {
        match self {
            Rows::Routes => Tab::Routes,
            Rows::Upstreams => Tab::Upstreams,
            Rows::Endpoints => Tab::Endpoints,
            Rows::Consumers => Tab::Consumers,
            Rows::Causes => Tab::Causes,
        }
    }
}

/// Asks, and prints or shows the answer.
pub(crate) fn execute_top(arguments: &TopArguments) -> anyhow::Result<ExitCode> {
    let node = arguments.node.node()?;
    let tab = arguments.by.tab();
    let top = format!("window={}&limit={}", arguments.window, arguments.limit);
    if arguments.json {
        let overview: Value = agreed(node.ask_running("GET", OVERVIEW, "")?)?;
        let top: Value = agreed(node.ask_running("GET", &top_of(tab, &top), "")?)?;
        print(serde_json::to_string_pretty(&json!({ "overview": overview, "top": top }))?);
        return Ok(ExitCode::SUCCESS);
    }
    let paint = Paint::for_stdout();
    let is_terminal = std::io::stdout().is_terminal();
    let in_words = is_terminal && paint == Paint::Plain;
    let mut state = TopState::new(tab, in_words);
    if arguments.once || !is_terminal {
        state.take(tab, Ok(ask(&node, tab, &top)?));
        let width = if is_terminal { terminal_width() } else { PIPE_WIDTH };
        print(printed(&state, width, paint));
        return Ok(ExitCode::SUCCESS);
    }
    // Before the terminal is taken over, so that a wrong address is an error like that of other commands.
    state.take(tab, Ok(ask(&node, tab, &top)?));
    let asking = move |tab| ask(&node, tab, &top).map_err(|error| clean(&format!("{error:#}")));
    live::run_live_view(state, asking, paint == Paint::Colour)?;
    Ok(ExitCode::SUCCESS)
}

fn ask(node: &AdminClient, tab: Tab, arguments: &str) -> anyhow::Result<(Overview, Top)> {
    let overview = decode_response(node.ask_running("GET", OVERVIEW, "")?)?;
    let top = decode_response(node.ask_running("GET", &top_of(tab, arguments), "")?)?;
    Ok((overview, top))
}

fn top_of(tab: Tab, arguments: &str) -> String {
    format!("weir/top?by={}&{arguments}", tab.name())
}

fn terminal_width() -> usize {
    ratatui::crossterm::terminal::size().map_or(PIPE_WIDTH, |(columns, _)| usize::from(columns))
}

/// The figures of now. The shortest series, because none is shown.
const OVERVIEW: &str = "weir/overview?minutes=5";
/// The width of a table that goes to a file or a pipe.
const PIPE_WIDTH: usize = 160;
