//! Cost of a rank that this process has never talked to: with a VC, and without.

use std::sync::Arc;

use ch3_shim::Builder;
use ch3_shim::Config;

use super::Memory;
use crate::error::{Failure, Result};
use crate::memory_pm::{MemoryPm, Values};
use crate::report::Row;

/// Measures a device in a job of `ranks` processes that do not exist: the memory of an unconnected
/// VC to each, and of knowing them.
pub(super) fn measure(ranks: u32, netmod: Option<&str>) -> Result<Vec<Row>> {
    let mut cfg = Config::from_env().map_err(|e| Failure::new(e.to_string()))?;
    if let Some(name) = netmod {
        cfg.set("NETMOD", name).map_err(|e| Failure::new(format!("--netmod: {e}")))?;
    }
    crate::launch::log_to_stderr(&cfg, None)?;
    let eager_max = cfg.eager_max;
    let pm = MemoryPm {
        rank: 0,
        size: ranks,
        job: format!("simulated job of {ranks}"),
        local_size: 1,
        values: Arc::new(Values::default().into()),
        stand_in: Some(0),
        barrier: None,
    };
    let begin = Memory::now()?;
    let mut dev = Builder::new(cfg, Box::new(pm)).build()?;
    let known = Memory::now()?;
    for rank in 1..ranks {
        // The one call that makes a VC without sending.
        dev.set_eager_max(rank, eager_max)?;
    }
    let unused = Memory::now()?;
    let others = ranks - 1;
    let name = dev.netmods().first().map(ToString::to_string);
    dev.finalize()?;
    Ok(vec![
        Row {
            netmod: name.clone(),
            measured: Some("one VC to each rank, never connected; without the cost of knowing them".into()),
            ..unused.since(known).row("unused", ranks, others)
        },
        Row {
            netmod: name,
            measured: Some("a device that knows the ranks and has talked to none of them".into()),
            ..known.since(begin).row("known", ranks, ranks)
        },
    ])
}
