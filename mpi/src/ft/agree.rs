//! An agreement of processes of which some may fail at any time: the protocol, without messages.
//!
//! Each member contributes words and the members that it knows to have failed. All members that
//! live to the end get the same decision: the "and" of the words of those whose contributions were
//! counted, and the union of the failures.
//!
//! The *leader* is the lowest member that has not failed. It collects the contributions of all
//! that live, proposes a decision, and decides once all that live have accepted it. If it fails,
//! the next one asks again. A member that has accepted a proposal says so, and the next leader
//! proposes the same; so once one member has decided nobody decides otherwise (Guerraoui and
//! Rodrigues, "Introduction to Reliable Distributed Programming", hierarchical uniform consensus).
//! That supposes that a member that others hold for failed does not go on; it learns it by the
//! decision.
//!
//! Members tell each other whom they hold for failed, so that all soon have the same leader.

use std::collections::BTreeMap;

/// Members that have failed, by their index, as bits of words.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Set(pub Vec<u64>);

impl Set {
    /// Makes an empty set of so many members.
    pub(crate) fn new(members: usize) -> Set {
        Set(vec![0; members.div_ceil(64)])
    }

    /// Adds a member. True if it was not there.
    pub(crate) fn add(&mut self, member: usize) -> bool {
        let Some(word) = self.0.get_mut(member / 64) else { return false };
        let before = *word;
        *word |= 1 << (member % 64);
        *word != before
    }

    /// Returns true if a member is there.
    pub(crate) fn has(&self, member: usize) -> bool {
        self.0.get(member / 64).is_some_and(|word| word >> (member % 64) & 1 == 1)
    }

    /// Adds those of another set. True if there were new ones.
    pub(crate) fn join(&mut self, other: &Set) -> bool {
        let mut grown = false;
        for (own, other) in self.0.iter_mut().zip(&other.0) {
            grown |= *other & !*own != 0;
            *own |= other;
        }
        grown
    }

    /// Returns true if all of its members are in another set.
    pub(crate) fn is_within(&self, other: &Set) -> bool {
        self.0.iter().zip(&other.0).all(|(own, other)| own & !other == 0)
    }
}

/// A value that a member contributes, or on which all agree.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Value {
    /// The "and" of all words.
    pub words: Vec<u64>,
    /// The members that have failed.
    pub failed: Set,
}

/// A message of the protocol.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Message {
    /// A leader asks for the member's contribution.
    Query { failed: Set },
    /// The contribution, and the proposal that was accepted last, with its leader.
    Contribute { value: Value, accepted: Option<(usize, Value)> },
    /// A leader proposes a decision.
    Propose { value: Value },
    /// A member accepts a proposal.
    Accept { failed: Set },
    /// The decision.
    Decide { value: Value },
}

/// The part of a leader.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Lead {
    /// It waits for contributions.
    Collects,
    /// It waits for these to accept.
    Proposes { value: Value, accepts: Set },
}

/// A member's part of an agreement.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Agreement {
    me: usize,
    members: usize,
    /// Words of this member; `None` until it takes part.
    own: Option<Vec<u64>>,
    failed: Set,
    contributions: BTreeMap<usize, Value>,
    accepted: Option<(usize, Value)>,
    /// The highest leader that this member has followed.
    followed: usize,
    /// The leader that has this member's contribution.
    told: Option<usize>,
    lead: Option<Lead>,
    decided: Option<Value>,
}

/// Messages to members.
pub(crate) type Outgoing = Vec<(usize, Message)>;

impl Agreement {
    /// Begins the part of member `me` of `members`.
    pub(crate) fn new(me: usize, members: usize) -> Agreement {
        Agreement {
            me,
            members,
            own: None,
            failed: Set::new(members),
            contributions: BTreeMap::new(),
            accepted: None,
            followed: 0,
            told: None,
            lead: None,
            decided: None,
        }
    }

    /// Returns the decision, once it is known.
    pub(crate) fn decided(&self) -> Option<&Value> {
        self.decided.as_ref()
    }

    /// Returns the lowest member that has not failed.
    fn leader(&self) -> usize {
        (0..self.members).find(|m| !self.failed.has(*m)).unwrap_or(self.me)
    }

    fn living(&self) -> impl Iterator<Item = usize> {
        (0..self.members).filter(|m| *m != self.me && !self.failed.has(*m))
    }

    fn contribution(&self) -> Option<Message> {
        let value = Value { words: self.own.clone()?, failed: self.failed.clone() };
        Some(Message::Contribute { value, accepted: self.accepted.clone() })
    }

