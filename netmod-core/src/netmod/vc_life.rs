//! The life of a virtual connection.

use crate::card::Card;
use crate::error::VcError;
use crate::netmod::Refusal;
use crate::peer::PeerName;
use crate::slab::VcId;
use crate::state::Core;
use crate::time::Time;

/// The beginning, changes and end of VCs in a netmod.
pub trait VcLife {
    /// Initializes a VC. No connection is established before the first send.
    ///
    /// Without a card the netmod can wait for the peer; if it has to connect itself, it asks with
    /// [`crate::Event::NeedCard`]. If the peer is already waiting ([`crate::Event::NewPeer`]), its
    /// connection is adopted.
    ///
    /// # Errors
    ///
    /// Fails if the card is unusable; the netmod then does not have the VC.
    fn vc_init(
        &mut self,
        core: &mut Core,
        vc: VcId,
        peer: PeerName,
        card: Option<&Card>,
    ) -> Result<(), VcError>;

    /// Takes the card that [`crate::Event::NeedCard`] asked for, or the reason why there is none.
    fn set_card(&mut self, core: &mut Core, vc: VcId, card: Result<&Card, VcError>);

    /// Refuses the peer of a [`crate::Event::NewPeer`] or [`crate::Event::PortPeer`], which gets
    /// the reason.
    fn refuse_peer(&mut self, peer: PeerName, why: Refusal);

    /// Destroys the netmod's part of a VC, which the core still knows; closes its connection at
    /// once.
    ///
    /// Each VC of a netmod ends so, even one that is down: when the peer's group is left, or after
    /// [`Module::finalize`](crate::Module::finalize) was done or abandoned; by then as a rule only
    /// memory is left of it. A terminated VC is not destroyed, nor is one during a checkpoint. Only
    /// a netmod that is dropped without finalize frees its VCs by itself: its process has failed,
    /// or has abandoned the device.
    fn vc_destroy(&mut self, core: &mut Core, vc: VcId);

    /// Sends pending data, then closes the connection, then reports [`crate::Event::Terminated`].
    ///
    /// After that the VC is as after `vc_init`. A VC that is down terminates at once.
    fn vc_terminate(&mut self, core: &mut Core, vc: VcId, now: Time);

    /// Aborts the VC because of `error`: closes the connection and fails its requests;
    /// [`crate::Event::Down`] follows, also at the peer, if there was a connection.
    fn vc_abort(&mut self, core: &mut Core, vc: VcId, error: VcError);

    /// Watches the process of a VC that may have no connection, because the caller waits for it.
    ///
    /// If the process has ended, [`crate::Event::Down`] follows. Nothing is sent on the VC, and a
    /// process that computes is not taken for dead. The caller repeats the call about once a second
    /// while it waits.
    ///
    /// Returns false if the netmod watches as many processes as it can: the caller asks again
    /// later.
    fn watch_peer(&mut self, core: &mut Core, vc: VcId, now: Time) -> bool;

    /// Makes a VC that was reported down usable again, as after [`VcLife::vc_init`].
    ///
    /// The peer is the same process, or a new incarnation of it. Nothing of the earlier connection
    /// continues. A card replaces what was known of the peer; `None` keeps that. If the VC is not
    /// down, only the card is taken.
    ///
    /// # Errors
    ///
    /// Fails if the card is unusable; the VC is unchanged.
    fn vc_revive(&mut self, core: &mut Core, vc: VcId, card: Option<&Card>) -> Result<(), VcError>;
}
