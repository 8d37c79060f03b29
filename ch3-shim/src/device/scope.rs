//! Scopes: borrowed buffers for requests that are all finished when the scope ends.

#![allow(unsafe_code)]

use std::borrow::Borrow;
use std::marker::PhantomData;

use netmod_core::Segment;

use super::{Comm, RawReq, Vci};
use crate::error::Result;
use crate::pkt::Mode;
use crate::status::Status;

/// A request of a scope.
#[derive(Debug)]
pub struct Scoped<'env> {
    raw: RawReq,
    /// Its place among the scope's requests; none of one that was over at once.
    place: usize,
    _lent: PhantomData<&'env mut &'env ()>,
}

/// A scope: requests in it may borrow memory that outlives the call of [`Vci::scope`].
#[derive(Debug)]
pub struct Scope<'dev, 'env> {
    dev: &'dev mut Vci,
    /// Those that were not waited for yet, each in a place of its own; null is a place that is
    /// free.
    reqs: Vec<RawReq>,
    /// The free places, so that a long scope takes no more of them than requests are under way at
    /// once.
    free: Vec<usize>,
    /// Invariant: a shorter `'env` would let a buffer of the closure's own be lent.
    _env: PhantomData<&'env mut &'env ()>,
}

impl<'env> Scope<'_, 'env> {
    /// Starts to send borrowed data.
    ///
    /// # Errors
    /// A bad rank or tag; a peer that cannot be reached.
    pub fn isend(&mut self, data: &'env [u8], dest: i32, tag: i32, comm: Comm) -> Result<Scoped<'env>> {
        self.isend_mode(data, dest, tag, comm, Mode::Standard)
    }

    /// Works like [`Scope::isend`], in a send mode.
    ///
    /// # Errors
    /// As [`Scope::isend`].
    pub fn isend_mode(
        &mut self,
        data: &'env [u8],
        dest: i32,
        tag: i32,
        comm: Comm,
        mode: Mode,
    ) -> Result<Scoped<'env>> {
        let req = self.begin_send(data, dest, tag, comm, mode);
        self.dev.end_call();
        req
    }

    /// Works like [`Scope::isend_mode`], for a caller that waits next, which ends the call.
    pub(super) fn begin_send(
        &mut self,
        data: &'env [u8],
        dest: i32,
        tag: i32,
        comm: Comm,
        mode: Mode,
    ) -> Result<Scoped<'env>> {
        // SAFETY: borrowed for `'env`, which outlives the scope, and the scope does not end (nor
        // unwind) before each of its requests is finished.
        let seg = unsafe { Segment::contig(data.as_ptr().cast_mut(), data.len()) };
        let raw = self.dev.isend_raw(seg, dest, tag, comm, mode)?;
        Ok(self.keep(raw))
    }

    /// Starts to receive into a borrowed buffer.
    ///
    /// # Errors
    /// A bad rank or tag; a peer whose connection is down.
    pub fn irecv(&mut self, buf: &'env mut [u8], source: i32, tag: i32, comm: Comm) -> Result<Scoped<'env>> {
        let req = self.begin_receive(buf, source, tag, comm);
        self.dev.end_call();
        req
    }

    /// Works like [`Scope::irecv`], for a caller that waits next, which ends the call.
    pub(super) fn begin_receive(
        &mut self,
        buf: &'env mut [u8],
        source: i32,
        tag: i32,
        comm: Comm,
    ) -> Result<Scoped<'env>> {
        // SAFETY: as in `begin_send`, and borrowed exclusively.
        let seg = unsafe { Segment::contig(buf.as_mut_ptr(), buf.len()) };
        let raw = self.dev.irecv_raw(seg, source, tag, comm)?;
        Ok(self.keep(raw))
    }

    fn keep(&mut self, raw: RawReq) -> Scoped<'env> {
        if raw.is_over() {
            return Scoped { raw, place: usize::MAX, _lent: PhantomData };
        }
        let place = self.free.pop().unwrap_or(self.reqs.len());
        match self.reqs.get_mut(place) {
            Some(free) => *free = raw,
            None => self.reqs.push(raw),
        }
        Scoped { raw, place, _lent: PhantomData }
    }

    /// Waits for one request before the scope ends.
    ///
    /// # Errors
    /// Of the message: truncated, or its peer lost. For a receive from any source
    /// [`crate::Error::PendingFailed`]: it stays posted, and can be waited for again if it was lent
    /// (`s.wait(&mut req)`); in any case the end of the scope waits for it.
    ///
    /// A second wait for a request that was finished is over at once, with the empty status.
    pub fn wait(&mut self, req: impl Borrow<Scoped<'env>>) -> Result<Status> {
        let Scoped { raw, place, .. } = *req.borrow();
        // Several sends may have one handle; each of them uses up its own share of it, once.
        if !raw.is_over() && self.reqs.get(place) != Some(&raw) {
            return self.dev.wait_raw(RawReq::NULL);
        }
        let status = self.dev.wait_raw(raw);
        if !raw.is_over() && self.dev.is_finished(raw) {
            self.reqs[place] = RawReq::NULL;
            self.free.push(place);
        }
        self.dev.end_call();
        status
    }

    /// Returns true if a request is finished, after one step of progress.
    ///
    /// # Errors
    /// Of a netmod.
    pub fn is_finished(&mut self, req: &Scoped<'env>) -> Result<bool> {
        self.dev.test_once(|d| d.is_finished(req.raw))?;
        self.dev.end_call();
        Ok(self.dev.is_finished(req.raw))
    }

    /// Asks for a request to be cancelled; its status says whether it was.
    pub fn cancel(&mut self, req: &Scoped<'env>) {
        self.dev.cancel_raw(req.raw);
        self.dev.end_call();
    }
}

/// Ends the scope's requests, also after a panic.
impl Drop for Scope<'_, '_> {
    fn drop(&mut self) {
        for raw in std::mem::take(&mut self.reqs) {
            if !raw.is_null() {
                self.dev.reclaim(raw);
            }
        }
    }
}

impl Vci {
    /// Lends borrowed buffers to requests: all of them are finished when this returns. If `f` fails
    /// or panics, those that are under way are cancelled. A send that has partly left, or whose
    /// receiver must be asked, ends in order if its receiver makes progress within
    /// `NETMOD_CLOSE_TIMEOUT`; after that, and in a panic, it takes its connection with it.
    ///
    /// # Errors
    /// What `f` returns; else the first failure of a message. Receives from any source that end
    /// with [`crate::Error::PendingFailed`] are cancelled: the scope ends.
    pub fn scope<'env, R>(&mut self, f: impl FnOnce(&mut Scope<'_, 'env>) -> Result<R>) -> Result<R> {
        let mut scope = Scope { dev: self, reqs: Vec::new(), free: Vec::new(), _env: PhantomData };
        let result = f(&mut scope)?;
        let mut reqs = std::mem::take(&mut scope.reqs);
        let waited = scope.dev.wait_all_raw(&mut reqs, None);
        // Used-up requests are null; if a netmod failed, some are not, and the scope ends them.
        scope.reqs = reqs;
        waited.map(|()| result)
    }
}

/// ```compile_fail
/// # fn f(dev: &mut ch3_shim::Device) -> ch3_shim::Result<()> {
/// let world = dev.world();
/// dev.scope(|s| {
///     let mut own = [0u8; 4]; // does not outlive the scope
///     s.irecv(&mut own, 0, 0, world)?;
///     Ok(())
/// })
/// # }
/// ```
#[cfg(doctest)]
struct LocalsCannotBeLent;
