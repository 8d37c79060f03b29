//! `netmod-fuzz`: runs fuzz targets for a bounded time.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use netmod_fuzz::driver::{Finding, Limits, once, run};
use netmod_fuzz::{Target, targets};

const HELP: &str = "\
usage: netmod-fuzz [--seconds N] [--seed N] [--inputs N] [TARGET...]
       netmod-fuzz TARGET --input FILE
       netmod-fuzz --list

Runs each target, or all, with mutated inputs. An input that makes one panic is written to a file.

options
  --seconds N   seconds for each target [default: 10]
  --seed N      the same inputs again; otherwise they follow from the time
  --inputs N    most inputs for each target
  --input FILE  runs one input
  --list        prints the names of the targets
";

/// Options of the command line.
struct Args {
    targets: Vec<Target>,
    seconds: u64,
    seed: u64,
    inputs: u64,
    input: Option<PathBuf>,
    list: bool,
}

fn main() -> ExitCode {
    let args = match Args::parse(std::env::args().skip(1)) {
        Ok(args) => args,
        Err(why) => {
            eprint!("netmod-fuzz: {why}\n\n{HELP}");
            return ExitCode::from(2);
        }
    };
    match work(&args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("netmod-fuzz: {why}");
            ExitCode::FAILURE
        }
    }
}

fn work(args: &Args) -> Result<(), String> {
    if args.list {
        args.targets.iter().for_each(|target| println!("{}", target.name));
        return Ok(());
    }
    if let Some(path) = &args.input {
        let [target] = &args.targets[..] else { return Err("--input wants one target".into()) };
        let input = std::fs::read(path).map_err(|e| format!("cannot read {}: {e}", path.display()))?;
        let outcome = once(target, &input).map_err(|text| format!("{}: {text}", target.name))?;
        println!("{}: {outcome:?}", target.name);
        return Ok(());
    }
    let limits = Limits { time: Duration::from_secs(args.seconds), inputs: args.inputs };
    let mut failed = Vec::new();
    for target in &args.targets {
        // A finding is reported once, after it was made small.
        let hook = std::panic::take_hook();
        std::panic::set_hook(Box::new(|_| {}));
        let done = run(target, args.seed, limits);
        std::panic::set_hook(hook);
        match done {
            Ok(s) => println!(
                "{}: {} inputs, {} accepted, {} outcomes",
                target.name, s.inputs, s.accepted, s.outcomes
            ),
            Err(found) => failed.push(tell(target, args.seed, &found)?),
        }
    }
    if failed.is_empty() { Ok(()) } else { Err(format!("seed {}\n{}", args.seed, failed.join("\n"))) }
}

/// Writes the input of a finding to a file, and returns how to run it again.
fn tell(target: &Target, seed: u64, found: &Finding) -> Result<String, String> {
    let folder = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../target/fuzz"));
    let path = folder.join(format!("{}-{seed}.bin", target.name));
    std::fs::create_dir_all(&folder)
        .and_then(|()| std::fs::write(&path, &found.input))
        .map_err(|e| format!("cannot write {}: {e}; the input is {:?}", path.display(), found.input))?;
    let (name, path) = (target.name, path.display());
    Ok(format!(
        "{name}: {}\n  {} bytes in {path}; again: cargo run -p netmod-fuzz -- {name} --input {path}",
        found.text,
        found.input.len()
    ))
}

impl Args {
    fn parse(mut words: impl Iterator<Item = String>) -> Result<Args, String> {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let mut args = Args {
            targets: Vec::new(),
            seconds: 10,
            seed: since.as_secs(),
            inputs: u64::MAX,
            input: None,
            list: false,
        };
        while let Some(word) = words.next() {
            let mut number = || {
                let number = words.next().and_then(|n| n.parse().ok());
                number.ok_or_else(|| format!("{word} wants a number"))
            };
            match word.as_str() {
                "--seconds" => args.seconds = number()?,
                "--seed" => args.seed = number()?,
                "--inputs" => args.inputs = number()?,
                "--input" => args.input = Some(words.next().ok_or("--input wants a file")?.into()),
                "--list" => args.list = true,
                name => {
                    let found = targets::ALL.iter().find(|t| t.name == name);
                    args.targets
                        .push(*found.ok_or_else(|| format!("there is no target {name}; --list names them"))?);
                }
            }
        }
        if args.targets.is_empty() {
            args.targets = targets::ALL.to_vec();
        }
        Ok(args)
    }
}
