//! Operations of windows: MPI's functions.

use std::sync::Arc;

use ch3_shim::{RawReq, Vci};

use super::apply::Accumulation;
use super::object::Window;
use super::origin::{Elements, Left};
use crate::comm::CommRef;
use crate::consts::PROC_NULL;
use crate::datatype::basic::{Basic, Kind as TypeKind};
use crate::datatype::{Buf, TypeDesc, Types};
use crate::error::{Class, MpiError, Result};
use crate::handle::{Datatype, Op, Request, Win};
use crate::instance::{Mpi, State};
use crate::op::Builtin;
use crate::request::{Ends, Kind};

/// The target of an operation, as a call names it.
#[derive(Clone, Copy)]
struct At {
    rank: i32,
    disp: i64,
    count: i64,
    datatype: Datatype,
}

/// Notes in an error the window that it is about.
#[cold]
pub(super) fn raised(mut error: Box<MpiError>, win: Win) -> Box<MpiError> {
    error.comm = Some(win.0);
    error
}

/// Returns the predefined type that all elements of a type have.
fn element(desc: &TypeDesc) -> Result<&'static Basic> {
    desc.element().ok_or_else(|| {
        MpiError::new(
            Class::TYPE,
            "an accumulation needs datatypes whose elements all have one predefined type",
        )
    })
}

/// Returns the operation of an accumulation.
///
/// # Errors
/// [`Class::OP`] if it is none that MPI allows there.
fn builtin(op: Op) -> Result<Builtin> {
    Builtin::of(op).ok_or_else(|| {
        let text = format!(
            "operation {:#010x} is not predefined: accumulations take MPI_SUM and its like, MPI_REPLACE and MPI_NO_OP",
            op.0
        );
        MpiError::new(Class::OP, text)
    })
}

/// Prepares an accumulation with data of a type.
fn accumulation(op: Op, origin: Option<&TypeDesc>, target: &TypeDesc) -> Result<Accumulation> {
    let basic = element(target)?;
    if let Some(origin) = origin {
        let own = element(origin)?;
        if (own.size, own.repr) != (basic.size, basic.repr) {
            let text = format!(
                "the origin's elements are {} and the target's {}; give the same predefined type",
                own.name, basic.name
            );
            return Err(MpiError::new(Class::TYPE, text));
        }
    }
    Accumulation::new(builtin(op)?, basic)
}

