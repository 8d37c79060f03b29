//! Infos: keys with values, in the order in which they were set.

use crate::consts::{MAX_INFO_KEY, MAX_INFO_VAL};
use crate::error::{Class, MpiError, Result};
use crate::handle::{Handle as _, Info, Table};

/// The pairs of one info.
type Pairs = Vec<(String, String)>;

/// All infos of a process.
#[derive(Debug)]
pub struct Infos {
    table: Table<Info, Pairs>,
}

impl Default for Infos {
    fn default() -> Infos {
        Infos::new()
    }
}

impl Infos {
    /// Creates the predefined info `MPI_INFO_ENV` alone.
    pub fn new() -> Infos {
        // The predefined infos begin with the index 1.
        Infos { table: Table::with_predefined([None, Some(environment())]) }
    }

    /// Creates an empty info.
    ///
    /// # Errors
    /// If no more can exist.
    pub fn create(&mut self) -> Result<Info> {
        self.table.insert(Vec::new())
    }

    /// Creates an info of pairs, whose keys and values are sound.
    ///
    /// # Errors
    /// If no more can exist.
    pub(crate) fn create_of(&mut self, pairs: Vec<(String, String)>) -> Result<Info> {
        self.table.insert(pairs)
    }

    /// Creates an info with what is known of the way in which this process was started.
    ///
    /// # Errors
    /// If no more can exist.
    pub fn create_env(&mut self) -> Result<Info> {
        self.table.insert(environment())
    }

    /// Creates a copy.
    ///
    /// # Errors
    /// If the info does not exist, or if no more can.
    pub fn dup(&mut self, info: Info) -> Result<Info> {
        let pairs = self.table.get(info)?.clone();
        self.table.insert(pairs)
    }

    /// Frees an info, and makes its handle null.
    ///
    /// # Errors
    /// If it does not exist, or is predefined.
    pub fn free(&mut self, info: &mut Info) -> Result<()> {
        self.table.remove(*info)?;
        *info = Info::NULL;
        Ok(())
    }

    /// Returns the pairs of an info; none of the null info.
    ///
    /// # Errors
    /// If it does not exist.
    pub fn pairs(&self, info: Info) -> Result<&[(String, String)]> {
        if info.is_null() { Ok(&[]) } else { self.table.get(info).map(Vec::as_slice) }
    }

    /// Sets the value of a key.
    ///
    /// # Errors
    /// If the info does not exist, or if the key or the value is empty or too long.
    pub fn set(&mut self, info: Info, key: &str, value: &str) -> Result<()> {
        let pairs = self.changed(info)?;
        check_key(key)?;
        if value.len() > MAX_INFO_VAL {
            let text = format!("the value of {key} has {} bytes, and may have {MAX_INFO_VAL}", value.len());
            return Err(MpiError::new(Class::INFO_VALUE, text));
        }
        match pairs.iter_mut().find(|(k, _)| k == key) {
            Some((_, old)) => value.clone_into(old),
            None => pairs.push((key.to_owned(), value.to_owned())),
        }
        Ok(())
    }

    /// Removes a key.
    ///
    /// # Errors
    /// If the info does not exist, or does not have the key.
    pub fn delete(&mut self, info: Info, key: &str) -> Result<()> {
        let pairs = self.changed(info)?;
        check_key(key)?;
        let Some(at) = pairs.iter().position(|(k, _)| k == key) else {
            let text = format!("the info {:#010x} has no key {key}", info.raw());
            return Err(MpiError::new(Class::INFO_NOKEY, text));
        };
        pairs.remove(at);
        Ok(())
    }

    /// Returns the value of a key; `None` if the info does not have it.
    ///
    /// # Errors
    /// If the info does not exist, or if the key is empty or too long.
    pub fn get(&self, info: Info, key: &str) -> Result<Option<&str>> {
        let pairs = self.table.get(info)?;
        check_key(key)?;
        Ok(pairs.iter().find(|(k, _)| k == key).map(|(_, value)| value.as_str()))
    }

    /// Returns the number of keys.
    ///
    /// # Errors
    /// If the info does not exist.
    pub fn get_nkeys(&self, info: Info) -> Result<i32> {
        self.table.get(info).map(|pairs| pairs.len() as i32)
    }

