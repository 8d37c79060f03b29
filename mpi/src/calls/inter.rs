//! Intercommunicators: two groups, of which each sends to the other.
//!
//! Each group has a context id of its own, in which its processes receive. Messages leave in the
//! context of the other group.

use std::sync::Arc;

use ch3_shim::{Request, Vci};

use crate::comm::CommCore;
use crate::context::{Agreement, channels};
use crate::dynamic::among_jobs;
use crate::dynamic::roster::Roster;
use crate::error::{Class, MpiError, Result};
use crate::exchange::Party;
use crate::handle::Comm;
use crate::instance::{Mpi, State};
use crate::objects::Objects;
use crate::ranks::Ranks;
use crate::status::failure;
use crate::target::{OwnTarget, Target};
use crate::wish::Wish;

/// Returns the id of the other group; `ids` has one of each process of the party of both.
pub(super) fn other_id(core: &CommCore, own: u32, ids: &[u8]) -> u32 {
    let ids = ids.as_chunks::<4>().0;
    // A process of the other group is at the other end of the party.
    let other = if core.is_first() { ids.last() } else { ids.first() };
    other.map_or(own, |id| u32::from_le_bytes(*id))
}

fn remote_of(core: &CommCore) -> Result<Arc<Ranks>> {
    core.remote().cloned().ok_or_else(|| {
        MpiError::new(Class::COMM, "the communicator is an intracommunicator; an intercommunicator is needed")
    })
}

impl Mpi {
    /// Makes an intercommunicator of the groups of two communicators, whose leaders know each other
    /// in a third one (`MPI_Intercomm_create`). The last two arguments but the tag mean something
    /// at the leader alone.
    ///
    /// # Errors
    /// A bad argument; groups with a common process; no context id.
    pub fn intercomm_create(
        &self,
        local: Comm,
        local_leader: i32,
        peer: Comm,
        remote_leader: i32,
        tag: i32,
    ) -> Result<Comm> {
        self.join(local, local_leader, |objects| {
            Ok(Target::of_send(&objects.comms, remote_leader, tag, peer)?.own())
        })
    }

    /// Makes an intercommunicator of this group and that of the partner, whom the leader finds.
    pub(crate) fn join(
        &self,
        local: Comm,
        local_leader: i32,
        partner: impl FnOnce(&Objects) -> Result<OwnTarget>,
    ) -> Result<Comm> {
        let core = self.with(|s| s.objects.comms.intra_core(local))?;
        let Some(leader) = u32::try_from(local_leader).ok().filter(|rank| *rank < core.size()) else {
            let text = format!("local_leader is {local_leader}; ranks are 0 to {}", core.size() - 1);
            return Err(MpiError::new(Class::RANK, text));
        };
        let leads = core.rank() == leader;
        let partner = if leads { Some(self.with(|s| partner(&s.objects))?) } else { None };
        let id = match self.agree(Agreement::new(Party::of_all(&core), true)) {
            Ok(agreed) => agreed.id,
            Err(e) => {
                self.give_up_meeting(&core, leader, partner.as_ref())?;
                return Err(e);
            }
        };
        let made = self.meet(local, &core, leader, partner.as_ref(), id);
        if made.is_err() {
            self.with(|s| {
                s.objects.contexts.release(id);
                Ok(())
            })?;
        }
        made
    }

    /// Lets those that may go on to meet another group know that this process has failed before.
    fn give_up_meeting(&self, core: &Arc<CommCore>, leader: u32, partner: Option<&OwnTarget>) -> Result<()> {
        match partner {
            Some(partner) => {
                // The other leader waits for an answer; one that is lost needs none.
                let _ = self.swap_with(partner, Vec::new());
                let failed = MpiError::new(Class::PROC_FAILED, "the group has lost a process");
                let _ = self.tell_all(core, Err(failed));
            }
            None => {
                let _ = self.hear(core, leader);
            }
        }
        self.refuse_records(&Party::of_all(core))
    }

