//! Blocking calls with borrowed buffers.

#![allow(unsafe_code)]

use netmod_core::Segment;

use super::{Comm, RawReq, Vci};
use crate::ch3::{INTERNAL, WORLD};
use crate::error::{Error, Result};
use crate::pkt::Mode;
use crate::status::Status;

/// Ends its request if the call that made it is left early, by an error or a panic.
pub(super) struct Guard<'a> {
    pub(super) dev: &'a mut Vci,
    pub(super) req: RawReq,
}

impl Guard<'_> {
    #[inline]
    pub(super) fn wait(mut self) -> Result<Status> {
        match self.dev.wait_raw(self.req) {
            Ok(status) => {
                self.req = RawReq::NULL;
                Ok(status)
            }
            Err(e) => {
                if self.dev.is_finished(self.req) {
                    self.req = RawReq::NULL;
                }
                Err(e)
            }
        }
    }
}

impl Drop for Guard<'_> {
    #[inline]
    fn drop(&mut self) {
        if !self.req.is_over() {
            self.dev.reclaim(self.req);
        }
    }
}

impl Vci {
    /// Sends `data`; returns when it may be used again (`MPI_Send`).
    ///
    /// # Errors
    /// A bad rank or tag; a peer that is lost or cannot be reached.
    #[inline]
    pub fn send(&mut self, data: &[u8], dest: i32, tag: i32, comm: Comm) -> Result<()> {
        self.send_mode(data, dest, tag, comm, Mode::Standard)
    }

    /// Works like [`Vci::send`], in a send mode.
    ///
    /// # Errors
    /// As [`Vci::send`].
    #[inline]
    pub fn send_mode(&mut self, data: &[u8], dest: i32, tag: i32, comm: Comm, mode: Mode) -> Result<()> {
        // SAFETY: borrowed during this call, which does not end before the request is finished: the
        // guard sees to that.
        let seg = unsafe { Segment::contig(data.as_ptr().cast_mut(), data.len()) };
        let req = self.isend_raw(seg, dest, tag, comm, mode)?;
        if req.is_over() {
            self.flush();
            return Ok(());
        }
        Guard { dev: self, req }.wait().map(|_| ())
    }

    /// Receives into `buf` (`MPI_Recv`).
    ///
    /// # Errors
    /// A bad rank or tag; a message that does not fit; a peer that is lost.
    #[inline]
    pub fn recv(&mut self, buf: &mut [u8], source: i32, tag: i32, comm: Comm) -> Result<Status> {
        // SAFETY: as in `send_mode`, and borrowed exclusively.
        let seg = unsafe { Segment::contig(buf.as_mut_ptr(), buf.len()) };
        let req = self.irecv_raw(seg, source, tag, comm)?;
        Guard { dev: self, req }.wait()
    }

    /// Sends and receives at once (`MPI_Sendrecv`).
    ///
    /// # Errors
    /// As [`Vci::send`] and [`Vci::recv`].
    #[allow(clippy::too_many_arguments)]
    pub fn sendrecv(
        &mut self,
        data: &[u8],
        dest: i32,
        send_tag: i32,
        buf: &mut [u8],
        source: i32,
        recv_tag: i32,
        comm: Comm,
    ) -> Result<Status> {
        // A thread that waits for both requests needs no helper.
        self.scope(|s| {
            let receive = s.begin_receive(buf, source, recv_tag, comm)?;
            s.begin_send(data, dest, send_tag, comm, Mode::Standard)?;
            s.wait(receive)
        })
    }

    /// Waits until all processes of the communicator are here (dissemination: log2 of their number
    /// rounds of one message each).
    ///
    /// # Errors
    /// If a peer is lost or cannot be reached.
    pub fn barrier(&mut self, comm: Comm) -> Result<()> {
        if comm.group != WORLD {
            let text = "barrier: not for a communicator with another job; exchange messages with it instead";
            return Err(Error::Usage(text.into()));
        }
        let (me, n) = (self.rank(), self.size());
        // The highest bit of the context keeps these messages apart from the program's.
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
