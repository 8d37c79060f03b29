//! Neighbourhood collectives: each process sends to its destinations and receives from its sources.

use super::call::{Call, Neighbours};
use super::plan::{Plan, bad};
use super::schedule::{Base, Data};
use crate::error::{Class, Result};

impl Plan<'_> {
    /// Sends a block along each edge.
    ///
    /// Of several edges between two processes the messages match in order. An edge to this process
    /// itself is a copy.
    fn edges(&mut self, around: &Neighbours, out: &[Data], into: &[Data]) {
        let me = self.b.me;
        let is_me = |rank: i32| usize::try_from(rank) == Ok(me);
        let mut own = around.order.iter().filter(|i| is_me(around.sources[**i]));
        for i in &around.order {
            if let Ok(from) = usize::try_from(around.sources[*i])
                && from != me
            {
                self.b.recv(from, into[*i]);
            }
        }
        for (to, data) in around.destinations.iter().zip(out) {
            match usize::try_from(*to) {
                Ok(to) if to == me => {
                    if let Some(i) = own.next() {
                        self.b.copy(*data, into[*i]);
                    }
                }
                Ok(to) => self.b.send(to, *data),
                // Nobody.
                Err(_) => {}
            }
        }
    }

    /// Builds the schedule of a call on the neighbours.
    pub(super) fn around(&mut self, call: &Call, around: &Neighbours) -> Result<()> {
        let (sources, destinations) = (around.sources.len(), around.destinations.len());
        let each = |d: Data, n: usize| (0..n).map(move |i| d.part(i * d.count, d.count)).collect::<Vec<_>>();
        let (out, into) = match call {
            Call::Allgather { send, recv } => {
                let mine = self.whole(Base::Send, send)?;
                let all = self.parts(Base::Recv, recv, sources)?;
                (vec![mine; destinations], each(all, sources))
            }
            Call::Allgatherv { send, recv } => {
                let mine = self.whole(Base::Send, send)?;
                (vec![mine; destinations], self.blocks(Base::Recv, recv, sources)?)
            }
            Call::Alltoall { send, recv } => {
                let from = self.parts(Base::Send, send, destinations)?;
                let all = self.parts(Base::Recv, recv, sources)?;
                (each(from, destinations), each(all, sources))
            }
            Call::Alltoallv { send, recv } => {
                let out = self.blocks(Base::Send, send, destinations)?;
                (out, self.blocks(Base::Recv, recv, sources)?)
            }
            _ => {
                let text = format!("{call:?} has no form for neighbours");
                return Err(bad(Class::INTERN, text));
            }
        };
        self.edges(around, &out, &into);
        Ok(())
    }
}
