//! `PMI_process_mapping`: which rank runs on which node.
//!
//! The launcher states it as `(vector,(node0,nnodes,ppn)...)`: each block places `ppn`
//! consecutive ranks on each of the nodes `node0 .. node0 + nnodes`; when the blocks are used
//! up they are used again from the first, on the same nodes, until every rank is placed. So
//! `(vector,(0,1,1))` with four ranks puts them all on node 0, and
//! `(vector,(0,2,1),(0,2,1))` deals them out in turn.

#[cfg(test)]
mod tests;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Block {
    first_node: u32,
    nodes: u32,
    ranks_per_node: u32,
}

impl Block {
    fn ranks(self) -> u64 {
        u64::from(self.nodes) * u64::from(self.ranks_per_node)
    }
}

/// The parsed form of `PMI_process_mapping`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProcessMapping {
    blocks: Vec<Block>,
    /// Ranks that all blocks place once; not zero.
    period: u64,
}

/// A process mapping that cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the process mapping \"{text}\" cannot be read: {why}")]
pub struct MappingError {
    /// The mapping (its beginning, escaped).
    pub text: String,
    /// What is wrong with it.
    pub why: &'static str,
}

impl ProcessMapping {
    /// Reads a mapping.
    ///
    /// # Errors
    /// Says what is wrong with the text.
    pub fn parse(text: &str) -> Result<ProcessMapping, MappingError> {
        let error = |why| MappingError { text: crate::wire::quote(text.as_bytes()), why };
        let inner = text
            .trim()
            .strip_prefix('(')
            .and_then(|t| t.strip_suffix(')'))
            .and_then(|t| t.trim_start().strip_prefix("vector"))
            .ok_or_else(|| error("it is not (vector,...)"))?;
        let mut blocks = Vec::new();
        let mut period = 0u64;
        let mut rest = inner.trim();
        while !rest.is_empty() {
            let (block, after) = rest
                .strip_prefix(',')
                .and_then(|t| t.trim_start().strip_prefix('('))
                .and_then(|t| t.split_once(')'))
                .ok_or_else(|| error("a block is not (node,nodes,ranks)"))?;
            let mut numbers = block.split(',').map(|n| n.trim().parse::<u32>());
            let (Some(Ok(first_node)), Some(Ok(nodes)), Some(Ok(ranks_per_node)), None) =
                (numbers.next(), numbers.next(), numbers.next(), numbers.next())
            else {
                return Err(error("a block is not three numbers"));
            };
            let block = Block { first_node, nodes, ranks_per_node };
            if block.ranks() == 0 {
                return Err(error("a block places no rank"));
            }
            if first_node.checked_add(nodes).is_none() {
                return Err(error("a node number is too large"));
            }
            period = period.checked_add(block.ranks()).ok_or_else(|| error("it places too many ranks"))?;
            blocks.push(block);
            rest = after.trim_start();
        }
        if blocks.is_empty() {
            return Err(error("it has no block"));
        }
        Ok(ProcessMapping { blocks, period })
    }

    /// The node a rank runs on.
    pub fn node_of(&self, rank: u32) -> u32 {
        let mut left = u64::from(rank) % self.period;
        for block in &self.blocks {
            if left < block.ranks() {
                // Below `nodes`, hence it fits.
                let index = left / u64::from(block.ranks_per_node);
                return block.first_node + index as u32;
            }
            left -= block.ranks();
        }
        unreachable!("the remainder is below the sum of the blocks")
    }

    /// How many of the ranks `0 .. size` run on `node`.
    pub fn ranks_on(&self, node: u32, size: u32) -> u32 {
        let whole = u64::from(size) / self.period;
        let part = u64::from(size) % self.period;
        let mut count = 0u64;
        let mut before = 0u64;
        for block in &self.blocks {
            if let Some(index) = node.checked_sub(block.first_node)
                && index < block.nodes
            {
                let per_node = u64::from(block.ranks_per_node);
                let from = before + u64::from(index) * per_node;
                count += whole * per_node + part.saturating_sub(from).min(per_node);
            }
            before += block.ranks();
        }
        // Never more than `size`, which is a u32.
        count as u32
    }
}