    /// Makes the intercommunicator of this group and the other leader's.
    fn meet(
        &self,
        local: Comm,
        core: &Arc<CommCore>,
        leader: u32,
        partner: Option<&OwnTarget>,
        id: u32,
    ) -> Result<Comm> {
        let places = core.group().places();
        let own = self.with(|s| {
            let size = s.dev.size();
            // Processes of one job can ask for each other's cards.
            let cards = core.spans_jobs(size) || partner.is_some_and(|p| p.place.cast_unsigned() >= size);
            Roster::of(&mut s.dev, id, places, cards)
        })?;
        let other = match partner {
            Some(partner) => self.tell_all(core, self.swap_with(partner, own.emit()))?,
            None => self.hear(core, leader)?,
        };
        if other.is_empty() {
            let text = "the other group has lost a process before it could meet this one";
            return Err(MpiError::new(Class::PROC_FAILED, text));
        }
        let other = Roster::parse(&other)?;
        let (remote, _held) = self.with(|s| {
            let remote = Ranks::new(other.meet(&mut s.dev)?);
            let held = s.objects.contexts.hold(remote.places());
            Ok((remote, held))
        })?;
        if let Some(common) = places.iter().find(|place| remote.rank(**place).is_some()) {
            let text =
                format!("process {common} of the job is in both groups; they must have none in common");
            return Err(MpiError::new(Class::COMM, text));
        }
        if !own.is_of_one_job(&other) {
            self.all_have_met(core, leader, partner)?;
        }
        let group = (Arc::clone(core.group()), core.rank());
        self.make_first_inter(local, [id, other.id], group, Arc::new(remote), own.is_before(&other))
    }

    /// Waits until all processes of both groups have met the jobs of the other one, since a process
    /// refuses those that it has not met.
    fn all_have_met(&self, core: &Arc<CommCore>, leader: u32, partner: Option<&OwnTarget>) -> Result<()> {
        self.gather_records(Party::of_all(core), vec![0])?;
        match partner {
            Some(partner) => self.tell_all(core, self.swap_with(partner, vec![0])),
            None => self.hear(core, leader),
        }
        .map(|_| ())
    }

    /// Adds an intercommunicator of groups that had none before. `first`: the local group comes
    /// first, in an order that both groups know.
    pub(crate) fn make_first_inter(
        &self,
        parent: Comm,
        ids: [u32; 2],
        group: (Arc<Ranks>, u32),
        remote: Arc<Ranks>,
        first: bool,
    ) -> Result<Comm> {
        let leader = if first { group.0.place(0) } else { remote.place(0) };
        let origin = self.with(|s| Ok(among_jobs(&s.dev, leader.unwrap_or(0))))?;
        self.make_inter(parent, origin, ids, group, remote, first)
    }

    /// Adds an intercommunicator of this process's group and a remote one, with the ids of both.
    pub(crate) fn make_inter(
        &self,
        parent: Comm,
        origin: u64,
        ids: [u32; 2],
        group: (Arc<Ranks>, u32),
        remote: Arc<Ranks>,
        first: bool,
    ) -> Result<Comm> {
        self.with(|s| {
            let State { dev, objects, .. } = s;
            let both = [channels(dev, ids[0], &remote)?, channels(dev, ids[1], &remote)?];
            objects.add_comm(parent, CommCore::inter(origin, ids, both, group, remote, first))
        })
    }

    /// Makes intercommunicators of those processes of both groups that wish for the same color, in
    /// the order of keys. Null for a process that wishes for none, or whose color nobody in the
    /// other group wishes for.
    ///
    /// # Errors
    /// A bad handle; no context id.
    pub(crate) fn split_inter(&self, inter: Comm, core: &Arc<CommCore>, wish: Wish) -> Result<Comm> {
        let remote = remote_of(core)?;
        let both = Party::of_both(core, &remote);
        let wishes = self.gather_records(both.clone(), wish.emit());
        let agreement = Party::of_all(core);
        let told = Party { tag: core.next_tag(), ..both };
        if wishes.is_err() {
            self.refuse_agreement(&agreement)?;
            self.refuse_records(&told)?;
        }
        let wishes = Wish::parse(&wishes?);
        let own_first = core.is_first();
        let (first, second) = wishes.split_at(if own_first { core.size() } else { remote.size() } as usize);
        let (own, other) = if own_first { (first, second) } else { (second, first) };
        let others = Wish::places(other, wish.color, &remote);
        let joins = wish.color.is_some() && !others.is_empty();
        let agreed = self.agree(Agreement::new(agreement, joins));
        if agreed.is_err() {
            self.refuse_records(&told)?;
        }
        let id = agreed?.id;
        let ids = self.gather_records(told, id.to_le_bytes().to_vec())?;
        if !joins {
            return Ok(Comm::NULL);
        }
        let places = Wish::places(own, wish.color, core.group());
        let place = core.group().place(core.rank());
        let me = places.iter().position(|p| Some(*p) == place).unwrap_or(0) as u32;
        let ids = [id, other_id(core, id, &ids)];
        let group = (Arc::new(Ranks::new(places)), me);
        self.make_inter(inter, core.name, ids, group, Arc::new(Ranks::new(others)), own_first)
    }

