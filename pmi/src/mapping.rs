//! `PMI_process_mapping`: the node of each rank.
//!
//! The launcher states it as `(vector,BLOCK,BLOCK,..)`. A block `(node0,nnodes,ppn)` places `ppn`
//! consecutive ranks on each of the nodes `node0 .. node0 + nnodes`; a mere number is a node with
//! one rank; `[BLOCK,..]xN` (Hydra 5) repeats blocks N times. After the last block the first one
//! follows again, on the same nodes, until every rank is placed: `(vector,(0,1,1))` with four ranks
//! puts them all on node 0, and `(vector,(0,2,1),(0,2,1))` or `(vector,[(0,2,1)]x2)` alternates
//! between two nodes.
//!
//! The grammar is that of MPICH's rank maps (`mpl_rankmap.c`).

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

/// Blocks that are repeated `times` times.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Group {
    blocks: Vec<Block>,
    times: u32,
    /// Ranks placed by one repetition; not zero.
    once: u64,
}

impl Group {
    fn ranks(&self) -> u64 {
        self.once * u64::from(self.times)
    }

    /// Returns how many of the first `limit` ranks of one repetition are on `node`.
    fn count(&self, node: u32, limit: u64) -> u64 {
        let (mut before, mut count) = (0, 0);
        for block in &self.blocks {
            if let Some(index) = node.checked_sub(block.first_node)
                && index < block.nodes
            {
                let per_node = u64::from(block.ranks_per_node);
                let from = before + u64::from(index) * per_node;
                count += limit.saturating_sub(from).min(per_node);
            }
            before += block.ranks();
        }
        count
    }
}

/// The parsed form of `PMI_process_mapping`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProcessMapping {
    groups: Vec<Group>,
    /// Ranks placed by all groups together; not zero.
    period: u64,
}

/// A process mapping that cannot be parsed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the process mapping \"{text}\" cannot be read: {why}")]
pub struct MappingError {
    /// The mapping (its beginning, escaped).
    pub text: String,
    /// The error in it.
    pub why: &'static str,
}

impl ProcessMapping {
    /// Parses a mapping.
    ///
    /// # Errors
    ///
    /// Returns the error in the text.
    pub fn parse(text: &str) -> Result<ProcessMapping, MappingError> {
        parse(&mut Reader { rest: text })
            .map_err(|why| MappingError { text: crate::wire::quote(text.as_bytes()), why })
    }

    /// Returns the node of a rank.
    pub fn node_of(&self, rank: u32) -> u32 {
        let mut left = u64::from(rank) % self.period;
        for group in &self.groups {
            if left >= group.ranks() {
                left -= group.ranks();
                continue;
            }
            left %= group.once;
            for block in &group.blocks {
                if left < block.ranks() {
                    // Below `nodes`, so it fits.
                    let index = left / u64::from(block.ranks_per_node);
                    return block.first_node + index as u32;
                }
                left -= block.ranks();
            }
        }
        unreachable!("the remainder is below the sum of the blocks")
    }

    /// Returns how many of the ranks `0 .. size` run on `node`.
    pub fn ranks_on(&self, node: u32, size: u32) -> u32 {
        let periods = u64::from(size) / self.period;
        let mut left = u64::from(size) % self.period;
        let mut count = 0;
        for group in &self.groups {
            let here = left.min(group.ranks());
            left -= here;
            // `periods` times the whole group, and once its first `here` ranks.
            let times = periods * u64::from(group.times) + here / group.once;
            if times > 0 {
                count += times * group.count(node, group.once);
            }
            count += group.count(node, here % group.once);
        }
        // Never more than `size`, which is a u32.
        count as u32
    }
}

fn parse(reader: &mut Reader<'_>) -> Result<ProcessMapping, &'static str> {
    if !(reader.take("(") && reader.take("vector")) {
        return Err("it is not (vector,...)");
    }
    let mut groups = Vec::new();
    let mut period = 0u64;
    while reader.take(",") {
        let mut blocks = Vec::new();
        let mut times = 1;
        if reader.take("[") {
            loop {
                blocks.push(reader.block()?);
                if !reader.take(",") {
                    break;
                }
            }
            if !(reader.take("]") && reader.take("x")) {
                return Err("a repetition is not [blocks]xN");
            }
            times = reader.number()?;
            if times == 0 {
                return Err("a repetition is of 0 times");
            }
        } else {
            blocks.push(reader.block()?);
        }
        const TOO_MANY: &str = "it places too many ranks";
        let mut once = 0u64;
        for block in &blocks {
            once = once.checked_add(block.ranks()).ok_or(TOO_MANY)?;
        }
        let ranks = once.checked_mul(u64::from(times)).ok_or(TOO_MANY)?;
        period = period.checked_add(ranks).ok_or(TOO_MANY)?;
        groups.push(Group { blocks, times, once });
    }
    if !reader.take(")") || !reader.rest.trim_start().is_empty() {
        return Err("it does not end with )");
    }
    if groups.is_empty() {
        return Err("it has no block");
    }
    Ok(ProcessMapping { groups, period })
}

/// The rest of the text.
struct Reader<'a> {
    rest: &'a str,
}

impl Reader<'_> {
    /// Returns true if `word` comes next (after blanks), and consumes it.
    fn take(&mut self, word: &str) -> bool {
        match self.rest.trim_start().strip_prefix(word) {
            Some(rest) => {
                self.rest = rest;
                true
            }
            None => false,
        }
    }

    fn number(&mut self) -> Result<u32, &'static str> {
        let text = self.rest.trim_start();
        let digits = text.bytes().take_while(u8::is_ascii_digit).count();
        let (number, rest) = text.split_at(digits);
        self.rest = rest;
        number.parse().map_err(|_| "a number from 0 is missing or too large")
    }

    fn block(&mut self) -> Result<Block, &'static str> {
        if !self.take("(") {
            return Ok(Block { first_node: self.number()?, nodes: 1, ranks_per_node: 1 });
        }
        const FORM: &str = "a block is not (node,nodes,ranks)";
        let first_node = self.number()?;
        let nodes = self.take(",").then(|| self.number()).ok_or(FORM)??;
        let ranks_per_node = self.take(",").then(|| self.number()).ok_or(FORM)??;
        if !self.take(")") {
            return Err(FORM);
        }
        let block = Block { first_node, nodes, ranks_per_node };
        if block.ranks() == 0 {
            return Err("a block places no rank");
        }
        if first_node.checked_add(nodes).is_none() {
            return Err("a node number is too large");
        }
        Ok(block)
    }
}