    /// Returns a key by its number, from 0 on.
    ///
    /// # Errors
    /// If the info does not exist, or has not so many keys.
    pub fn get_nthkey(&self, info: Info, n: i32) -> Result<&str> {
        let pairs = self.table.get(info)?;
        let found = usize::try_from(n).ok().and_then(|n| pairs.get(n));
        found.map(|(key, _)| key.as_str()).ok_or_else(|| {
            let text = format!("the number of the key is {n}, and the info has {} keys", pairs.len());
            MpiError::new(Class::ARG, text)
        })
    }

    /// Returns the infos that were not freed.
    pub fn live(&self) -> usize {
        self.table.len()
    }

    fn changed(&mut self, info: Info) -> Result<&mut Pairs> {
        if info == Info::ENV {
            return Err(MpiError::new(Class::INFO, "MPI_INFO_ENV cannot be changed; change a copy of it"));
        }
        self.table.get_mut(info)
    }
}

fn check_key(key: &str) -> Result<()> {
    if key.is_empty() || key.len() > MAX_INFO_KEY {
        let text = format!("the key has {} bytes; it has from 1 to {MAX_INFO_KEY}", key.len());
        return Err(MpiError::new(Class::INFO_KEY, text));
    }
    Ok(())
}

/// Returns what `MPI_INFO_ENV` says of this process.
fn environment() -> Pairs {
    let mut pairs = Pairs::new();
    let mut add = |key: &str, value: Option<String>| {
        if let Some(mut value) = value.filter(|v| !v.is_empty()) {
            let mut end = value.len().min(MAX_INFO_VAL);
            while !value.is_char_boundary(end) {
                end -= 1;
            }
            value.truncate(end);
            pairs.push((key.to_owned(), value));
        }
    };
    let mut words = std::env::args_os().map(|word| word.to_string_lossy().into_owned());
    add("command", words.next());
    add("argv", Some(words.collect::<Vec<_>>().join(" ")));
    add("wdir", std::env::current_dir().ok().map(|dir| dir.to_string_lossy().into_owned()));
    add("arch", Some(std::env::consts::ARCH.to_owned()));
    pairs
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_set_read_and_removed_in_order() {
        let mut infos = Infos::new();
        let info = infos.create().expect("room");
        for (key, value) in [("b", "1"), ("a", "2"), ("b", "3")] {
            infos.set(info, key, value).expect("a sound pair");
        }
        assert_eq!((infos.get_nkeys(info), infos.get(info, "b")), (Ok(2), Ok(Some("3"))));
        assert_eq!((infos.get_nthkey(info, 0), infos.get_nthkey(info, 1)), (Ok("b"), Ok("a")));
        assert_eq!(infos.get(info, "c"), Ok(None));
        let mut copy = infos.dup(info).expect("room");
        infos.delete(info, "b").expect("a key");
        assert_eq!((infos.get_nkeys(info), infos.get(copy, "b")), (Ok(1), Ok(Some("3"))));
        infos.free(&mut copy).expect("an info");
        assert_eq!((copy, infos.live()), (Info::NULL, 1));
        assert_eq!(infos.pairs(Info::NULL), Ok(&[][..]));
    }

    #[test]
    fn what_is_wrong_has_its_class() {
        let mut infos = Infos::new();
        let info = infos.create().expect("room");
        let class = |result: Result<()>| result.expect_err("an error").class;
        assert_eq!(class(infos.set(info, "", "v")), Class::INFO_KEY);
        assert_eq!(class(infos.set(info, &"k".repeat(MAX_INFO_KEY + 1), "v")), Class::INFO_KEY);
        assert_eq!(class(infos.set(info, "k", &"v".repeat(MAX_INFO_VAL + 1))), Class::INFO_VALUE);
        assert_eq!(class(infos.delete(info, "k")), Class::INFO_NOKEY);
        assert_eq!(class(infos.set(Info::NULL, "k", "v")), Class::INFO);
        assert_eq!(class(infos.set(Info::ENV, "k", "v")), Class::INFO);
        assert_eq!(class(infos.get_nthkey(info, 0).map(|_| ())), Class::ARG);
        let mut gone = info;
        infos.free(&mut gone).expect("an info");
        assert_eq!(class(infos.free(&mut info.clone())), Class::INFO);
        assert_eq!(class(infos.free(&mut Info::ENV.clone())), Class::INFO);
    }

    #[test]
    fn the_environment_names_the_program() {
        let infos = Infos::new();
        assert!(infos.get(Info::ENV, "command").expect("the info").is_some_and(|c| !c.is_empty()));
        assert_eq!(infos.get(Info::ENV, "arch"), Ok(Some(std::env::consts::ARCH)));
    }
}
