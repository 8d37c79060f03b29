//! The binary interfaces, and what only one of them has.

/// A binary interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Interface {
    /// The ABI of MPICH, whose handles and numbers are the library's.
    Mpich,
    /// The ABI of the standard.
    Standard,
}

impl Interface {
    pub(crate) const ALL: [Interface; 2] = [Interface::Mpich, Interface::Standard];

    /// The folder of its package in `mpi-abi`, and its name in the tables.
    pub(crate) fn folder(self) -> &'static str {
        match self {
            Interface::Mpich => "mpich",
            Interface::Standard => "standard",
        }
    }
}

/// Functions that only one interface has.
#[derive(Clone, Debug, Default)]
pub(crate) struct Only(Vec<(String, String)>);

impl Only {
    /// Takes the rows of the table.
    pub(super) fn of(rows: Vec<Vec<String>>) -> Only {
        let mut rows = rows.into_iter().map(Vec::into_iter);
        let pair = |mut row: std::vec::IntoIter<String>| row.next().zip(row.next());
        Only(rows.by_ref().filter_map(pair).collect())
    }

    /// Returns true if an interface has a function.
    pub(crate) fn has(&self, interface: Interface, name: &str) -> bool {
        let named = |pattern: &str| match pattern.strip_suffix('*') {
            Some(start) => name.starts_with(start),
            None => name == pattern,
        };
        let owner = self.0.iter().find(|(_, pattern)| named(pattern));
        owner.is_none_or(|(folder, _)| folder == interface.folder())
    }
}