    /// Exchanges data with the leader of the other group.
    fn swap_with(&self, partner: &OwnTarget, data: Vec<u8>) -> Result<Vec<u8>> {
        let (core, tag) = (&partner.core, CommCore::group_tag(partner.tag));
        let send = self.with(|s| {
            let sent = s.dev.isend(data, partner.place, tag, core.coll_out);
            sent.map_err(|e| failure(e.error, core))
        })?;
        let got = self.take_from(core, partner.place, tag);
        let sent = self.finish(core, send);
        sent.and(got)
    }

    /// Receives data of any length.
    pub(crate) fn take_from(&self, core: &CommCore, place: i32, tag: i32) -> Result<Vec<u8>> {
        let message = self.wait_until(|vci, _, _| {
            if core.is_revoked() {
                return Some(Err(failure(ch3_shim::Error::Revoked, core)));
            }
            let found = vci.improbe(place, tag, core.coll).map_err(|e| failure(e, core));
            found.transpose()
        })?;
        let receive = self.with(|s| {
            let room = vec![0; message.status().len];
            Ok(s.dev.imrecv(room, message))
        })?;
        self.finish(core, receive)
    }

    /// Waits for a message whose memory the device keeps; returns what was received.
    fn finish(&self, core: &CommCore, request: Request) -> Result<Vec<u8>> {
        let raw = request.raw();
        self.wait_until(|vci, _, _| vci.is_settled(raw).then_some(Ok(())))?;
        self.with(|s| {
            let vci: &mut Vci = &mut s.dev;
            vci.wait(request).map(|done| done.buffer).map_err(|e| failure(e.error, core))
        })
    }

    /// Tells the other processes of the group what the leader has heard: nothing if that has
    /// failed.
    fn tell_all(&self, core: &CommCore, heard: Result<Vec<u8>>) -> Result<Vec<u8>> {
        let tag = core.next_tag();
        let data = heard.as_ref().map_or(Vec::new(), Clone::clone);
        for rank in (0..core.size()).filter(|rank| *rank != core.rank()) {
            let place = core.group().place(rank).unwrap_or(0).cast_signed();
            let send = self.with(|s| {
                let sent = s.dev.isend(data.clone(), place, tag, core.coll);
                sent.map_err(|e| failure(e.error, core))
            })?;
            self.finish(core, send)?;
        }
        heard
    }

    /// Hears from the leader what it has heard.
    fn hear(&self, core: &CommCore, leader: u32) -> Result<Vec<u8>> {
        let tag = core.next_tag();
        let place = core.group().place(leader).unwrap_or(0).cast_signed();
        let heard = self.take_from(core, place, tag)?;
        if heard.is_empty() {
            let text = format!("the leader, rank {leader}, could not reach the leader of the other group");
            return Err(MpiError::new(Class::OTHER, text));
        }
        Ok(heard)
    }

    /// Makes an intracommunicator of both groups (`MPI_Intercomm_merge`): that which says `high`
    /// comes last. If both say the same, that with the lower first rank in the job comes first.
    ///
    /// # Errors
    /// A bad handle; no context id.
    pub fn intercomm_merge(&self, inter: Comm, high: bool) -> Result<Comm> {
        let core = self.with(|s| s.objects.comms.core(inter))?;
        let remote = remote_of(&core)?;
        let both = Party::of_both(&core, &remote);
        let own_first = core.is_first();
        let said = self.gather_records(both.clone(), vec![u8::from(high)]);
        let agreement = Party { tag: core.next_tag(), ..both };
        if said.is_err() {
            self.refuse_agreement(&agreement)?;
        }
        let said = said?;
        let other = if own_first { said.last() } else { said.first() };
        let other_high = other.is_some_and(|high| *high != 0);
        let own_before = if high == other_high { own_first } else { !high };
        let (own, other) = (core.group().places(), remote.places());
        let (first, second) = if own_before { (own, other) } else { (other, own) };
        let places: Arc<[u32]> = first.iter().chain(second.iter()).copied().collect();
        let me = core.rank() + if own_before { 0 } else { remote.size() };
        let agreed = self.agree(Agreement::new(agreement, true))?;
        self.make(inter, agreed, Arc::new(Ranks::new(places)), me)
    }
}