impl Mpi {
    /// Runs an operation on a target, unless that is nobody. Returns the answer that is left to
    /// wait for.
    #[inline]
    fn on_target(
        &self,
        win: Win,
        at: At,
        f: impl FnOnce(&mut Window, &mut Vci, &Types, &Elements<'_>) -> Result<Left>,
    ) -> Result<Option<(u32, RawReq)>> {
        let left = self.with(|s| {
            let State { dev, objects, .. } = s;
            let window = objects.wins.table.get_mut(win)?;
            if at.rank == PROC_NULL {
                return Ok((0, Left::Done));
            }
            let run = || {
                let rank = window.check_rank(at.rank)?;
                window.epochs.check_access(rank)?;
                window.ask_late_lock(dev, rank)?;
                let desc = objects.types.committed(at.datatype, at.count)?;
                let elements = Elements { rank, disp: at.disp, desc, count: at.count as usize };
                if at.disp < 0 && window.is_based() {
                    return Err(negative(at.disp));
                }
                Ok((rank, f(window, dev, &objects.types, &elements)?))
            };
            run().map_err(|e| raised(e, win))
        })?;
        Ok(match left {
            (_, Left::Done) => None,
            (rank, Left::Answer(raw)) => Some((rank, raw)),
            (_, Left::Copy(copy)) => {
                copy.run();
                None
            }
        })
    }

    /// Runs an operation, and returns a request for its answer.
    fn with_request(
        &self,
        win: Win,
        at: At,
        f: impl FnOnce(&mut Window, &mut Vci, &Types, &Elements<'_>) -> Result<Left>,
    ) -> Result<Request> {
        let Some((rank, raw)) = self.on_target(win, at, f)? else { return Ok(Request::COMPLETE) };
        self.with(|s| {
            let window = s.objects.wins.get_mut(win)?;
            window.give_away(rank, raw);
            let core = Arc::clone(&window.core);
            s.requests.insert(Kind::Recv(raw, CommRef::Held(core), Ends::default()))
        })
    }

    /// Writes to a target (`MPI_Put`).
    ///
    /// # Errors
    /// A bad handle, rank, range or type; a call outside of an access epoch; a target that is lost.
    #[inline]
    pub fn put(
        &self,
        origin: Buf,
        rank: i32,
        disp: i64,
        count: i64,
        datatype: Datatype,
        win: Win,
    ) -> Result<()> {
        self.on_target(win, At { rank, disp, count, datatype }, |window, vci, types, elements| {
            window.put(vci, types.segment(&origin)?, elements)
        })
        .map(|_| ())
    }

    /// Reads from a target (`MPI_Get`).
    ///
    /// # Errors
    /// As [`Mpi::put`].
    #[inline]
    pub fn get(
        &self,
        origin: Buf,
        rank: i32,
        disp: i64,
        count: i64,
        datatype: Datatype,
        win: Win,
    ) -> Result<()> {
        self.on_target(win, At { rank, disp, count, datatype }, |window, vci, types, elements| {
            window.get(vci, types.segment(&origin)?, elements)
        })
        .map(|_| ())
    }

    /// Writes to a target, with a request (`MPI_Rput`).
    ///
    /// # Errors
    /// As [`Mpi::put`].
    pub fn rput(
        &self,
        origin: Buf,
        rank: i32,
        disp: i64,
        count: i64,
        datatype: Datatype,
        win: Win,
    ) -> Result<Request> {
        self.with_request(win, At { rank, disp, count, datatype }, |window, vci, types, elements| {
            window.put(vci, types.segment(&origin)?, elements)
        })
    }

    /// Reads from a target, with a request (`MPI_Rget`).
    ///
    /// # Errors
    /// As [`Mpi::put`].
    pub fn rget(
        &self,
        origin: Buf,
        rank: i32,
        disp: i64,
        count: i64,
        datatype: Datatype,
        win: Win,
    ) -> Result<Request> {
        self.with_request(win, At { rank, disp, count, datatype }, |window, vci, types, elements| {
            window.get(vci, types.segment(&origin)?, elements)
        })
    }

    /// Combines data with a target's (`MPI_Accumulate`).
    ///
    /// # Errors
    /// As [`Mpi::put`]; an operation that is not predefined, or not for this type.
    #[allow(clippy::too_many_arguments)]
    pub fn accumulate(
        &self,
        origin: Buf,
        rank: i32,
        disp: i64,
        count: i64,
        datatype: Datatype,
        op: Op,
        win: Win,
    ) -> Result<()> {
        self.on_target(win, At { rank, disp, count, datatype }, |window, vci, types, elements| {
            let (data, own) = types.typed_segment(&origin)?;
            if data.total() == 0 || elements.count == 0 {
                return builtin(op).map(|_| Left::Done);
            }
            let accumulation = accumulation(op, Some(own), elements.desc)?;
            window.accumulate(vci, accumulation, data, elements).map(|()| Left::Done)
        })
        .map(|_| ())
    }

    /// Combines data with a target's, with a request (`MPI_Raccumulate`).
    ///
    /// # Errors
    /// As [`Mpi::accumulate`].
    #[allow(clippy::too_many_arguments)]
    pub fn raccumulate(
        &self,
        origin: Buf,
        rank: i32,
        disp: i64,
        count: i64,
        datatype: Datatype,
        op: Op,
        win: Win,
    ) -> Result<Request> {
        self.accumulate(origin, rank, disp, count, datatype, op, win).map(|()| Request::COMPLETE)
    }

    /// Combines data with a target's and fetches what was there (`MPI_Get_accumulate`).
    ///
    /// # Errors
    /// As [`Mpi::accumulate`].
    #[allow(clippy::too_many_arguments)]
    pub fn get_accumulate(
        &self,
        origin: Buf,
        result: Buf,
        rank: i32,
        disp: i64,
        count: i64,
        datatype: Datatype,
        op: Op,
        win: Win,
    ) -> Result<()> {
        self.on_target(win, At { rank, disp, count, datatype }, fetching(origin, result, op)).map(|_| ())
    }

    /// Works like [`Mpi::get_accumulate`], with a request (`MPI_Rget_accumulate`).
    ///
    /// # Errors
    /// As [`Mpi::accumulate`].
    #[allow(clippy::too_many_arguments)]
    pub fn rget_accumulate(
        &self,
        origin: Buf,
        result: Buf,
        rank: i32,
        disp: i64,
        count: i64,
        datatype: Datatype,
        op: Op,
        win: Win,
    ) -> Result<Request> {
        self.with_request(win, At { rank, disp, count, datatype }, fetching(origin, result, op))
    }

    /// Combines an element with a target's and fetches what was there (`MPI_Fetch_and_op`). Both
    /// buffers have one element of the type.
    ///
    /// # Errors
    /// As [`Mpi::accumulate`]; a type that is not predefined.
    pub fn fetch_and_op(
        &self,
        [origin, result]: [Buf; 2],
        rank: i32,
        disp: i64,
        op: Op,
        win: Win,
    ) -> Result<()> {
        let (fetch, datatype) = (fetching(origin, result, op), result.datatype());
        self.on_target(win, At { rank, disp, count: 1, datatype }, |window, vci, types, elements| {
            let basic = predefined(elements.desc)?;
            if window.fetch_quickly(vci, (op, basic), [&origin, &result], elements)? {
                return Ok(Left::Done);
            }
            fetch(window, vci, types, elements)
        })
        .map(|_| ())
    }

    /// Sets an element of a target to that of `origin` if it equals that of `compare`, and fetches
    /// what was there (`MPI_Compare_and_swap`). The buffers have one element of the type.
    ///
    /// # Errors
    /// As [`Mpi::put`]; a type that is no predefined integer, truth value or byte.
    pub fn compare_and_swap(
        &self,
        [origin, compare, result]: [Buf; 3],
        rank: i32,
        disp: i64,
        win: Win,
    ) -> Result<()> {
        let datatype = result.datatype();
        self.on_target(win, At { rank, disp, count: 1, datatype }, |window, vci, types, elements| {
            let basic = predefined(elements.desc)?;
            // Characters are integers of C, though no operation is defined on them.
            let is_char = basic.kind == TypeKind::Opaque && basic.size == 1;
            let may_swap = matches!(
                basic.kind,
                TypeKind::Integer | TypeKind::FortranInteger | TypeKind::Logical | TypeKind::Byte
            );
            if !may_swap && !is_char {
                let text = format!(
                    "MPI_Compare_and_swap is for integers, truth values and bytes, not for {}; give another type",
                    basic.name
                );
                return Err(MpiError::new(Class::TYPE, text));
            }
            let values = [types.segment(&origin)?, types.segment(&compare)?];
            window.compare_and_swap(vci, basic, values, types.segment(&result)?, elements)
        })
        .map(|_| ())
    }
}

/// Returns the operation that fetches elements and combines them with data.
fn fetching(
    origin: Buf,
    result: Buf,
    op: Op,
) -> impl FnOnce(&mut Window, &mut Vci, &Types, &Elements<'_>) -> Result<Left> {
    move |window, vci, types, elements| {
        let room = types.segment(&result)?;
        if builtin(op)? == Builtin::NoOp {
            let accumulation = accumulation(op, None, elements.desc)?;
            return window.get_accumulate(vci, accumulation, netmod_core::Segment::empty(), room, elements);
        }
        let (data, own) = types.typed_segment(&origin)?;
        if elements.count == 0 || elements.desc.size() == 0 {
            return Ok(Left::Done);
        }
        let accumulation = accumulation(op, Some(own), elements.desc)?;
        window.get_accumulate(vci, accumulation, data, room, elements)
    }
}

/// Returns the predefined type of a single element.
fn predefined(desc: &TypeDesc) -> Result<&'static Basic> {
    desc.basic.filter(|_| desc.handle().is_some()).ok_or_else(|| {
        MpiError::new(
            Class::TYPE,
            "an operation on one element needs a predefined datatype; the type is derived",
        )
    })
}

#[cold]
fn negative(disp: i64) -> Box<MpiError> {
    MpiError::new(
        Class::DISP,
        format!("displacement {disp} is less than 0; give one within the target's memory"),
    )
}
