//! `connect`: what knowing, having used, and being connected to many other processes costs.

mod connected;
mod unused;

use crate::cli::ConnectArgs;
use crate::error::{Failure, Result};
use crate::launch::{self, Role};
use crate::report::Row;
use crate::{print, sys};

/// Value of the field `test`.
pub(crate) const TEST: &str = "connect";

/// Memory of this process at one time.
#[derive(Clone, Copy, Debug)]
struct Memory {
    /// Bytes allocated, including the allocator's headers; `None` if unknown.
    heap: Option<u64>,
    /// Resident bytes that this process has written.
    resident: u64,
}

impl Memory {
    fn now() -> Result<Memory> {
        Ok(Memory { heap: sys::heap_bytes(), resident: crate::alltoall::written_kib()? << 10 })
    }

    /// Returns the increase since `before`.
    fn since(self, before: Memory) -> Memory {
        Memory {
            heap: self.heap.zip(before.heap).map(|(a, b)| a.saturating_sub(b)),
            resident: self.resident.saturating_sub(before.resident),
        }
    }

    /// Makes a row of this memory divided by `n`; its value is the larger of the two counts.
    fn row(self, kind: &str, ranks: u32, n: u32) -> Row {
        let all = self.heap.unwrap_or(0).max(self.resident);
        Row {
            test: TEST.into(),
            kind: Some(kind.into()),
            ranks: Some(ranks),
            vcs: Some(n),
            value: crate::report::rounded(all as f64 / f64::from(n.max(1))),
            unit: "B".into(),
            heap_bytes: self.heap,
            resident_bytes: Some(self.resident),
            ..Row::default()
        }
    }
}

/// Measures as the command line says.
///
/// # Errors
/// What failed, and in which rank.
pub(crate) fn run(args: &ConnectArgs) -> Result<()> {
    if let Some(ranks) = args.simulate {
        return crate::only_here(|| print(&unused::measure(ranks, args.netmod.as_deref())?, args.json));
    }
    if let Role::Rank(mut sink) = launch::role()? {
        return match connected::rank(args)? {
            Some(rows) if !sink.deliver(&rows)? => print(&rows, args.json),
            _ => Ok(()),
        };
    }
    let job = launch::run_job(2, args.netmod.as_deref())?;
    if job.rows.is_empty() {
        return Err(Failure::new("rank 0 ended without a result"));
    }
    print(&job.rows, args.json)
}