    /// Takes part, with this member's words.
    pub(crate) fn begin(&mut self, words: Vec<u64>, out: &mut Outgoing) {
        self.own = Some(words);
        self.follow(out);
    }

    /// Notes that a member has failed.
    pub(crate) fn fail(&mut self, member: usize, out: &mut Outgoing) {
        if self.failed.add(member) {
            self.follow(out);
        }
    }

    /// Acts as those that have failed demand: for another leader, or as the leader.
    fn follow(&mut self, out: &mut Outgoing) {
        if self.decided.is_some() || self.own.is_none() {
            return;
        }
        let leader = self.leader();
        if leader == self.me {
            if self.lead.is_none() {
                self.lead = Some(Lead::Collects);
                let query = Message::Query { failed: self.failed.clone() };
                let silent = self.living().filter(|m| !self.contributions.contains_key(m));
                out.extend(silent.map(|m| (m, query.clone())));
            }
            self.lead_on(out);
        } else if self.told != Some(leader) {
            self.contribute_to(leader, out);
        }
    }

    fn contribute_to(&mut self, leader: usize, out: &mut Outgoing) {
        self.followed = self.followed.max(leader);
        if let Some(message) = self.contribution() {
            self.told = Some(leader);
            out.push((leader, message));
        }
    }

    /// Goes on as the leader, if all that live have answered.
    fn lead_on(&mut self, out: &mut Outgoing) {
        if matches!(self.lead, Some(Lead::Collects))
            && self.living().all(|m| self.contributions.contains_key(&m))
        {
            let value = match self.accepted.clone() {
                Some((_, value)) => value,
                None => self.combined(),
            };
            self.accepted = Some((self.me, value.clone()));
            out.extend(self.living().map(|m| (m, Message::Propose { value: value.clone() })));
            self.lead = Some(Lead::Proposes { value, accepts: Set::new(self.members) });
        }
        if let Some(Lead::Proposes { value, accepts }) = &self.lead
            && self.living().all(|m| accepts.has(m))
        {
            let value = value.clone();
            self.decide(value, out);
        }
    }

    /// Decides, and as the leader tells all, also those that others hold for failed.
    fn decide(&mut self, value: Value, out: &mut Outgoing) {
        self.failed.join(&value.failed);
        if self.lead.is_some() {
            let all = (0..self.members).filter(|m| *m != self.me);
            let hear = all.filter(|m| !self.failed.has(*m) || self.contributions.contains_key(m));
            out.extend(hear.map(|m| (m, Message::Decide { value: value.clone() })));
        }
        self.contributions.clear();
        self.decided = Some(value);
    }

    /// Returns the value of all contributions.
    fn combined(&self) -> Value {
        let mut words = self.own.clone().unwrap_or_default();
        for value in self.contributions.values() {
            for (own, other) in words.iter_mut().zip(&value.words) {
                *own &= other;
            }
        }
        Value { words, failed: self.failed.clone() }
    }

    /// Handles a message of another member.
    pub(crate) fn receive(&mut self, from: usize, message: Message, out: &mut Outgoing) {
        if let Some(value) = &self.decided {
            // One that asks or contributes has not heard the decision.
            if matches!(message, Message::Query { .. } | Message::Contribute { .. } | Message::Propose { .. })
            {
                out.push((from, Message::Decide { value: value.clone() }));
            }
            return;
        }
        match message {
            Message::Decide { value } => self.decide(value, out),
            Message::Query { failed } => {
                let news = self.failed.join(&failed);
                if from >= self.followed {
                    self.contribute_to(from, out);
                }
                if news {
                    self.follow(out);
                }
            }
            Message::Contribute { value, accepted } => {
                let news = self.failed.join(&value.failed);
                if let Some((leader, value)) = accepted
                    && self.accepted.as_ref().is_none_or(|(own, _)| leader > *own)
                    && !matches!(self.lead, Some(Lead::Proposes { .. }))
                {
                    self.accepted = Some((leader, value));
                }
                self.contributions.insert(from, value);
                if news || self.lead.is_some() {
                    self.follow(out);
                }
            }
            Message::Propose { value } => {
                // A leader that failed may have proposed it before.
                if from >= self.followed && !self.failed.has(from) {
                    self.followed = from;
                    self.accepted = Some((from, value));
                    out.push((from, Message::Accept { failed: self.failed.clone() }));
                }
            }
            Message::Accept { failed } => {
                let news = self.failed.join(&failed);
                if let Some(Lead::Proposes { accepts, .. }) = &mut self.lead {
                    accepts.add(from);
                }
                if news || self.lead.is_some() {
                    self.follow(out);
                }
            }
        }
    }
}
