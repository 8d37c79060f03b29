//! The receiving side of a rail: chunks are read to where they belong.

use std::os::fd::RawFd;

use netmod_core::{IoVec, VcId};

use crate::link::Failure;
use crate::sys::{self, RxArena};

use crate::record::Opener;

use super::regions::{Regions, Target};
use super::wire::{Ack, ChunkHeader, HEADER};

/// Progress of the present chunk.
#[derive(Debug)]
pub(crate) struct ChunkReader {
    /// The header, or as much of it as has come.
    header: [u8; HEADER],
    have: usize,
    /// The chunk whose data is coming.
    body: Option<Body>,
    /// Number of the next chunk.
    next: u32,
}

#[derive(Clone, Copy, Debug)]
struct Body {
    head: ChunkHeader,
    done: usize,
    /// Its region has ended: the rest is thrown away.
    gone: bool,
}

/// The reason why a rail is not read on.
#[derive(Debug)]
pub(crate) enum Stop {
    Ended(Failure),
    /// The peer violates the protocol.
    Nonsense(&'static str),
    /// The data of a chunk has another checksum than its header says, or a record was altered.
    Altered,
}

/// The result of one read.
#[derive(Debug, Default)]
pub(crate) struct Read {
    /// Bytes that came.
    pub(crate) bytes: usize,
    /// Acknowledgement of the chunk that ended with them.
    pub(crate) ended: Option<Ack>,
    /// Set if the rail is not to be read on. What ended before counts nevertheless.
    pub(crate) stop: Option<Stop>,
}

impl From<Stop> for Read {
    fn from(stop: Stop) -> Read {
        Read { stop: Some(stop), ..Read::default() }
    }
}

impl ChunkReader {
    pub(crate) fn new() -> ChunkReader {
        ChunkReader { header: [0; HEADER], have: 0, body: None, next: 0 }
    }

    /// Reads once from a rail of a VC: the rest of the present chunk, and the next one's header.
    pub(crate) fn read(&mut self, fd: RawFd, vc: VcId, regions: &Regions, arena: &mut RxArena) -> Read {
        let mut iov = [IoVec::EMPTY; 2];
        let mut target = IoVec::EMPTY;
        if let Some(body) = &mut self.body {
            let left = body.head.len as usize - body.done;
            match regions.target(vc, body.head.region, body.head.at, body.head.len as usize) {
                Target::At(mem) if !body.gone => {
                    target = mem;
                    iov[0] = IoVec { base: mem.base.wrapping_add(body.done), len: left };
                }
                _ => {
                    body.gone = true;
                    iov[0] = arena.free(left);
                }
            }
        }
        // Behind data that is thrown away in pieces the header comes later.
        let whole = self.body.is_none_or(|b| iov[0].len == b.head.len as usize - b.done);
        let head = &mut self.header[self.have..];
        let wanted = if whole { head.len() } else { 0 };
        iov[1] = IoVec { base: head.as_mut_ptr(), len: wanted };
        let bytes = match sys::recv_iov(fd, &iov) {
            Ok(None) => return Read::default(),
            Ok(Some(0)) => return Stop::Ended(Failure::Eof).into(),
            Ok(Some(n)) => n,
            Err(e) => return Stop::Ended(e.raw_os_error().map_or(Failure::Eof, Failure::Errno)).into(),
        };
        self.advance(bytes, bytes.min(iov[0].len), target, vc, regions)
    }

    /// Takes checked bytes of records: the rest of the present chunk, or the next one's header.
    /// They are read from the connection if it is given and none are held.
    pub(crate) fn read_records(
        &mut self,
        fd: Option<RawFd>,
        opener: &mut Opener,
        vc: VcId,
        regions: &Regions,
    ) -> Read {
        loop {
            match opener.payload() {
                Err(_) => return Stop::Altered.into(),
                Ok([]) => {}
                Ok(bytes) => {
                    let read = self.take(bytes, vc, regions);
                    opener.take(read.bytes);
                    return read;
                }
            }
            match fd.map_or(Ok(None), |fd| opener.read(fd)) {
                Ok(None) => return Read::default(),
                Ok(Some(0)) => return Stop::Ended(Failure::Eof).into(),
                Ok(Some(_)) => {}
                Err(e) => return Stop::Ended(e.raw_os_error().map_or(Failure::Eof, Failure::Errno)).into(),
            }
        }
    }

    /// Puts bytes to where they belong, up to the end of the present chunk or of a header.
    fn take(&mut self, bytes: &[u8], vc: VcId, regions: &Regions) -> Read {
        let Some(body) = &mut self.body else {
            let head = &mut self.header[self.have..];
            let n = head.len().min(bytes.len());
            head[..n].copy_from_slice(&bytes[..n]);
            return self.advance(n, 0, IoVec::EMPTY, vc, regions);
        };
        let n = (body.head.len as usize - body.done).min(bytes.len());
        let mut target = IoVec::EMPTY;
        match regions.target(vc, body.head.region, body.head.at, body.head.len as usize) {
            Target::At(mem) if !body.gone => {
                target = mem;
                sys::copy_to(&bytes[..n], IoVec { base: mem.base.wrapping_add(body.done), len: n });
            }
            _ => body.gone = true,
        }
        self.advance(n, n, target, vc, regions)
    }

    /// Takes note of bytes, of which the first `data` are of the present chunk, which belongs to
    /// `target`, and the others of the next header.
    fn advance(&mut self, bytes: usize, data: usize, target: IoVec, vc: VcId, regions: &Regions) -> Read {
        self.have += bytes - data;
        let mut read = Read { bytes, ..Read::default() };
        match self.end_of_chunk(data, target) {
            Ok(ended) => read.ended = ended,
            Err(stop) => return Read { stop: Some(stop), ..read },
        }
        if self.have == HEADER {
            self.have = 0;
            read.stop = self.begin_chunk(vc, regions).err();
        }
        read
    }

    /// Takes note of data of the present chunk, which belongs to `target`. Returns the
    /// acknowledgement of the chunk if that was its last.
    fn end_of_chunk(&mut self, data: usize, target: IoVec) -> Result<Option<Ack>, Stop> {
        let Some(body) = &mut self.body else { return Ok(None) };
        body.done += data;
        if body.done < body.head.len as usize {
            return Ok(None);
        }
        let Body { head, gone, .. } = *body;
        self.body = None;
        if !gone && head.crc.is_some_and(|crc| crc != sys::checksum(target)) {
            return Err(Stop::Altered);
        }
        Ok(Some(Ack { number: head.number, len: head.len, taken: !gone }))
    }

    /// Begins the chunk whose header is complete.
    fn begin_chunk(&mut self, vc: VcId, regions: &Regions) -> Result<(), Stop> {
        let head = ChunkHeader::parse(&self.header).map_err(Stop::Nonsense)?;
        if head.number != self.next {
            return Err(Stop::Nonsense("a chunk with another number than the next"));
        }
        self.next = self.next.wrapping_add(1);
        let gone = match regions.target(vc, head.region, head.at, head.len as usize) {
            Target::At(_) => false,
            Target::Gone => true,
            Target::Outside => return Err(Stop::Nonsense("a chunk that is not within its region")),
        };
        self.body = Some(Body { head, done: 0, gone });
        Ok(())
    }
}
