//! Which kind of link joins which pair of ranks: the same table on every rank of a job.

use crate::error::LinkKind;
use crate::tune::crowding;

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
        Matrix { size, kinds: kinds.collect(), hosts, cores }
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
}
