//! The job's key-value space, bounded in every respect.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

/// Longest key plus one, in bytes; announced as `keylen_max`.
pub const KEY_MAX: usize = 64;

/// Longest value plus one, in bytes; announced as `vallen_max`.
pub const VALUE_MAX: usize = 1024;

/// Most bytes stored per rank: enough for three values of the largest size.
const RANK_QUOTA: usize = 5 << 20;

/// Most bytes stored by all ranks together.
const TOTAL_QUOTA: usize = 256 << 20;

/// Approximate overhead of an entry beyond its key and value, in bytes.
const ENTRY_COST: usize = 96;

/// The reason why a value was not stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum KvsError {
    /// The key is too long.
    #[error("the key has {KEY_MAX} bytes or more")]
    KeyTooLong,
    /// The value is too long.
    #[error("the value has {VALUE_MAX} bytes or more")]
    ValueTooLong,
    /// The value is empty.
    #[error("the value is empty")]
    Empty,
    /// The key exists.
    #[error("the key exists")]
    Duplicate,
    /// The rank, or all ranks together, have reached their quota.
    #[error("the limit of {RANK_QUOTA} bytes a rank, or {TOTAL_QUOTA} bytes a job, is reached")]
    Quota,
    /// The key-value space is another job's.
    #[error("there is no such key-value space")]
    OtherSpace,
}

impl KvsError {
    /// Returns the reason as one word for the reply.
    pub fn word(self) -> &'static str {
        match self {
            KvsError::KeyTooLong => "key_too_long",
            KvsError::ValueTooLong => "value_too_long",
            KvsError::Empty => "empty_value",
            KvsError::Duplicate => "duplicate_key",
            KvsError::Quota => "quota_exceeded",
            KvsError::OtherSpace => "no_such_kvsname",
        }
    }
}

/// The keys and values of one job.
#[derive(Debug)]
pub struct Kvs {
    entries: HashMap<Box<str>, Box<str>>,
    /// Bytes stored by each rank.
    used: Vec<usize>,
    total: usize,
}

impl Kvs {
    /// Creates an empty space for the ranks `0 .. size`.
    pub fn new(size: u32) -> Kvs {
        Kvs { entries: HashMap::new(), used: vec![0; size as usize], total: 0 }
    }

    /// Stores a value for `rank`.
    ///
    /// A key cannot be stored twice: a reader could otherwise get parts of two values.
    ///
    /// # Errors
    ///
    /// Fails if a limit is exceeded, or the key exists.
    pub fn put(&mut self, rank: u32, key: &str, value: &str) -> Result<(), KvsError> {
        if key.len() >= KEY_MAX {
            return Err(KvsError::KeyTooLong);
        }
        if value.len() >= VALUE_MAX {
            return Err(KvsError::ValueTooLong);
        }
        if value.is_empty() {
            return Err(KvsError::Empty);
        }
        let cost = key.len() + value.len() + ENTRY_COST;
        let used = &mut self.used[rank as usize];
        if *used + cost > RANK_QUOTA || self.total + cost > TOTAL_QUOTA {
            return Err(KvsError::Quota);
        }
        match self.entries.entry(key.into()) {
            Entry::Occupied(_) => Err(KvsError::Duplicate),
            Entry::Vacant(vacant) => {
                vacant.insert(value.into());
                *used += cost;
                self.total += cost;
                Ok(())
            }
        }
    }

    /// Stores a value that the space has from the beginning.
    pub(super) fn preset(&mut self, key: &str, value: &str) {
        self.entries.insert(key.into(), value.into());
    }

    /// Looks up a value.
    pub fn get(&self, key: &str) -> Option<&str> {
        self.entries.get(key).map(|value| &**value)
    }
}
