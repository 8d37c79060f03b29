//! Forwarding, for wrappers.

/// Generates functions of a wrapper that only call the same function of the wrapped netmod.
///
/// It is used within an `impl` of one of the contract's traits, beside the functions that the
/// wrapper implements itself: `forward!(inner: vc_init, set_card);`. `inner` is a macro of the
/// caller that names the wrapped netmod. It is called as `inner!(self, [core, vc], n =>
/// n.vc_init(core, vc, ..))`, where the brackets hold the VC of the call, if any, and binds `n` to
/// the wrapped netmod.
#[macro_export]
macro_rules! forward {
    ($via:ident: $($name:ident),+ $(,)?) => { $( $crate::forward!(@ $name $via); )+ };

    (@ name $via:ident) => {
        fn name(&self) -> &'static str {
            $via!(self, [], n => n.name())
        }
    };
    (@ threads $via:ident) => {
        fn threads(&self) -> usize {
            $via!(self, [], n => n.threads())
        }
    };
    (@ shares_memory $via:ident) => {
        fn shares_memory(&self) -> bool {
            $via!(self, [], n => n.shares_memory())
        }
    };
    (@ join_job $via:ident) => {
        fn join_job(
            &mut self,
            job_key: [u8; 32],
            pollers: $crate::Pollers,
        ) -> ::core::result::Result<(), $crate::DeviceError> {
            $via!(self, [], n => n.join_job(job_key, pollers))
        }
    };
    (@ business_card $via:ident) => {
        fn business_card(&self, card: &mut $crate::CardWriter) -> ::core::result::Result<(), $crate::CardError> {
            $via!(self, [], n => n.business_card(card))
        }
    };
    (@ reachable $via:ident) => {
        fn reachable(&mut self, card: &$crate::Card) -> ::core::result::Result<(), $crate::VcError> {
            $via!(self, [], n => n.reachable(card))
        }
    };
    (@ rma $via:ident) => {
        fn rma(&mut self, core: &$crate::Core, vc: $crate::VcId) -> Option<&mut dyn $crate::Rma> {
            $via!(self, [core, vc], n => n.rma(core, vc))
        }
    };
    (@ finalize $via:ident) => {
        fn finalize(&mut self, core: &mut $crate::Core, now: $crate::Time) -> $crate::Finalize {
            $via!(self, [], n => n.finalize(core, now))
        }
    };

    (@ vc_init $via:ident) => {
        fn vc_init(
            &mut self,
            core: &mut $crate::Core,
            vc: $crate::VcId,
            peer: $crate::PeerName,
            card: Option<&$crate::Card>,
        ) -> ::core::result::Result<(), $crate::VcError> {
            $via!(self, [core, vc], n => n.vc_init(core, vc, peer, card))
        }
    };
    (@ set_card $via:ident) => {
        fn set_card(
            &mut self,
            core: &mut $crate::Core,
            vc: $crate::VcId,
            card: ::core::result::Result<&$crate::Card, $crate::VcError>,
        ) {
            $via!(self, [core, vc], n => n.set_card(core, vc, card))
        }
    };
    (@ refuse_peer $via:ident) => {
        fn refuse_peer(&mut self, peer: $crate::PeerName, why: $crate::Refusal) {
            $via!(self, [], n => n.refuse_peer(peer, why))
        }
    };
    (@ vc_destroy $via:ident) => {
        fn vc_destroy(&mut self, core: &mut $crate::Core, vc: $crate::VcId) {
            $via!(self, [core, vc], n => n.vc_destroy(core, vc))
        }
    };
    (@ vc_terminate $via:ident) => {
        fn vc_terminate(&mut self, core: &mut $crate::Core, vc: $crate::VcId, now: $crate::Time) {
            $via!(self, [core, vc], n => n.vc_terminate(core, vc, now))
        }
    };
    (@ vc_abort $via:ident) => {
        fn vc_abort(&mut self, core: &mut $crate::Core, vc: $crate::VcId, error: $crate::VcError) {
            $via!(self, [core, vc], n => n.vc_abort(core, vc, error))
        }
    };
    (@ watch_peer $via:ident) => {
        fn watch_peer(&mut self, core: &mut $crate::Core, vc: $crate::VcId, now: $crate::Time) -> bool {
            $via!(self, [core, vc], n => n.watch_peer(core, vc, now))
        }
    };
    (@ vc_revive $via:ident) => {
        fn vc_revive(
            &mut self,
            core: &mut $crate::Core,
            vc: $crate::VcId,
            card: Option<&$crate::Card>,
        ) -> ::core::result::Result<(), $crate::VcError> {
            $via!(self, [core, vc], n => n.vc_revive(core, vc, card))
        }
    };
    (@ control_frame $via:ident) => {
        fn control_frame(
            &mut self,
            core: &mut $crate::Core,
            vc: $crate::VcId,
            hdr: &$crate::Header,
        ) -> ::core::result::Result<(), $crate::PacketFault> {
            $via!(self, [core, vc], n => n.control_frame(core, vc, hdr))
        }
    };

    (@ connect_to_root $via:ident) => {
        fn connect_to_root(
            &mut self,
            core: &mut $crate::Core,
            vc: $crate::VcId,
            card: &$crate::Card,
            port_tag: u64,
        ) -> ::core::result::Result<(), $crate::VcError> {
            $via!(self, [core, vc], n => n.connect_to_root(core, vc, card, port_tag))
        }
    };
    (@ open_port $via:ident) => {
        fn open_port(&mut self, port: u64, key: [u8; 32]) -> ::core::result::Result<(), $crate::DeviceError> {
            $via!(self, [], n => n.open_port(port, key))
        }
    };
    (@ close_port $via:ident) => {
        fn close_port(&mut self, port: u64) {
            $via!(self, [], n => n.close_port(port))
        }
    };
    (@ join_group $via:ident) => {
        fn join_group(&mut self, met: &$crate::RemoteGroup) -> ::core::result::Result<(), $crate::DeviceError> {
            $via!(self, [], n => n.join_group(met))
        }
    };
    (@ leave_group $via:ident) => {
        fn leave_group(&mut self, id: &$crate::GroupId) {
            $via!(self, [], n => n.leave_group(id))
        }
    };

    (@ can_ckpt $via:ident) => {
        fn can_ckpt(&self) -> ::core::result::Result<(), $crate::DeviceError> {
            $via!(self, [], n => n.can_ckpt())
        }
    };
    (@ ckpt_shutdown $via:ident) => {
        fn ckpt_shutdown(
            &mut self,
            core: &mut $crate::Core,
            now: $crate::Time,
        ) -> ::core::result::Result<$crate::Finalize, $crate::DeviceError> {
            $via!(self, [], n => n.ckpt_shutdown(core, now))
        }
    };
    (@ ckpt_restart $via:ident) => {
        fn ckpt_restart(
            &mut self,
            core: &mut $crate::Core,
            now: $crate::Time,
        ) -> ::core::result::Result<(), $crate::DeviceError> {
            $via!(self, [], n => n.ckpt_restart(core, now))
        }
    };
    (@ ckpt_peer $via:ident) => {
        fn ckpt_peer(
            &mut self,
            core: &mut $crate::Core,
            vc: $crate::VcId,
            card: &$crate::Card,
        ) -> ::core::result::Result<(), $crate::VcError> {
            $via!(self, [core, vc], n => n.ckpt_peer(core, vc, card))
        }
    };

    (@ failure $via:ident) => {
        fn failure(&self) -> Option<&str> {
            $via!(self, [], n => n.failure())
        }
    };
    (@ opened $via:ident) => {
        fn opened(&self) -> String {
            $via!(self, [], n => n.opened())
        }
    };
    (@ describe $via:ident) => {
        fn describe(&self, core: &$crate::Core, vc: $crate::VcId) -> String {
            $via!(self, [core, vc], n => n.describe(core, vc))
        }
    };
    (@ break_connection $via:ident) => {
        fn break_connection(
            &mut self,
            core: &mut $crate::Core,
            vc: $crate::VcId,
            how: $crate::Break,
        ) -> ::core::result::Result<bool, $crate::VcError> {
            $via!(self, [core, vc], n => n.break_connection(core, vc, how))
        }
    };
    (@ report $via:ident) => {
        fn report(&self) -> Option<$crate::Report> {
            $via!(self, [], n => n.report())
        }
    };

    (@ i_send_contig $via:ident) => {
        #[inline]
        fn i_send_contig(
            &mut self,
            core: &mut $crate::Core,
            vc: $crate::VcId,
            req: $crate::ReqId,
            hdr: &$crate::Header,
            data: $crate::SendBuf,
        ) -> ::core::result::Result<$crate::Sent, $crate::VcError> {
            $via!(self, [core, vc], n => n.i_send_contig(core, vc, req, hdr, data))
        }
    };
    (@ i_start_contig_msg $via:ident) => {
        #[inline]
        fn i_start_contig_msg(
            &mut self,
            core: &mut $crate::Core,
            vc: $crate::VcId,
            hdr: &$crate::Header,
            data: $crate::SendBuf,
        ) -> ::core::result::Result<Option<$crate::ReqId>, $crate::VcError> {
            $via!(self, [core, vc], n => n.i_start_contig_msg(core, vc, hdr, data))
        }
    };
    (@ send_noncontig $via:ident) => {
        #[inline]
        fn send_noncontig(
            &mut self,
            core: &mut $crate::Core,
            vc: $crate::VcId,
            req: $crate::ReqId,
            hdr: &$crate::Header,
        ) -> ::core::result::Result<$crate::Sent, $crate::VcError> {
            $via!(self, [core, vc], n => n.send_noncontig(core, vc, req, hdr))
        }
    };
    (@ cancel_send $via:ident) => {
        fn cancel_send(
            &mut self,
            core: &mut $crate::Core,
            vc: $crate::VcId,
            req: $crate::ReqId,
        ) -> bool {
            $via!(self, [core, vc], n => n.cancel_send(core, vc, req))
        }
    };
    (@ flush $via:ident) => {
        #[inline]
        fn flush(&mut self, core: &mut $crate::Core) {
            $via!(self, [], n => n.flush(core))
        }
    };
    (@ poll $via:ident) => {
        #[inline]
        fn poll(
            &mut self,
            core: &mut $crate::Core,
            order: $crate::PollOrder,
            now: $crate::Time,
            events: &mut $crate::Events,
        ) -> ::core::result::Result<(), $crate::DeviceError> {
            $via!(self, [], n => n.poll(core, order, now, events))
        }
    };
    (@ release $via:ident) => {
        #[inline]
        fn release(&mut self, buf: $crate::RxBuf) {
            $via!(self, [], n => n.release(buf))
        }
    };
    (@ wait_fd $via:ident) => {
        fn wait_fd(&self) -> Option<std::os::fd::RawFd> {
            $via!(self, [], n => n.wait_fd())
        }
    };
    (@ arm $via:ident) => {
        fn arm(&mut self, core: &mut $crate::Core) -> $crate::Arm {
            $via!(self, [], n => n.arm(core))
        }
    };
    (@ deadline $via:ident) => {
        fn deadline(&self) -> Option<$crate::Time> {
            $via!(self, [], n => n.deadline())
        }
    };
}
