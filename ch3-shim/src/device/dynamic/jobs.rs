//! The means by which a layer above meets other jobs by itself: names of jobs and of their
//! processes, and links between two processes at a port.
//!
//! Communicators of named contexts ([`Vci::comm_of_context`]) reach processes of other jobs by
//! their places, numbers behind the ranks of the job. Two processes that have met at a port talk
//! over a [`Link`]; what they tell each other is theirs.

use netmod_core::{Card, CardError, CardWriter, GroupId, PeerName, RemoteGroup, port_group};

use super::{Comm, Link, PATIENCE, Vci, random};
use crate::ch3::{Cards, JobName, ROOT, WORLD};
use crate::error::{Error, Result};
use crate::port::PortName;

impl Vci {
    /// The name of this job for others.
    ///
    /// # Errors
    /// None while the device is in its job.
    pub fn own_job(&self) -> Result<JobName> {
        self.ch3.groups.world.job.ok_or_else(|| Error::Meet("this job has no name for others".into()))
    }

    fn own_card(&self) -> &[u8] {
        &self.ch3.lookups.own_card
    }

    /// Returns the job and the rank in it of the process at a place.
    pub fn job_at(&self, place: u32) -> Option<(JobName, u32)> {
        let (group, rank) = self.ch3.groups.at_place(place)?;
        Some((self.ch3.groups.get(group)?.job?, rank))
    }

    /// Returns the business card of the process at a place. One of this job is asked for; makes
    /// progress until it is here.
    ///
    /// # Errors
    /// A process whose card this one does not know, or cannot get.
    pub fn card_of(&mut self, place: u32) -> Result<Box<[u8]>> {
        let found =
            self.ch3.groups.at_place(place).and_then(|(n, rank)| Some((self.ch3.groups.get(n)?, rank)));
        match found.map(|(group, rank)| (&group.cards, rank)) {
            Some((Cards::Launcher, rank)) if rank == self.rank() => Ok(self.own_card().into()),
            Some((Cards::Launcher, rank)) => Ok(self.wait_for_card(rank)?.as_bytes().into()),
            Some((Cards::Given(cards), rank)) if cards.get(rank as usize).is_some_and(|c| !c.is_empty()) => {
                Ok(cards[rank as usize].clone())
            }
            _ => Err(Error::Meet(format!("the business card of process {place} is not known here"))),
        }
    }

    /// Returns the place of a process by the name that failures have.
    pub fn place_of_peer(&self, peer: &PeerName) -> Option<u32> {
        self.ch3.groups.place_of(peer)
    }

    /// Returns the place of a process of this job, or of one that was met.
    pub fn place_of(&self, job: &GroupId, rank: u32) -> Option<u32> {
        let group = self.ch3.groups.get(self.ch3.find_job(job)?)?;
        (rank < group.size).then_some(group.first + rank)
    }

    /// Meets a job: its processes have places from now on, and may connect. `cards` has those of
    /// the processes to which this one may connect, by rank.
    ///
    /// # Errors
    /// No netmod that reaches other jobs; no place that is left.
    pub fn meet_job(&mut self, job: &JobName, cards: Vec<(u32, Box<[u8]>)>) -> Result<()> {
        self.check_origin()?;
        let now = self.now;
        self.ch3.meet_job(&mut self.engine.io(now), job, cards)?;
        Ok(())
    }

    /// Begins to leave the jobs that were met, but for those with a place for which `keeps` is
    /// true.
    pub fn leave_jobs(&mut self, keeps: impl Fn(u32) -> bool) {
        let limit = self.deadline_in(PATIENCE.min(self.cfg.close_timeout));
        let met = self.ch3.groups.iter().filter(|(n, g)| *n != WORLD && g.job.is_some());
        let unused = met.filter(|(_, g)| !(g.first..g.first + g.size).any(&keeps));
        for number in unused.map(|(n, _)| n).collect::<Vec<_>>() {
            let now = self.now;
            self.ch3.begin_to_leave(&mut self.engine.io(now), number, limit);
        }
        self.flush();
    }

    /// Number of other jobs that are met.
    pub fn jobs_met(&self) -> usize {
        self.ch3.groups.iter().filter(|(n, g)| *n != WORLD && g.job.is_some()).count()
    }

    /// Forgets the links and jobs whose connections are closed by now. Returns true if none is left
    /// of those that are to be left.
    pub fn has_left(&mut self) -> bool {
        self.tick();
        let now = self.now;
        self.ch3.go_on_leaving(&mut self.engine.io(now))
    }

