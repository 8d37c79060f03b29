//! Future events in order of time; a random number decides between equal times.

use netmod_core::Time;

use super::conn::{ConnId, Item};

#[derive(Debug)]
pub(super) enum NetEvent {
    Arrive {
        conn: ConnId,
        pipe: u8,
        item: Item,
    },
    /// A severed connection's end notices it.
    Broken {
        conn: ConnId,
        side: u8,
        errno: i32,
    },
    Room {
        conn: ConnId,
        side: u8,
    },
    Knock {
        conn: ConnId,
        tries: u32,
    },
    Wake(u32),
}

#[derive(Debug)]
pub(super) struct Scheduled {
    pub(super) at: Time,
    pub(super) tie: u64,
    pub(super) event: NetEvent,
}

impl PartialEq for Scheduled {
    fn eq(&self, o: &Self) -> bool {
        (self.at, self.tie) == (o.at, o.tie)
    }
}
impl Eq for Scheduled {}
impl PartialOrd for Scheduled {
    fn partial_cmp(&self, o: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(o))
    }
}
impl Ord for Scheduled {
    fn cmp(&self, o: &Self) -> std::cmp::Ordering {
        (self.at, self.tie).cmp(&(o.at, o.tie))
    }
}
