//! The names under which ports are published, shared by all jobs of a launcher.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Most names at a time.
const MOST: usize = 1 << 16;

/// Published names, and the jobs that have ended.
#[derive(Debug, Clone, Default)]
pub struct Names(Arc<Mutex<Table>>);

#[derive(Debug, Default)]
struct Table {
    ports: BTreeMap<String, String>,
    /// The exit codes of jobs that others have asked for, by their names.
    ended: BTreeMap<String, i32>,
}

impl Names {
    fn table(&self) -> MutexGuard<'_, Table> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Publishes a port.
    ///
    /// # Errors
    ///
    /// Returns the reason as one word if the name is published already, or if there are too many.
    pub fn publish(&self, service: &str, port: &str) -> Result<(), &'static str> {
        let mut table = self.table();
        let room = table.ports.len() < MOST;
        match table.ports.entry(service.to_owned()) {
            Entry::Occupied(_) => Err("the_name_is_published_already"),
            Entry::Vacant(_) if !room => Err("too_many_names_are_published"),
            Entry::Vacant(vacant) => {
                vacant.insert(port.to_owned());
                Ok(())
            }
        }
    }

    /// Returns the port of a service.
    pub fn lookup(&self, service: &str) -> Option<String> {
        self.table().ports.get(service).cloned()
    }

    /// Takes a name back. Returns false if it is not published.
    pub fn unpublish(&self, service: &str) -> bool {
        self.table().ports.remove(service).is_some()
    }

    /// Notes that a job that was asked for has ended, before those who have asked knew it.
    pub(crate) fn note_end(&self, job: &str, code: i32) {
        let mut table = self.table();
        if table.ended.len() >= MOST {
            table.ended.pop_first();
        }
        table.ended.insert(job.to_owned(), code);
    }

    /// Returns the exit code of a job that has ended.
    pub fn end_of(&self, job: &str) -> Option<i32> {
        self.table().ended.get(job).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_published_once_until_it_is_taken_back() {
        let names = Names::default();
        assert_eq!(names.publish("a", "port"), Ok(()));
        assert!(names.clone().publish("a", "other").is_err());
        assert_eq!((names.lookup("a"), names.lookup("b")), (Some("port".into()), None));
        assert!(names.unpublish("a") && !names.unpublish("a"));
        for n in 0..MOST {
            assert_eq!(names.publish(&n.to_string(), "p"), Ok(()));
        }
        assert!(names.publish("one more", "p").is_err());
        names.note_end("job", 3);
        assert_eq!((names.end_of("job"), names.end_of("other")), (Some(3), None));
    }
}
