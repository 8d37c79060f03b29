//! Archives of cpio's format `newc`, from which Linux fills its first file system.

use std::collections::BTreeSet;

/// An archive in memory. Folders are made when something is put into them.
pub(crate) struct Archive {
    bytes: Vec<u8>,
    inode: u32,
    folders: BTreeSet<String>,
}

const FOLDER: u32 = 0o040_755;
const FILE: u32 = 0o100_000;
const LINK: u32 = 0o120_777;

impl Archive {
    pub(crate) fn new() -> Archive {
        Archive { bytes: Vec::new(), inode: 0, folders: BTreeSet::new() }
    }

    /// A file with its permissions. Paths begin with `/`.
    pub(crate) fn file(&mut self, path: &str, mode: u32, content: &[u8]) {
        self.parents(path);
        self.entry(path, FILE | mode, content);
    }

    /// A symbolic link.
    pub(crate) fn link(&mut self, path: &str, to: &str) {
        self.parents(path);
        self.entry(path, LINK, to.as_bytes());
    }

    /// A folder.
    pub(crate) fn folder(&mut self, path: &str) {
        self.parents(path);
        if self.folders.insert(path.to_owned()) {
            self.entry(path, FOLDER, b"");
        }
    }

    /// The bytes of the whole.
    pub(crate) fn finish(mut self) -> Vec<u8> {
        self.header("TRAILER!!!", 0, 0, 0);
        self.bytes
    }

    fn parents(&mut self, path: &str) {
        if let Some((folder, _)) = path.rsplit_once('/').filter(|(folder, _)| !folder.is_empty()) {
            self.folder(folder);
        }
    }

    fn entry(&mut self, path: &str, mode: u32, content: &[u8]) {
        self.inode += 1;
        self.header(path.trim_start_matches('/'), self.inode, mode, content.len());
        self.bytes.extend(content);
        self.pad();
    }

    fn header(&mut self, name: &str, inode: u32, mode: u32, len: usize) {
        // Inode, mode, user, group, links, time, bytes, four device numbers, bytes of the name,
        // checksum.
        let fields = [inode, mode, 0, 0, 1, 0, len as u32, 0, 0, 0, 0, name.len() as u32 + 1, 0];
        self.bytes.extend(b"070701");
        for field in fields {
            self.bytes.extend(format!("{field:08x}").as_bytes());
        }
        self.bytes.extend(name.as_bytes());
        self.bytes.push(0);
        self.pad();
    }

    fn pad(&mut self) {
        self.bytes.resize(self.bytes.len().next_multiple_of(4), 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_archive_is_as_the_format_says() {
        let mut archive = Archive::new();
        archive.file("/a/b", 0o755, b"hello");
        archive.file("/a/c", 0o644, b"");
        archive.link("/l", "a/b");
        let bytes = archive.finish();
        let zeros = "0".repeat(8);
        let header = |inode: u32, mode: u32, len: u32, name: u32| {
            let start = format!("070701{inode:08x}{mode:08x}{zeros}{zeros}00000001{zeros}{len:08x}");
            start + &zeros.repeat(4) + &format!("{name:08x}{zeros}")
        };
        let expected = [
            // 110 bytes of a header and a name with its zero, filled up to a multiple of four.
            header(1, 0o040_755, 0, 2) + "a\0",
            header(2, 0o100_755, 5, 4) + "a/b\0\0\0hello\0\0\0",
            header(3, 0o100_644, 0, 4) + "a/c\0\0\0",
            header(4, 0o120_777, 3, 2) + "l\0a/b\0",
            header(0, 0, 0, 11) + "TRAILER!!!\0\0\0\0",
        ];
        assert_eq!(String::from_utf8(bytes).expect("ASCII"), expected.concat());
    }
}
