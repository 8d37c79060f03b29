//! The life of a virtual connection.

use crate::card::Card;
use crate::engine::Core;
use crate::error::VcError;
use crate::netmod::{PeerName, Refusal};
use crate::slab::VcId;
use crate::time::Time;

/// How VCs come into a netmod's charge, change and leave it.
pub trait VcLife {
    /// Takes charge of a VC. No connection is made before the first send.
    ///
    /// Without a card it can wait for the peer; should it have to connect itself, it asks with
    /// [`crate::Event::NeedCard`]. If the peer is already waiting ([`crate::Event::NewPeer`]) its connection is
    /// taken up.
    ///
    /// # Errors
    /// If the card is of no use; the VC is then not in its charge.
    fn vc_init(
        &mut self,
        core: &mut Core,
        vc: VcId,
        peer: PeerName,
        card: Option<&Card>,
    ) -> Result<(), VcError>;

    /// Takes the card that [`crate::Event::NeedCard`] asked for, or why there is none.
    fn set_card(&mut self, core: &mut Core, vc: VcId, card: Result<&Card, VcError>);

    /// Turns away the peer of a [`crate::Event::NewPeer`] or [`crate::Event::PortPeer`], which learns why.
    fn refuse_peer(&mut self, peer: PeerName, why: Refusal);

    /// Forgets a VC, which the core still knows; whatever is left of its connection is closed at once.
    ///
    /// Each VC that came into its charge leaves it so, one that is down too: when the peer's group is parted from, or after
    /// [`Module::finalize`](crate::Module::finalize) was done or given up, when as a rule nothing but memory is left of it. One that has terminated
    /// stays in its charge, as does one during a checkpoint. Only a netmod that is dropped without having been finalized forgets its VCs by
    /// itself: its process has failed, or has given the device up.
    fn vc_destroy(&mut self, core: &mut Core, vc: VcId);

    /// Lets pending sends go out, then closes the connection, then reports
    /// [`crate::Event::Terminated`]. After that the VC is as after `vc_init`. A VC that is down
    /// terminates at once.
    fn vc_terminate(&mut self, core: &mut Core, vc: VcId, now: Time);

    /// Gives the VC up because of `error`: the connection is closed, its requests fail, and
    /// [`crate::Event::Down`] follows.
    fn vc_abort(&mut self, core: &mut Core, vc: VcId, error: VcError);

    /// Watches the process of a VC that may have no connection, because something waits for it: if the process has ended,
    /// [`crate::Event::Down`] follows. Nothing is sent on the VC, and a process that computes is not taken for dead. The caller
    /// repeats the call about once a second for as long as it waits.
    ///
    /// Returns false if the netmod watches as many processes as it may: the caller asks again later.
    fn watch_peer(&mut self, core: &mut Core, vc: VcId, now: Time) -> bool;

    /// Makes a VC that was reported down usable again, as after [`VcLife::vc_init`]: for the same process, or for
    /// a new incarnation of it. Nothing of the earlier connection is continued. A card replaces what was known of
    /// the peer; `None` keeps that. On a VC that is not down, only the card is taken.
    ///
    /// # Errors
    /// If the card is of no use; the VC stays as it is.
    fn vc_revive(&mut self, core: &mut Core, vc: VcId, card: Option<&Card>) -> Result<(), VcError>;
}
