//! What joins the ranks of a group and which algorithms follow from it, for people.

use std::fmt::Write;

use super::Group;
use crate::call::Operation;
use crate::collective::Algorithm;
use crate::error::LinkKind;

/// In larger groups the table of all pairs is left out.
const TABLE: usize = 16;

/// From which size on an operation of a group takes which algorithm.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Choice {
    /// The operation.
    pub operation: Operation,
    /// Bytes of one rank's contribution, or of one block where an operation has blocks.
    pub from_bytes: u64,
    /// What it takes from there on, up to the next choice for the same operation.
    pub algorithm: Algorithm,
}

impl Group {
    /// Which algorithm every collective takes from which size on. All ranks have the same list: it
    /// follows from what they have agreed on when the group was formed.
    pub fn choices(&self) -> Vec<Choice> {
        let collectives = Operation::ALL
            .into_iter()
            .filter(|operation| !operation.is_point_to_point() && *operation != Operation::Split);
        collectives
            .flat_map(|operation| {
                let ranges = self.core().tuner.thresholds(operation);
                ranges.into_iter().map(move |(from_bytes, algorithm)| Choice {
                    operation,
                    from_bytes,
                    algorithm,
                })
            })
            .collect()
    }

    /// A table of what a collective on so many bytes (as for [`Group::algorithm`]) is expected to
    /// cost with each of its algorithms; the one it takes is marked.
    ///
    /// # Panics
    /// If the operation is no collective.
    pub fn explain(&self, operation: Operation, bytes: u64) -> String {
        let collective = !operation.is_point_to_point() && operation != Operation::Split;
        assert!(collective, "{operation} is no collective");
        self.core().tuner.explain(operation, bytes)
    }

    /// The group as text: how its ranks are joined, this rank's links, and which algorithm every
    /// collective takes from which size on.
    pub fn describe(&self) -> String {
        let core = self.core();
        let size = self.size();
        let mut text = format!("rank {} of {size}", self.rank());
        if let Some(fabric) = &core.fabric {
            let matrix = &fabric.matrix;
            let _ = writeln!(text, ", {}", matrix.topology(&core.members));
            if size <= TABLE {
                text.push_str("\nlinks between ranks\n     ");
                for peer in 0..size {
                    let _ = write!(text, "{peer:>8}");
                }
                text.push('\n');
                for (rank, member) in core.members.iter().enumerate() {
                    let _ = write!(text, "{rank:>5}");
                    for other in core.members.iter() {
                        let cell = match matrix.kind_to(*member, *other) {
                            None => "-".to_owned(),
                            Some(LinkKind::Rdma) => match matrix.cables(*member, *other).len() {
                                0 | 1 => LinkKind::Rdma.name().to_owned(),
                                cables => format!("{cables} rdma"),
                            },
                            Some(kind) => kind.name().to_owned(),
                        };
                        let _ = write!(text, "{cell:>8}");
                    }
                    text.push('\n');
                }
            }
            let _ = writeln!(text, "\nlinks of this rank");
            for link in self.links() {
                let _ =
                    writeln!(text, "{:>5}  {:<6}  {}", link.peer, link.kind.name(), link.detail);
            }
        } else {
            text.push('\n');
        }
        let _ = writeln!(text, "\nalgorithms, from so many bytes of one contribution or block on");
        let mut last = None;
        for Choice { operation, from_bytes, algorithm } in self.choices() {
            if last != Some(operation) {
                if last.is_some() {
                    text.push('\n');
                }
                let _ = write!(text, "  {:<15}", operation.name());
                last = Some(operation);
            }
            let _ = write!(text, "  {from_bytes}: {}", algorithm.name());
        }
        text.push('\n');
        text
    }
}
