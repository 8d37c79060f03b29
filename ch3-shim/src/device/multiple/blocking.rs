//! Blocking calls with borrowed buffers.

#![allow(unsafe_code)]

use netmod_core::Segment;

use super::{Multiple, Shared};
use crate::ch3::INTERNAL;
use crate::device::{Comm, Device, RawReq, Vci};
use crate::error::Result;
use crate::pkt::Mode;
use crate::status::Status;

/// A request to which the caller's memory is lent: it is ended with this, whatever happens.
struct Lent<'a> {
    shared: &'a Shared,
    engine: u8,
    req: RawReq,
}

impl Lent<'_> {
    fn wait(mut self) -> Result<Status> {
        let req = self.req;
        let result = self.shared.engine(self.engine).wait(req, |v| {
            // Dropping the request ends one that a failure keeps from finishing.
            let pending = if v.is_finished(req) { None } else { v.unsettle(req) };
            pending.map_or_else(|| Ok(v.take(req).0), Err)
        })??;
        self.req = RawReq::NULL;
        result
    }
}

impl Drop for Lent<'_> {
    fn drop(&mut self) {
        if !self.req.is_over() && self.shared.check_origin().is_ok() {
            self.shared.engine(self.engine).lock.with(|v| v.reclaim(self.req));
        }
    }
}

impl Device<Multiple> {
    fn lend_send<'a>(
        &'a self,
        data: &'a [u8],
        dest: i32,
        tag: i32,
        comm: Comm,
        mode: Mode,
    ) -> Result<Lent<'a>> {
        let engine = self.store.number(comm)?;
        // SAFETY: borrowed as long as the request, which is not given out and ends with `Lent`; no
        // caller here forgets it.
        let seg = unsafe { Segment::contig(data.as_ptr().cast_mut(), data.len()) };
        let send = |v: &mut Vci| -> Result<RawReq> {
            let req = v.isend_raw(seg, dest, tag, comm, mode)?;
            // The holder of a complete request does not come back to the engine. One that waits
            // comes soon, and needs no helper.
            v.flush();
            Ok(req)
        };
        let req = self.store.engine(engine).lock.with(send)?;
        Ok(Lent { shared: &self.store, engine, req })
    }

    fn lend_recv<'a>(&'a self, buf: &'a mut [u8], source: i32, tag: i32, comm: Comm) -> Result<Lent<'a>> {
        let engine = self.store.number(comm)?;
        // SAFETY: as in `lend_send`, and borrowed exclusively.
        let seg = unsafe { Segment::contig(buf.as_mut_ptr(), buf.len()) };
        let receive = |v: &mut Vci| -> Result<RawReq> {
            let req = v.irecv_raw(seg, source, tag, comm)?;
            v.flush();
            Ok(req)
        };
        let req = self.store.engine(engine).lock.with(receive)?;
        Ok(Lent { shared: &self.store, engine, req })
    }

    /// Sends `data`; returns when it may be used again (`MPI_Send`).
    ///
    /// # Errors
    /// A bad rank or tag; a peer that is lost or cannot be reached.
    pub fn send(&self, data: &[u8], dest: i32, tag: i32, comm: Comm) -> Result<()> {
        self.send_mode(data, dest, tag, comm, Mode::Standard)
    }

    /// Works like [`Device::send`], in a send mode.
    ///
    /// # Errors
    /// As [`Device::send`].
    pub fn send_mode(&self, data: &[u8], dest: i32, tag: i32, comm: Comm, mode: Mode) -> Result<()> {
        let sent = self.lend_send(data, dest, tag, comm, mode)?;
        // A request of nothing was over at once, and nothing of it waits to be flushed.
        if sent.req.is_over() { Ok(()) } else { sent.wait().map(|_| ()) }
    }

    /// Receives into `buf` (`MPI_Recv`).
    ///
    /// # Errors
    /// A bad rank or tag; a message that does not fit; a peer that is lost.
    pub fn recv(&self, buf: &mut [u8], source: i32, tag: i32, comm: Comm) -> Result<Status> {
        self.lend_recv(buf, source, tag, comm)?.wait()
    }

    /// Sends and receives at once (`MPI_Sendrecv`).
    ///
    /// # Errors
    /// As [`Device::send`] and [`Device::recv`].
    #[allow(clippy::too_many_arguments)]
    pub fn sendrecv(
        &self,
        data: &[u8],
        dest: i32,
        send_tag: i32,
        buf: &mut [u8],
        source: i32,
        recv_tag: i32,
        comm: Comm,
    ) -> Result<Status> {
        let receive = self.lend_recv(buf, source, recv_tag, comm)?;
        let send = self.lend_send(data, dest, send_tag, comm, Mode::Standard)?;
        let received = receive.wait();
        send.wait()?;
        received
    }

    /// Waits until all processes of the communicator are here. Of each process one thread at a time
    /// may be in it.
    ///
    /// # Errors
    /// If a peer is lost or cannot be reached.
    pub fn barrier(&self, comm: Comm) -> Result<()> {
        let (me, n) = (self.rank(), self.size());
        let comm = Comm { context: comm.context | INTERNAL, ..comm };
        let mut step = 1;
        while step < n {
            let (to, from) = ((me + step) % n, (me + n - step) % n);
            self.sendrecv(&[], to as i32, 0, &mut [], from as i32, 0, comm)?;
            step *= 2;
        }
        Ok(())
    }
}
