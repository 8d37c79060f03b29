//! What a rank costs that was never talked to: with a VC, and known only.

use std::sync::Arc;

use ch3_shim::Builder;
use netmod_core::Config;

use super::Memory;
use crate::error::{Failure, Result};
use crate::place::{Place, Values};
use crate::report::Row;

/// A device in a job of `ranks`, in which no other process exists: what a VC to each of them takes that was made
/// and never connected, and what knowing them takes.
pub(super) fn measure(ranks: u32, netmod: Option<&str>) -> Result<Vec<Row>> {
    let (mut cfg, _) = Config::from_env().map_err(|e| Failure::new(e.to_string()))?;
    if let Some(name) = netmod {
        cfg.set("NETMOD", name).map_err(|e| Failure::new(format!("--netmod: {e}")))?;
    }
    crate::launch::log_to_stderr(&cfg, None)?;
    let eager_max = cfg.eager_max;
    let place = Place {
        rank: 0,
        size: ranks,
        job: format!("simulated job of {ranks}"),
        local_size: 1,
        values: Arc::new(Values::default().into()),
        stand_in: Some(0),
        gate: None,
    };
    let begin = Memory::now()?;
    let mut dev = Builder::new(cfg, Box::new(place)).build()?;
    let known = Memory::now()?;
    for rank in 1..ranks {
        // The one call that makes a VC and sends nothing.
        dev.set_eager_max(rank, eager_max)?;
    }
    let unused = Memory::now()?;
    let others = ranks - 1;
    let name = dev.netmods().first().map(ToString::to_string);
    dev.finalize()?;
    Ok(vec![
        Row {
            netmod: name.clone(),
            measured: Some("a VC to each, never connected, beside what knowing them takes".into()),
            ..unused.since(known).row("unused", ranks, others)
        },
        Row {
            netmod: name,
            measured: Some("a device that knows the ranks and has talked to none".into()),
            ..known.since(begin).row("known", ranks, ranks)
        },
    ])
}
