//! Which kind of link joins which pair of ranks: the same table on every rank of a job.

use std::fmt;

use crate::error::LinkKind;
use crate::tune::crowding;

/// What the links of a group look like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Topology {
    /// There is one rank.
    Alone,
    /// Every pair has such a link.
    Mesh(LinkKind),
    /// Neighbours have, the last and the first among them; the others have something slower.
    Ring(LinkKind),
    /// As a ring that is open in one place.
    Line(LinkKind),
    /// Some pairs have.
    Partial(LinkKind),
}

impl fmt::Display for Topology {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Topology::Alone => f.write_str("a single rank"),
            Topology::Mesh(kind) => write!(f, "mesh over {kind}"),
            Topology::Ring(kind) => write!(f, "ring over {kind}"),
            Topology::Line(kind) => write!(f, "line over {kind}"),
            Topology::Partial(kind) => write!(f, "some pairs over {kind}"),
        }
    }
}

/// The kinds of all links of a job, and which ranks share a host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Matrix {
    size: usize,
    /// `kinds[low * size + high]`; the diagonal is not used.
    kinds: Vec<LinkKind>,
    /// A number per host, by rank.
    hosts: Vec<usize>,
    /// Processor cores of the host, by rank.
    cores: Vec<usize>,
    /// `cables[rank * size + peer]`: the rank's RDMA devices that lead to the peer, by number.
    cables: Vec<Vec<u32>>,
}

impl Matrix {
    /// Every pair is joined alike, on one host.
    pub(crate) fn uniform(size: usize, kind: LinkKind) -> Self {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        Matrix {
            size,
            kinds: vec![kind; size * size],
            hosts: vec![0; size],
            cores: vec![cores; size],
            cables: vec![Vec::new(); size * size],
        }
    }

    /// A table filled from a function that is symmetric.
    pub(crate) fn new(
        hosts: Vec<usize>,
        cores: Vec<usize>,
        kind: impl Fn(usize, usize) -> LinkKind,
    ) -> Self {
        let size = hosts.len();
        let kinds =
            (0..size * size).map(|at| kind((at / size).min(at % size), (at / size).max(at % size)));
        let cables = vec![Vec::new(); size * size];
        Matrix { size, kinds: kinds.collect(), hosts, cores, cables }
    }

    /// With the RDMA devices of each rank that lead to each other one.
    pub(crate) fn with_cables(mut self, devices: impl Fn(usize, usize) -> Vec<u32>) -> Self {
        for rank in 0..self.size {
            for peer in (0..self.size).filter(|peer| *peer != rank) {
                if self.kind(rank, peer) == LinkKind::Rdma {
                    self.cables[rank * self.size + peer] = devices(rank, peer);
                }
            }
        }
        self
    }

    /// A rank's RDMA devices that lead to another one, by number; one per cable.
    pub(crate) fn cables(&self, rank: usize, peer: usize) -> &[u32] {
        &self.cables[rank * self.size + peer]
    }

    /// What the fast links of some ranks look like: RDMA where there is any, else whatever joins
    /// them.
    pub(crate) fn topology(&self, members: &[usize]) -> Topology {
        let size = members.len();
        let kinds = self.kinds(members);
        let Some(slowest) = kinds.iter().max() else { return Topology::Alone };
        let kind = if kinds.contains(&LinkKind::Rdma) { LinkKind::Rdma } else { *slowest };
        let fast = |a: usize, b: usize| self.kind(members[a], members[b]) <= kind;
        let count = |a: usize| (0..size).filter(|b| *b != a && fast(a, *b)).count();
        let edges = (0..size).map(count).sum::<usize>() / 2;
        if edges == size * (size - 1) / 2 {
            return Topology::Mesh(kind);
        }
        let steps = (0..size).filter(|a| fast(*a, (a + 1) % size)).count();
        match (edges, steps) {
            (edges, steps) if edges == size && steps == size => Topology::Ring(kind),
            (edges, steps) if edges + 1 == size && steps + 1 == size => Topology::Line(kind),
            _ => Topology::Partial(kind),
        }
    }

    /// What joins two different ranks.
    pub(crate) fn kind(&self, first: usize, second: usize) -> LinkKind {
        self.kinds[first.min(second) * self.size + first.max(second)]
    }

    /// What joins a rank with another one; `None` for itself.
    pub(crate) fn kind_to(&self, rank: usize, peer: usize) -> Option<LinkKind> {
        (rank != peer).then(|| self.kind(rank, peer))
    }

