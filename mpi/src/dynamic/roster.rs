//! A group as it is told to another one, which may be of another job.

use std::sync::Arc;

use ch3_shim::{JobName, Vci};

use crate::error::{Class, MpiError, Result};

/// A group: its context id and its processes, named by job and rank.
///
/// Bytes, all integers little-endian: context id (4), number of jobs (4), each as [`JobName`] has
/// it; number of processes (4), for each the index of its job (4), its rank there (4), the length
/// of its business card (4) and the card, which is empty if the other group needs none.
#[derive(Debug)]
pub(crate) struct Roster {
    pub id: u32,
    jobs: Vec<JobName>,
    members: Vec<Member>,
}

#[derive(Debug)]
struct Member {
    job: u32,
    rank: u32,
    card: Box<[u8]>,
}

/// The beginning of the bytes of a roster that nobody has cut.
struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn take(&mut self, n: usize) -> Option<&'a [u8]> {
        let (head, rest) = self.0.split_at_checked(n)?;
        self.0 = rest;
        Some(head)
    }

    fn word(&mut self) -> Option<u32> {
        self.take(4)?.first_chunk().map(|word| u32::from_le_bytes(*word))
    }
}

impl Roster {
    /// Describes the processes at these places, with their business cards if `cards`.
    ///
    /// # Errors
    /// A process whose card cannot be had.
    pub(crate) fn of(vci: &mut Vci, id: u32, places: &[u32], cards: bool) -> Result<Roster> {
        let (mut jobs, mut members) = (Vec::<JobName>::new(), Vec::with_capacity(places.len()));
        for place in places {
            let (name, rank) = vci.job_at(*place).ok_or_else(|| left(*place))?;
            let job = jobs.iter().position(|job| job.id == name.id).unwrap_or(jobs.len());
            if job == jobs.len() {
                jobs.push(name);
            }
            let card = if cards { vci.card_of(*place)? } else { Box::default() };
            members.push(Member { job: job as u32, rank, card });
        }
        Ok(Roster { id, jobs, members })
    }

    pub(crate) fn emit(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        let word = |bytes: &mut Vec<u8>, value: u32| bytes.extend(value.to_le_bytes());
        word(&mut bytes, self.id);
        word(&mut bytes, self.jobs.len() as u32);
        self.jobs.iter().for_each(|job| bytes.extend(job.to_bytes()));
        word(&mut bytes, self.members.len() as u32);
        for Member { job, rank, card } in &self.members {
            word(&mut bytes, *job);
            word(&mut bytes, *rank);
            word(&mut bytes, card.len() as u32);
            bytes.extend(card);
        }
        bytes
    }

    /// Reads the bytes of [`Roster::emit`].
    ///
    /// # Errors
    /// Bytes that are none.
    pub(crate) fn parse(bytes: &[u8]) -> Result<Roster> {
        Roster::read(&mut Reader(bytes)).ok_or_else(|| {
            let text = "the leader of the other group has sent what is no group; do both sides call the same \
                        function, with the same version of this library?";
            MpiError::new(Class::OTHER, text)
        })
    }

    fn read(r: &mut Reader<'_>) -> Option<Roster> {
        let id = r.word()?;
        let mut jobs = Vec::new();
        for _ in 0..r.word()? {
            jobs.push(JobName::from_bytes(r.take(JobName::LEN)?.first_chunk()?));
        }
        let mut members = Vec::new();
        for _ in 0..r.word()? {
            let (job, rank, len) = (r.word()?, r.word()?, r.word()?);
            if rank >= jobs.get(job as usize)?.size {
                return None;
            }
            members.push(Member { job, rank, card: r.take(len as usize)?.into() });
        }
        (r.0.is_empty() && !members.is_empty()).then_some(Roster { id, jobs, members })
    }

    /// Returns true if all processes of both groups are of one job.
    pub(crate) fn is_of_one_job(&self, other: &Roster) -> bool {
        let first = self.jobs.first().map(|job| job.id);
        self.jobs.iter().chain(&other.jobs).all(|job| Some(job.id) == first)
    }

    /// Returns true if this group comes before the other one, in an order that both know.
    pub(crate) fn is_before(&self, other: &Roster) -> bool {
        let first = |roster: &Roster| {
            let member = roster.members.first()?;
            Some((roster.jobs.get(member.job as usize)?.id, member.rank))
        };
        first(self) < first(other)
    }

    /// Meets the jobs of the group. Returns the places of its processes.
    ///
    /// # Errors
    /// Those of the device.
    pub(crate) fn meet(&self, vci: &mut Vci) -> Result<Arc<[u32]>> {
        let own = vci.own_job()?.id;
        for (at, job) in self.jobs.iter().enumerate().filter(|(_, job)| job.id != own) {
            let its = self.members.iter().filter(|m| m.job as usize == at && !m.card.is_empty());
            vci.meet_job(job, its.map(|m| (m.rank, m.card.clone())).collect())?;
        }
        let place = |m: &Member| {
            let job = &self.jobs[m.job as usize];
            vci.place_of(&job.id, m.rank).ok_or_else(|| {
                let text = format!("rank {} of a job of {} processes was not met", m.rank, job.size);
                MpiError::new(Class::INTERN, text)
            })
        };
        self.members.iter().map(place).collect()
    }
}

fn left(place: u32) -> Box<MpiError> {
    let text = format!("process {place} belongs to a job that was disconnected; connect to it again");
    MpiError::new(Class::COMM, text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn roster() -> Roster {
        let job = |id: u8| {
            let mut bytes = [id; JobName::LEN];
            bytes[16..20].copy_from_slice(&3u32.to_le_bytes());
            JobName::from_bytes(&bytes)
        };
        let member = |job, rank, card: &[u8]| Member { job, rank, card: card.into() };
        let members = vec![member(1, 2, b"card"), member(0, 0, b""), member(1, 0, b"another")];
        Roster { id: 77, jobs: vec![job(9), job(4)], members }
    }

    #[test]
    fn a_roster_comes_back() {
        let bytes = roster().emit();
        let back = Roster::parse(&bytes).expect("a roster");
        assert_eq!((back.id, back.jobs.clone(), back.emit()), (77, roster().jobs, bytes));
        assert!(!back.is_of_one_job(&back));
        let single = Roster { jobs: vec![back.jobs[0]], members: Vec::new(), id: 1 };
        assert!(single.is_of_one_job(&single) && !single.is_of_one_job(&back));
    }

    #[test]
    fn each_cut_and_each_wrong_number_is_refused() {
        let bytes = roster().emit();
        for len in 0..bytes.len() {
            assert!(Roster::parse(&bytes[..len]).is_err(), "{len} bytes");
        }
        assert!(Roster::parse(&[&bytes[..], &[0]].concat()).is_err());
        let members = 8 + 2 * JobName::LEN;
        for (at, what) in
            [(members + 4, "job"), (members + 8, "rank"), (members, "count"), (members + 12, "card")]
        {
            let mut wrong = bytes.clone();
            wrong[at..at + 4].copy_from_slice(&200u32.to_le_bytes());
            assert!(Roster::parse(&wrong).is_err(), "{what}");
        }
    }
}
