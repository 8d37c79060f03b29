//! `mpivars`: prints the variables, categories and events of the tool interface, as MPICH's does.
//!
//! Without arguments MPI is not initialized: settings are those of the environment. With `-i` the
//! process initializes MPI first, and figures are its own.

use std::error::Error;
use std::fmt::Display;
use std::io::{self, Write};
use std::sync::Arc;

use netmod_mpi::tool::controls::Scope;
use netmod_mpi::tool::events::KINDS;
use netmod_mpi::tool::{Answer, Lists, Running, Tool, Value};
use netmod_mpi::{Anytime, Codes, Mpi, on_stderr};

const HELP: &str = "\
usage: mpivars [-i]
Prints the control and performance variables, categories and events of MPI_T.
  -i   initialize MPI first, and print the values of a process that runs";

fn main() -> std::process::ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let running = match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [] => false,
        ["-i"] => true,
        ["-h" | "--help"] => {
            println!("{HELP}");
            return std::process::ExitCode::SUCCESS;
        }
        _ => {
            on_stderr(&HELP);
            return std::process::ExitCode::from(2);
        }
    };
    match print_all(running) {
        Ok(()) => std::process::ExitCode::SUCCESS,
        Err(why) => {
            on_stderr(&format_args!("mpivars: {why}"));
            std::process::ExitCode::FAILURE
        }
    }
}

fn print_all(running: bool) -> Result<(), Box<dyn Error>> {
    let anytime = Arc::new(Anytime::new(Arc::new(Codes::default())));
    let mpi = match running {
        true => Some(Mpi::init_from_env(0, Arc::clone(&anytime))?),
        false => None,
    };
    let tool = anytime.tool();
    tool.begin();
    let text = all(tool, mpi.as_ref().map(|mpi| -> &dyn Running { mpi }))
        .map_err(|class| format!("the tool interface has failed: {class:?}"))?;
    let written = io::stdout().write_all(text.as_bytes());
    if let Some(mpi) = mpi {
        mpi.finalize()?;
    }
    written.map_err(|e| format!("the standard output takes no text: {e}").into())
}

fn all(tool: &Arc<Tool>, running: Option<&dyn Running>) -> Answer<String> {
    let lists = tool.lists()?;
    let mut text = controls(tool, lists, running)?;
    text += &figures(tool, lists, running)?;
    text += &format!("\n{} events\n", KINDS.len());
    for kind in &KINDS {
        text += &format!("    {:<34}{}\n", kind.name, kind.meaning);
    }
    text += &format!("\n{} categories\n", lists.categories.len());
    for category in &lists.categories {
        text += &format!(
            "    {:<34}{}; {} control variables, {} performance variables, {} events, {} categories\n",
            category.name,
            category.meaning,
            category.controls.len(),
            category.figures.len(),
            category.events.len(),
            category.categories.len()
        );
    }
    Ok(text)
}

/// Returns a line: name and value, its type, further words, and the meaning below.
fn line(name: &str, value: &Value, words: &[&dyn Display], meaning: &str) -> String {
    let (kind, value) = match value {
        Value::Int(n) => ("MPI_INT", n.to_string()),
        Value::Count(n) => ("MPI_COUNT", n.to_string()),
        Value::Number(n) => ("MPI_UNSIGNED_LONG_LONG", n.to_string()),
        Value::Real(n) => ("MPI_DOUBLE", n.to_string()),
        Value::Text(text) => ("MPI_CHAR", format!("\"{text}\"")),
    };
    let words: String = words.iter().map(|word| format!(", {word}")).collect();
    format!("    {:<34}{kind}{words}\n        {meaning}\n", format!("{name}={value}"))
}

fn controls(tool: &Tool, lists: &Lists, running: Option<&dyn Running>) -> Answer<String> {
    let mut text = format!("{} control variables\n", lists.controls.len());
    for (index, control) in lists.controls.iter().enumerate() {
        let (handle, _) = tool.control_alloc(index)?;
        let value = tool.control_read(running, handle)?;
        tool.control_free(handle)?;
        let scope = match control.scope {
            Scope::Local => "local",
            Scope::GroupEqual => "equal within a node",
            Scope::AllEqual => "equal in all processes",
        };
        let items = control.enumeration.and_then(|at| lists.enums.get(at));
        let items = items.map_or_else(String::new, |e| format!(" [{}]", e.items.join(", ")));
        let meaning = format!("{}{items}", control.meaning);
        text += &line(control.name, &value, &[&scope, &format_args!("{:?}", control.verbosity)], &meaning);
    }
    Ok(text)
}

fn figures(tool: &Tool, lists: &Lists, running: Option<&dyn Running>) -> Answer<String> {
    let session = tool.session_create()?;
    let mut text = format!("\n{} performance variables\n", lists.figures.len());
    for (index, figure) in lists.figures.iter().enumerate() {
        let handle = tool.handle_alloc(running, session, index)?;
        let value = tool.handle_read(running, (session, handle))?;
        let words: [&dyn Display; 2] =
            [&format_args!("{:?}", figure.class), &format_args!("{:?}", figure.verbosity)];
        text += &line(&figure.name, &value, &words, &figure.meaning);
    }
    tool.session_free(session)?;
    Ok(text)
}
