//! The methods of [`Vci`] that a device of an exclusive level has as its own.
//!
//! It is a `Vci` by dereference already; but only with a method of its own may an argument use the
//! device too, as in `dev.isend(data, dest, tag, dev.world())`.

use std::time::Duration;

use bytes::Bytes;
use netmod_core::Segment;

use super::{
    Comm, Completion, Device, Disconnecting, Ended, Exclusive, Failed, InterComm, Message, RawReq, Request,
    Scope, SomeFailed, Vci, Waitable,
};
use crate::error::Result;
use crate::pkt::Mode;
use crate::port::PortName;
use crate::status::Status;

macro_rules! forward {
    ($($name:ident $(<$($g:tt),*>)? ($($arg:ident: $t:ty),*) -> $ret:ty;)*) => {
        /// The methods of [`Vci`] that take `&mut self` and arguments.
        impl<L: Exclusive> Device<L> {
            $(
                #[doc = concat!("See [`Vci::", stringify!($name), "`].\n\n# Errors\nAs it says.")]
                #[inline]
                #[allow(clippy::too_many_arguments)]
                pub fn $name $(<$($g),*>)? (&mut self, $($arg: $t),*) -> $ret {
                    let result = Vci::$name(self, $($arg),*);
                    self.end_call();
                    result
                }
            )*
        }
    };
}

impl<L: Exclusive> Device<L> {
    /// See [`Vci::test`].
    ///
    /// # Errors
    /// As it says.
    #[inline]
    pub fn test<W: Waitable>(
        &mut self,
        req: W,
    ) -> std::result::Result<std::result::Result<Completion, W>, Box<Failed>> {
        let result = Vci::test(self, req);
        self.end_call();
        result
    }

    /// See [`Vci::isend_raw`].
    ///
    /// # Errors
    /// As it says.
    #[inline]
    pub fn isend_raw(&mut self, seg: Segment, dest: i32, tag: i32, comm: Comm, mode: Mode) -> Result<RawReq> {
        // A `Result<RawReq>` that is held while the call ends lies in memory; `Begun` does not.
        let begun = self.begin_send(seg, dest, tag, comm, mode);
        self.end_call();
        begun.map_err(|e| *e)
    }

    /// See [`Vci::irecv_raw`].
    ///
    /// # Errors
    /// As it says.
    #[inline]
    pub fn irecv_raw(&mut self, seg: Segment, source: i32, tag: i32, comm: Comm) -> Result<RawReq> {
        let begun = self.begin_recv(seg, source, tag, comm);
        self.end_call();
        begun.map_err(|e| *e)
    }
}

forward! {
    flush() -> ();
    dup(comm: Comm) -> Result<Comm>;
    set_eager_max(rank: u32, bytes: usize) -> Result<()>;
    accept(port: Option<&PortName>, comm: Comm, root: u32, timeout: Duration) -> Result<InterComm>;
    connect(port: Option<&PortName>, comm: Comm, root: u32, timeout: Duration) -> Result<InterComm>;
    disconnect(rank: u32) -> Result<()>;
    reconnect(rank: u32) -> Result<()>;
    disconnect_begin(rank: u32) -> Disconnecting;
    disconnect_poll(d: &Disconnecting) -> Result<bool>;

    send(data: &[u8], dest: i32, tag: i32, comm: Comm) -> Result<()>;
    send_mode(data: &[u8], dest: i32, tag: i32, comm: Comm, mode: Mode) -> Result<()>;
    recv(buf: &mut [u8], source: i32, tag: i32, comm: Comm) -> Result<Status>;
    sendrecv(
        data: &[u8], dest: i32, send_tag: i32, buf: &mut [u8], source: i32, recv_tag: i32, comm: Comm
    ) -> Result<Status>;
    barrier(comm: Comm) -> Result<()>;

    isend(
        data: impl Into<Bytes>, dest: i32, tag: i32, comm: Comm
    ) -> std::result::Result<Request, Box<Failed>>;
    isend_mode(
        data: Bytes, dest: i32, tag: i32, comm: Comm, mode: Mode
    ) -> std::result::Result<Request, Box<Failed>>;
    irecv(buf: Vec<u8>, source: i32, tag: i32, comm: Comm) -> std::result::Result<Request, Box<Failed>>;
    wait(req: impl Waitable) -> Ended;
    wait_all(reqs: impl IntoIterator<Item = impl Waitable>) -> std::result::Result<Vec<Completion>, SomeFailed>;
    wait_any(reqs: &mut Vec<Request>) -> std::result::Result<Option<(usize, Completion)>, Box<Failed>>;
    wait_some(reqs: &mut Vec<Request>) -> std::result::Result<Vec<(usize, Completion)>, SomeFailed>;
    test_all(
        reqs: Vec<Request>
    ) -> std::result::Result<std::result::Result<Vec<Completion>, Vec<Request>>, SomeFailed>;
    cancel(req: &Request) -> ();
    scope<'env, R>(f: impl FnOnce(&mut Scope<'_, 'env>) -> Result<R>) -> Result<R>;

    iprobe(source: i32, tag: i32, comm: Comm) -> Result<Option<Status>>;
    probe(source: i32, tag: i32, comm: Comm) -> Result<Status>;
    improbe(source: i32, tag: i32, comm: Comm) -> Result<Option<Message>>;
    mprobe(source: i32, tag: i32, comm: Comm) -> Result<Message>;
    imrecv_raw(seg: Segment, msg: Message) -> RawReq;
    imrecv(buf: Vec<u8>, msg: Message) -> Request;
    mrecv(buf: &mut [u8], msg: Message) -> Result<Status>;
    mrecv_whole(seg: &mut Segment, msg: Message) -> std::result::Result<Status, Message>;

    wait_raw(req: RawReq) -> Result<Status>;
    test_raw(req: RawReq) -> Result<Option<Status>>;
    wait_all_raw(reqs: &mut [RawReq], out: Option<&mut Vec<Status>>) -> Result<()>;
    wait_any_raw(reqs: &mut [RawReq]) -> Result<Option<(usize, Status)>>;
    wait_some_raw(reqs: &mut [RawReq], out: &mut Vec<(usize, Status)>) -> Result<()>;
    test_some_raw(reqs: &mut [RawReq], out: &mut Vec<(usize, Status)>) -> Result<()>;
    test_any_raw(reqs: &mut [RawReq]) -> Result<Option<(usize, Status)>>;
    test_all_raw(reqs: &mut [RawReq], out: Option<&mut Vec<Status>>) -> Result<bool>;
    cancel_raw(req: RawReq) -> ();
    free_raw(req: RawReq) -> ();
}
