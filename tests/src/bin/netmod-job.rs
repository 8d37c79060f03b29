//! `netmod-job CASE [NUMBER...]`: one rank of a job that tests the transport under a launcher.

use std::process::ExitCode;
use std::time::Duration;

use ch3_shim::{Builder, Device, Multiple};
use netmod_tests::jobs::kills::before_joining;
use netmod_tests::jobs::threads::{SHARED_CASES, SharedCase};
use netmod_tests::jobs::{Args, CASES, Case, End, LIMIT, Result, case};

/// Ends the process when the time is up, so that no launcher can leave it behind.
fn watchdog(name: &'static str) -> Result<()> {
    let Ok(limit) = std::env::var(LIMIT) else { return Ok(()) };
    let limit = limit.parse().map_err(|_| format!("{LIMIT}={limit} is not a number of seconds"))?;
    let watch = move || {
        std::thread::sleep(Duration::from_secs(limit));
        eprintln!("netmod-job: {name}: still running after {limit} s ({LIMIT})");
        std::process::exit(3);
    };
    std::thread::Builder::new().name("watchdog".into()).spawn(watch)?;
    Ok(())
}

/// Prints diagnostics on stderr, if `NETMOD_LOG` asks for them.
fn log() -> Result<()> {
    let Ok(filter) = std::env::var("NETMOD_LOG") else { return Ok(()) };
    let filter = tracing_subscriber::EnvFilter::try_new(filter)?;
    let subscriber = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    tracing::subscriber::set_global_default(subscriber.with_ansi(false).without_time().finish())?;
    Ok(())
}

fn run(case: &'static Case, args: &Args) -> Result<()> {
    watchdog(case.name)?;
    // Before anybody else knows this process.
    if let Some(rank) = std::env::var("PMI_RANK").ok().and_then(|r| r.parse().ok()) {
        before_joining(case.name, args, rank)?;
    }
    let builder = Builder::from_env()?;
    if case.name == "late" && builder.name().rank == 1 {
        std::thread::sleep(Duration::from_secs(args.get(0, 2)));
    }
    let mut dev = builder.build()?;
    let rank = dev.rank();
    let end = (case.body)(&mut dev, args).map_err(|e| format!("rank {rank}: {e}"))?;
    match end {
        End::Finalize => dev.finalize().map_err(|e| format!("rank {rank}: finalize: {e}"))?,
        End::Abort(code) => dev.abort(code, "as the case asks"),
        End::Leave => std::process::exit(0),
        End::Child => {
            drop(dev);
            netmod_tests::jobs::sys::exit_now(0)
        }
    }
    println!("rank {rank}: {} ok", case.name);
    Ok(())
}

/// Runs a case like [`run`], with a device that all threads use.
fn run_shared(case: &'static SharedCase, args: &Args) -> Result<()> {
    watchdog(case.name)?;
    let dev = Device::init_thread::<Multiple>()?;
    let rank = dev.rank();
    let end = (case.body)(&dev, args).map_err(|e| format!("rank {rank}: {e}"))?;
    match end {
        End::Finalize => dev.finalize().map_err(|e| format!("rank {rank}: finalize: {e}"))?,
        End::Abort(code) => dev.abort(code, "as the case asks"),
        End::Leave => std::process::exit(0),
        End::Child => {
            drop(dev);
            netmod_tests::jobs::sys::exit_now(0)
        }
    }
    println!("rank {rank}: {} ok", case.name);
    Ok(())
}

fn main() -> ExitCode {
    if let Err(e) = log() {
        eprintln!("netmod-job: NETMOD_LOG: {e}");
        return ExitCode::from(2);
    }
    let mut args = std::env::args().skip(1);
    let name = args.next().unwrap_or_default();
    if let Some(case) = SHARED_CASES.iter().find(|c| c.name == name) {
        return match Args::parse(args).and_then(|args| run_shared(case, &args)) {
            Ok(()) => ExitCode::SUCCESS,
            Err(e) => {
                eprintln!("netmod-job: {}: {e}", case.name);
                ExitCode::FAILURE
            }
        };
    }
    let Some(case) = case(&name) else {
        eprintln!("usage: netmod-job CASE [NUMBER...], started by nmrun or mpiexec.hydra; the cases:");
        for c in CASES {
            eprintln!("  {} {}", c.name, c.help);
        }
        for c in SHARED_CASES {
            eprintln!("  {} {}", c.name, c.help);
        }
        return ExitCode::from(2);
    };
    match Args::parse(args).and_then(|args| run(case, &args)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            eprintln!("netmod-job: {}: {e}", case.name);
            ExitCode::FAILURE
        }
    }
}