    /// The kinds of the links among some ranks, each kind once.
    pub(crate) fn kinds(&self, members: &[usize]) -> Vec<LinkKind> {
        let mut kinds: Vec<LinkKind> = Vec::new();
        for (at, first) in members.iter().enumerate() {
            for second in &members[at + 1..] {
                let kind = self.kind(*first, *second);
                if !kinds.contains(&kind) {
                    kinds.push(kind);
                }
            }
        }
        kinds
    }

    /// Whether some ranks share a host.
    pub(crate) fn one_host(&self, members: &[usize]) -> bool {
        members.iter().all(|member| self.hosts[*member] == self.hosts[members[0]])
    }

    /// Ranks per processor core on the fullest host of some ranks, in thousandths.
    pub(crate) fn crowding(&self, members: &[usize]) -> u32 {
        let on = |host: usize| members.iter().filter(|rank| self.hosts[**rank] == host).count();
        let fullness = |rank: &usize| crowding(on(self.hosts[*rank]), self.cores[*rank]);
        members.iter().map(fullness).max().unwrap_or(1000)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_symmetric_and_knows_subsets() {
        let hosts = vec![0, 0, 1, 1];
        let matrix = Matrix::new(hosts.clone(), vec![2; 4], |a, b| {
            if hosts[a] == hosts[b] { LinkKind::Shm } else { LinkKind::Tcp }
        });
        for a in 0..4 {
            for b in (0..4).filter(|b| *b != a) {
                assert_eq!(matrix.kind(a, b), matrix.kind(b, a));
            }
        }
        assert_eq!(matrix.kinds(&[2, 3]), [LinkKind::Shm]);
        assert_eq!(matrix.kinds(&[1, 2]), [LinkKind::Tcp]);
        assert_eq!(matrix.kinds(&[0, 1, 2]), [LinkKind::Shm, LinkKind::Tcp]);
        assert!(matrix.kinds(&[1]).is_empty());
        assert_eq!(matrix.crowding(&[0, 1, 2]), 1000);
        assert_eq!(
            Matrix::new(vec![0; 3], vec![2; 3], |_, _| LinkKind::Shm).crowding(&[0, 1, 2]),
            1500
        );
        assert!(matrix.one_host(&[0, 1]) && !matrix.one_host(&[1, 2]));
    }

    #[test]
    fn topologies_are_known_by_their_fast_links() {
        let of = |size: usize, cable: &dyn Fn(usize, usize) -> bool| {
            let matrix = Matrix::new((0..size).collect(), vec![2; size], |a, b| {
                if cable(a, b) { LinkKind::Rdma } else { LinkKind::Tcp }
            });
            let all: Vec<usize> = (0..size).collect();
            matrix.topology(&all)
        };
        use Topology::*;
        assert_eq!(of(4, &|_, _| true), Mesh(LinkKind::Rdma));
        assert_eq!(of(4, &|_, _| false), Mesh(LinkKind::Tcp));
        assert_eq!(of(4, &|a, b| b - a == 1 || b - a == 3), Ring(LinkKind::Rdma));
        assert_eq!(of(4, &|a, b| b - a == 1), Line(LinkKind::Rdma));
        assert_eq!(of(4, &|a, b| (a, b) != (1, 2) && b - a != 3), Partial(LinkKind::Rdma));
        assert_eq!(of(4, &|a, _| a == 0), Partial(LinkKind::Rdma));
        // A line that is open between its first and second rank.
        assert_eq!(of(4, &|a, b| b - a == 1 && a > 0 || b - a == 3), Line(LinkKind::Rdma));
        assert_eq!(of(2, &|_, _| true), Mesh(LinkKind::Rdma));
        assert_eq!(of(1, &|_, _| true), Alone);
        assert_eq!(Line(LinkKind::Rdma).to_string(), "line over rdma");
    }

    #[test]
    fn cables_are_those_of_rdma_links() {
        let kind = |a: usize, b: usize| if b - a == 1 { LinkKind::Rdma } else { LinkKind::Tcp };
        let matrix = Matrix::new(vec![0, 1, 2], vec![2; 3], kind)
            .with_cables(|rank, peer| vec![10 * rank as u32 + peer as u32]);
        assert_eq!(matrix.cables(0, 1), [1]);
        assert_eq!(matrix.cables(1, 0), [10]);
        assert!(matrix.cables(0, 2).is_empty());
    }
}