    /// Connects to the process that has opened a port. The link fails if it cannot be reached.
    ///
    /// # Errors
    /// A port that this process does not reach.
    pub fn link_to(&mut self, port: &PortName) -> Result<Link> {
        self.check_origin()?;
        let me = PeerName { group: GroupId(random()?), rank: ROOT };
        let met = RemoteGroup { id: port_group(port.tag), size: 1, me, key: port.key };
        let now = self.now;
        let group = self.ch3.join(&mut self.engine.io(now), &met, Cards::Unknown)?;
        let connected = self.ch3.connect_to_root(&mut self.engine.io(now), group, &port.card, port.tag);
        match connected {
            Ok(_) => Ok(Link { group }),
            Err(e) => {
                self.forget_group(group);
                Err(e.into())
            }
        }
    }

    /// Returns the link with the first process at an open port that has sent its first message.
    ///
    /// # Errors
    /// A port that is not open in this process.
    pub fn link_at(&mut self, port: &PortName) -> Result<Option<Link>> {
        self.check_origin()?;
        if !self.ch3.ports.contains_key(&port.tag) {
            return Err(Error::Usage(format!("port {:016x} is not open in this process", port.tag)));
        }
        Ok(self.first_guest(port.tag).map(|group| Link { group }))
    }

    /// The communicator of a link's messages.
    ///
    /// # Errors
    /// A link that was closed.
    pub fn link_comm(&self, link: Link) -> Result<Comm> {
        self.root_comm(link.group).ok_or_else(|| Error::Meet("the other process has gone".into()))
    }

    /// Returns true if the other process of a link is connected, or was.
    pub fn is_linked(&self, link: Link) -> bool {
        let vc = self.ch3.known_vc(link.group, ROOT);
        vc.and_then(|vc| self.engine.look(|e| e.core.vc(vc).map(|v| v.stats.connects > 0))).unwrap_or(false)
    }

    /// Closes a link after what was sent over it. [`Vci::has_left`] says when that has been done.
    pub fn close_link(&mut self, link: Link) {
        let limit = self.deadline_in(PATIENCE.min(self.cfg.close_timeout));
        let now = self.now;
        self.ch3.begin_to_leave(&mut self.engine.io(now), link.group, limit);
        self.flush();
    }

    /// Returns the name of the port with the sections of the card that are needed to connect, so
    /// that its text is as short as possible, at most `most` bytes.
    ///
    /// # Errors
    /// If it is longer all the same.
    pub fn short_name(&self, port: &PortName, most: usize) -> Result<PortName> {
        let netmods = self.netmods();
        // Whole sections of fewer and fewer netmods, and then of TCP alone with fewer addresses.
        let whole = (0..netmods.len()).map(|from| (&netmods[from..], None));
        let cut = [4, 2, 1].map(|addresses| (&["tcp"][..], Some(addresses)));
        let mut least = usize::MAX;
        for (kept, addresses) in whole.chain(cut) {
            let card = short_card(&port.card, kept, addresses)
                .map_err(|e| Error::Meet(format!("open_port: the short business card: {e}")))?;
            let short = PortName { card, ..port.clone() };
            let len = short.to_string().len();
            if len <= most {
                return Ok(short);
            }
            least = least.min(len);
        }
        Err(Error::Meet(format!(
            "open_port: the port's name has {least} characters, and programs have room for {most}; choose fewer \
             interfaces (NETMOD_TCP_INTERFACE) or netmods (NETMOD)"
        )))
    }
}

/// Returns a card with what is needed to connect by these netmods: with the sections as they are,
/// or with so many addresses.
fn short_card(
    card: &Card,
    netmods: &[&str],
    addresses: Option<usize>,
) -> std::result::Result<Card, CardError> {
    let mut short = CardWriter::new();
    let named = |name: &str| name == "device" || netmods.contains(&name);
    for section in card.sections().filter(|section| named(section.name)) {
        let cut = addresses.filter(|_| section.name == "tcp").and_then(|n| short_section(card, n));
        match &cut {
            Some((version, body)) => short.section(section.name, *version, body)?,
            None => short.section(section.name, section.version, section.body)?,
        }
    }
    Card::parse(&short.finish())
}

#[cfg(feature = "tcp")]
use netmod_tcp::short_section;

#[cfg(not(feature = "tcp"))]
fn short_section(_: &Card, _: usize) -> Option<(u16, Vec<u8>)> {
    None
}
