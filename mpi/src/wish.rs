//! The wishes of processes in a split: who wants to be with whom, and in which order.

use std::sync::Arc;

use crate::ranks::Ranks;

/// This process's wish in a split.
#[derive(Clone, Copy)]
pub(crate) struct Wish {
    /// `None`: it will be in no communicator.
    pub color: Option<u64>,
    pub key: i32,
}

impl Wish {
    const LEN: usize = 13;

    pub(crate) fn emit(self) -> Vec<u8> {
        let mut record = Vec::with_capacity(Wish::LEN);
        record.push(self.color.is_some().into());
        record.extend(self.color.unwrap_or(0).to_le_bytes());
        record.extend(self.key.to_le_bytes());
        record
    }

    /// Reads everybody's wishes. A record has the length that this process has asked for.
    pub(crate) fn parse(records: &[u8]) -> Vec<Wish> {
        let wish = |record: &[u8; Wish::LEN]| {
            let [joins, color @ .., a, b, c, d] = *record;
            let color = u64::from_le_bytes(color);
            Wish { color: (joins != 0).then_some(color), key: i32::from_le_bytes([a, b, c, d]) }
        };
        records.as_chunks().0.iter().map(wish).collect()
    }

    /// Returns the places of those that wish for a color, in the order of their keys.
    pub(crate) fn places(wishes: &[Wish], color: Option<u64>, group: &Ranks) -> Arc<[u32]> {
        let mut members: Vec<_> = wishes.iter().zip(0..).filter(|(w, _)| w.color == color).collect();
        members.sort_by_key(|(w, _)| w.key);
        members.iter().filter_map(|(_, rank)| group.place(*rank)).collect()
    }
}
