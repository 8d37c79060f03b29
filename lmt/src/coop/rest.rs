//! The protocol by which both sides of a VC let their rings go when one of them leaves for a
//! checkpoint: a state for each side, without memory, packets or clocks.
//!
//! A side that is about to leave says REST. From then on it grants no message and accepts none, but
//! what was accepted goes through: REST names the ring and the position at which that ends. The
//! peer takes what it has granted behind that position out of its queue, since it will be refused,
//! and answers RESTED. Until the answer is read this side accepts nothing, even if it is back: what
//! the peer had granted before stands in no queue any more.
//!
//! Nobody waits for the answer. A side leaves when its two queues are empty, and for that it needs
//! nothing of a peer that has left before: that one has put in, and taken out, all that was
//! accepted, and its REST has voided the rest.
//!
//! A ring that was there when REST was said, or read, carries no further message. Both sides drop
//! it when it is empty, and a new one is made when one is needed. The peer grants again as soon as
//! the side that has left offers rings, which it does when it is back.

/// The state of one side of a VC.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Rest {
    /// RESTs of this side that the peer has not answered.
    unanswered: u32,
    /// The peer has said REST, and has not offered rings since.
    is_peer_away: bool,
    /// The rings that are there carry no further message.
    is_closing: bool,
}

impl Rest {
    /// Notes that this side says REST.
    pub fn say(&mut self) {
        self.unanswered = self.unanswered.saturating_add(1);
        self.is_closing = true;
    }

    /// Notes a REST of the peer's, which is to be answered.
    pub fn heard(&mut self) {
        (self.is_peer_away, self.is_closing) = (true, true);
    }

    /// Notes a RESTED of the peer's. Returns false if nothing was asked.
    #[must_use]
    pub fn answered(&mut self) -> bool {
        let left = self.unanswered.checked_sub(1);
        self.unanswered = left.unwrap_or(0);
        left.is_some()
    }

    /// Notes that the peer offers rings.
    pub fn offered(&mut self) {
        self.is_peer_away = false;
    }

    /// Notes that both rings are gone.
    pub fn closed(&mut self) {
        self.is_closing = false;
    }

    /// Returns true if the rings are to be dropped as soon as they are empty.
    pub fn is_closing(&self) -> bool {
        self.is_closing
    }

    /// Returns true if a message of the peer's may be granted a ring.
    pub fn may_grant(&self) -> bool {
        !self.is_peer_away && !self.is_closing
    }

    /// Returns true if what the peer grants may be accepted.
    pub fn may_accept(&self) -> bool {
        self.unanswered == 0
    }

    /// Returns true if a checkpoint of either side still keeps messages from the rings.
    pub fn is_disturbed(&self) -> bool {
        !self.may_grant() || !self.may_accept()
    }
}
