//! Messages of launchers and clients: lines of PMI-1, messages of PMI-2, mappings, values.

use netmod_pmi::ProcessMapping;
use netmod_pmi::codec::{Decoder, encode};
use netmod_pmi::server::Command;
use netmod_pmi::wire::{Line, LineBuffer, LineError};

use super::{text, texts};
use crate::Outcome;

pub(super) fn line_seeds() -> Vec<Vec<u8>> {
    texts(&[
        "cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0\n",
        "cmd=maxes kvsname_max=256 keylen_max=64 vallen_max=1024\ncmd=barrier_out rc=0\n",
        "cmd=get_result rc=-1 msg=key not found value=unknown\n",
    ])
}

/// Feeds an input in two pieces, and takes all that `next` returns.
fn take_all(
    input: &[u8],
    next: fn(&mut LineBuffer) -> Result<Option<&[u8]>, LineError>,
    parse: fn(&[u8]) -> Result<Line<'_>, LineError>,
) -> Outcome {
    let mut buffer = LineBuffer::default();
    let mut last = Ok("none");
    let (first, second) = input.split_at(input.len() / 2);
    for piece in [first, second] {
        buffer.extend(piece);
        loop {
            match next(&mut buffer) {
                Ok(Some(line)) => {
                    last = parse(line).map(|line| {
                        assert_eq!(line.get("cmd"), Some(line.cmd()));
                        "a line"
                    });
                }
                Ok(None) => break,
                Err(error) => return Outcome::of(&Err::<(), _>(error)),
            }
        }
    }
    assert!(buffer.rest().len() <= input.len());
    Outcome::of(&last)
}

pub(super) fn lines(input: &[u8]) -> Outcome {
    take_all(input, LineBuffer::next_line, |line| Line::parse(line))
}

pub(super) fn command_seeds() -> Vec<Vec<u8>> {
    texts(&[
        "cmd=init pmi_version=1 pmi_subversion=1\n",
        "cmd=initack pmiid=3\n",
        "cmd=put kvsname=job key=card-3 value=abc\n",
        "cmd=get kvsname=job key=card-3\n",
        "cmd=barrier_in\n",
        "cmd=abort exitcode=7\n",
        "cmd=finalize\n",
    ])
}

pub(super) fn command(input: &[u8]) -> Outcome {
    Outcome::of(&Command::parse(input))
}

fn framed(message: &str) -> String {
    format!("{:6}{message}", message.len())
}

pub(super) fn frame_seeds() -> Vec<Vec<u8>> {
    texts(&[
        &framed("cmd=fullinit-response;pmi-version=2;pmi-subversion=0;rank=1;size=4;rc=0;"),
        &(framed("cmd=kvs-fence-response;rc=0;") + &framed("cmd=kvs-get-response;found=TRUE;value=a;rc=0;")),
    ])
}

pub(super) fn frames(input: &[u8]) -> Outcome {
    take_all(input, LineBuffer::next_frame, |message| Line::parse_frame(message))
}

pub(super) fn mapping_seeds() -> Vec<Vec<u8>> {
    texts(&["(vector,(0,2,4))", "(vector,(0,1,2),(1,2,3))"])
}

pub(super) fn mapping(input: &[u8]) -> Outcome {
    let parsed = ProcessMapping::parse(&text(input));
    if let Ok(mapping) = &parsed {
        for rank in [0, 1, u32::MAX] {
            mapping.node_of(rank);
        }
    }
    Outcome::of(&parsed)
}

/// Texts under one key and its further keys, one a line.
pub(super) fn value_seeds() -> Vec<Vec<u8>> {
    let value: Vec<u8> = (0..200).collect();
    [20, 64, 1024]
        .iter()
        .filter_map(|room| Some(encode(&value, *room).ok()?.join("\n").into_bytes()))
        .collect()
}

/// A value of PMI and PMIx: the heading and the chunks that it announces.
pub(super) fn value(input: &[u8]) -> Outcome {
    let input = text(input);
    let mut chunks = input.split('\n');
    let decoded = (|| {
        let mut decoder = Decoder::new(chunks.next().unwrap_or_default())?;
        while decoder.wants().is_some() {
            // The decoder says of an early end what is missing.
            let Some(chunk) = chunks.next() else { break };
            decoder.push(chunk)?;
        }
        decoder.finish()
    })();
    if let Ok(value) = &decoded {
        assert!(value.len() <= input.len());
    }
    Outcome::of(&decoded)
}
