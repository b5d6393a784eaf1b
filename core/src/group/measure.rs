//! Measures what the cost model takes for given.

use std::time::{Duration, Instant};

use super::Group;
use crate::error::{LinkKind, Result};

/// The tag that measuring uses.
const TAG: u32 = u32::MAX;
/// Exchanges before anything is timed.
const WARM_UP: usize = 20;
/// Exchanges that are timed; their median counts.
const ROUNDS: usize = 101;
/// Small messages that are under way at once.
const BURST: usize = 64;
/// Bytes of a large message, and how many are timed.
const LARGE: usize = 4 << 20;
const LARGES: usize = 5;

impl Group {
    /// Measures the links of this group, one pair of ranks for each kind, and returns the prices
    /// that the cost model goes by as JSON: a file with it is what
    /// [`ConfigBuilder::profile`](crate::config::ConfigBuilder::profile) and `LYCAON_PROFILE` take. What
    /// was not measured keeps the price that this group has.
    ///
    /// All ranks have to call it, as a collective, and get the same. It takes a fraction of a second
    /// per kind of link on a quiet machine.
    ///
    /// # Errors
    /// What the messages meet.
    pub fn measure(&self) -> Result<String> {
        let core = self.core();
        let mut profile = core.tuner.hand().profile;
        let Some(fabric) = &core.fabric else { return Ok(profile.to_json()) };
        let (members, size) = (&core.members, self.size());
        let pairs = || (0..size).flat_map(|b| (0..b).map(move |a| (a, b)));
        for kind in [LinkKind::Memory, LinkKind::Shm, LinkKind::Rdma, LinkKind::Tcp] {
            let joined =
                |(a, b): &(usize, usize)| fabric.matrix.kind(members[*a], members[*b]) == kind;
            let Some((first, second)) = pairs().find(joined) else { continue };
            self.barrier()?;
            let mut found = [0_u64; 3];
            if self.rank() == first {
                found = self.time(second)?;
            } else if self.rank() == second {
                self.answer(first)?;
            }
            self.broadcast(&mut found, first)?;
            let cables = fabric.matrix.cables(members[first], members[second]).len().max(1) as u64;
            let link = profile.link_mut(kind);
            let [latency, message, kib] = found;
            (link.latency_ps, link.message_ps, link.kib_ps) = (latency, message, kib * cables);
        }
        Ok(profile.to_json())
    }

    /// Latency, price of a message and of 1024 bytes towards a rank that answers, in picoseconds.
    fn time(&self, peer: usize) -> Result<[u64; 3]> {
        let mut small = [0_u8; 8];
        let mut times = Vec::with_capacity(ROUNDS);
        for round in 0..WARM_UP + ROUNDS {
            let began = Instant::now();
            self.send(&small, peer, TAG)?;
            self.recv(&mut small, peer, TAG)?;
            if round >= WARM_UP {
                times.push(began.elapsed());
            }
        }
        let latency = median(times) / 2;
        let mut times = Vec::new();
        for _ in 0..LARGES {
            let began = Instant::now();
            for _ in 0..BURST {
                self.send(&small, peer, TAG)?;
            }
            self.recv(&mut small, peer, TAG)?;
            times.push(began.elapsed().saturating_sub(2 * latency) / BURST as u32);
        }
        let message = median(times);
        let large = vec![1_u8; LARGE];
        let mut times = Vec::new();
        for _ in 0..LARGES {
            let began = Instant::now();
            self.send(&large, peer, TAG)?;
            self.recv(&mut small, peer, TAG)?;
            times.push(began.elapsed().saturating_sub(2 * latency));
        }
        let kib = picoseconds(median(times)) / (LARGE as u64 / 1024);
        Ok([picoseconds(latency).max(1), picoseconds(message).max(1), kib.max(1)])
    }

    /// The other side of [`Group::time`].
    fn answer(&self, peer: usize) -> Result<()> {
        let mut small = [0_u8; 8];
        for _ in 0..WARM_UP + ROUNDS {
            self.recv(&mut small, peer, TAG)?;
            self.send(&small, peer, TAG)?;
        }
        for _ in 0..LARGES {
            for _ in 0..BURST {
                self.recv(&mut small, peer, TAG)?;
            }
            self.send(&small, peer, TAG)?;
        }
        let mut large = vec![0_u8; LARGE];
        for _ in 0..LARGES {
            self.recv(&mut large, peer, TAG)?;
            self.send(&small, peer, TAG)?;
        }
        Ok(())
    }
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times[times.len() / 2]
}

fn picoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos().saturating_mul(1000)).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use crate::tune::profile::Profile;

    #[test]
    fn all_ranks_get_the_same_prices_and_can_use_them() {
        let options = crate::InProcess::default();
        let threads: Vec<_> = crate::in_process(3, &options)
            .unwrap()
            .into_iter()
            .map(|group| std::thread::spawn(move || group.measure().unwrap()))
            .collect();
        let texts: Vec<String> = threads.into_iter().map(|t| t.join().unwrap()).collect();
        assert!(texts.iter().all(|text| *text == texts[0]));
        let profile = Profile::from_json(&texts[0], "measured").unwrap();
        assert_ne!(profile.memory, Profile::BUILT_IN.memory);
        assert!(profile.memory.latency_ps > 0 && profile.memory.kib_ps > 0);
        assert_eq!(profile.tcp, Profile::BUILT_IN.tcp, "what is not there is not measured");

        let path = std::env::temp_dir().join(format!("lycaon-profile-{}", std::process::id()));
        std::fs::write(&path, &texts[0]).unwrap();
        let with = crate::Config::builder().profile(&path).build();
        std::fs::remove_file(&path).unwrap();
        let (with, without) = (with.unwrap(), crate::Config::builder().build().unwrap());
        assert_eq!(*with.profile(), profile);
        assert_ne!(with.fingerprint(), without.fingerprint(), "all ranks have to have the same");
        let error = crate::Config::builder().profile(&path).build().unwrap_err().to_string();
        assert!(error.contains(path.to_str().unwrap()), "{error}");
    }

    #[test]
    fn a_group_of_one_has_nothing_to_measure() {
        let group = crate::in_process(1, &crate::InProcess::default()).unwrap().remove(0);
        assert_eq!(group.measure().unwrap(), Profile::BUILT_IN.to_json());
    }
}
