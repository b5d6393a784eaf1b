//! Every operation at every size, as one rank sees it.

use std::time::Duration;

use lycaon::Group;

use super::data::{Value, compare, contribution, reduction};

/// Bytes per rank: nothing, less than a frame of 4,096 bytes, around one and several, around the
/// powers of two that a chunk may have, a few chunks and one more.
const SIZES: [usize; 15] =
    [0, 1, 3, 4, 4095, 4096, 4097, 8191, 12_289, 16_385, 32_769, 65_535, 65_537, 131_073, 393_217];

/// Bytes of the longest buffers: several MiB, and not a whole number of anything.
const LARGE: usize = (2 << 20) + 4;

/// Runs the whole of it and returns how many results were compared.
pub(crate) fn run(group: &Group) -> Result<usize, String> {
    let mut checks = Checks { group, done: 0, salt: 1 };
    for (at, bytes) in SIZES.into_iter().enumerate() {
        checks.collectives::<u8>(bytes, bytes)?;
        checks.messages::<u8>(bytes)?;
        // Every other size is enough for the second type.
        if at % 2 == 1 {
            checks.collectives::<u32>(bytes / 4, bytes / 4)?;
        }
    }
    checks.collectives::<u32>(LARGE / 4, LARGE / 4 / group.size() + 1)?;
    checks.messages::<u32>(LARGE / 4)?;
    checks.changing_shapes()?;
    checks.order_of_tags()?;
    checks.background()?;
    checks.subgroups()?;
    Ok(checks.done)
}

/// A few sizes, each kind of operation.
pub(crate) fn run_some(group: &Group) -> Result<usize, String> {
    let mut checks = Checks { group, done: 0, salt: 1 };
    for bytes in [0, 5, 4097, 131_073, 393_217] {
        checks.collectives::<u8>(bytes, bytes)?;
        checks.messages::<u32>(bytes / 4)?;
    }
    Ok(checks.done)
}

struct Checks<'a> {
    group: &'a Group,
    done: usize,
    salt: usize,
}

type Outcome = Result<(), String>;

fn failed(what: &str) -> impl Fn(lycaon::Error) -> String + '_ {
    move |error| format!("{what}: {error}")
}

impl Checks<'_> {
    fn equal<T: Value>(&mut self, what: &str, got: &[T], want: &[T]) -> Outcome {
        self.done += 1;
        compare(what, got, want)
    }

    /// Each collective once: with `count` elements, or where there is a block per rank, with
    /// `block` elements in each.
    fn collectives<T: Value>(&mut self, count: usize, block: usize) -> Outcome {
        let group = self.group;
        let (rank, size) = (group.rank(), group.size());
        self.salt += 1;
        let salt = self.salt;
        let root = salt % size;
        let name = |operation: &str| format!("{operation} of {count} {}", T::DTYPE.name());
        let mine = contribution::<T>(rank, count, salt);
        let part = contribution::<T>(rank, block, salt);
        let wide = contribution::<T>(rank, block * size, salt);
        let sum = reduction::<T>(0..size, count, salt);
        let wide_sum = reduction::<T>(0..size, block * size, salt);
        let everybody: Vec<T> =
            (0..size).flat_map(|rank| contribution::<T>(rank, block, salt)).collect();
        let cut = |data: &[T], index: usize| data[index * block..(index + 1) * block].to_vec();

        let what = name("all_reduce");
        let mut data = mine.clone();
        group.all_reduce(&mut data, T::OP).map_err(failed(&what))?;
        self.equal(&what, &data, &sum)?;

        let what = name("all_reduce_into");
        let mut out = vec![T::UNTOUCHED; count];
        group.all_reduce_into(&mine, &mut out, T::OP).map_err(failed(&what))?;
        self.equal(&what, &out, &sum)?;

        let what = name("all_gather");
        let mut out = vec![T::UNTOUCHED; block * size];
        group.all_gather(&part, &mut out).map_err(failed(&what))?;
        self.equal(&what, &out, &everybody)?;

        let what = name("reduce_scatter");
        let mut out = vec![T::UNTOUCHED; block];
        group.reduce_scatter(&wide, &mut out, T::OP).map_err(failed(&what))?;
        self.equal(&what, &out, &cut(&wide_sum, rank))?;

        let what = name("broadcast");
        let mut data = mine.clone();
        group.broadcast(&mut data, root).map_err(failed(&what))?;
        self.equal(&what, &data, &contribution::<T>(root, count, salt))?;

        let what = name("reduce");
        let mut data = mine.clone();
        group.reduce(&mut data, T::OP, root).map_err(failed(&what))?;
        self.equal(&what, &data, if rank == root { &sum } else { &mine })?;

        let what = name("gather");
        let mut out = vec![T::UNTOUCHED; if rank == root { block * size } else { 0 }];
        let place = (rank == root).then_some(&mut out[..]);
        group.gather(&part, place, root).map_err(failed(&what))?;
        self.equal(&what, &out, if rank == root { &everybody } else { &[] })?;

        let what = name("scatter");
        let mut out = vec![T::UNTOUCHED; block];
        let from = (rank == root).then_some(&wide[..]);
        group.scatter(from, &mut out, root).map_err(failed(&what))?;
        self.equal(&what, &out, &cut(&contribution::<T>(root, block * size, salt), rank))?;

        let what = name("all_to_all");
        let mut out = vec![T::UNTOUCHED; block * size];
        group.all_to_all(&wide, &mut out).map_err(failed(&what))?;
        let want: Vec<T> = (0..size)
            .flat_map(|from| cut(&contribution::<T>(from, block * size, salt), rank))
            .collect();
        self.equal(&what, &out, &want)?;

        let what = name("scan");
        let mut data = mine.clone();
        group.scan(&mut data, T::OP).map_err(failed(&what))?;
        self.equal(&what, &data, &reduction::<T>(0..=rank, count, salt))?;

        group.barrier().map_err(failed("barrier"))?;
        self.uneven::<T>(count)
    }

    /// The collectives with counts that differ: nothing from one rank, most from the last.
    fn uneven<T: Value>(&mut self, count: usize) -> Outcome {
        let group = self.group;
        let (rank, size) = (group.rank(), group.size());
        let salt = self.salt;
        let root = (salt + 1) % size;
        let counts: Vec<usize> =
            (0..size).map(|rank| if rank == 0 { 0 } else { count / size + rank }).collect();
        let total: usize = counts.iter().sum();
        let before = |rank: usize| counts[..rank].iter().sum::<usize>();
        let name = |operation: &str| format!("{operation} of {counts:?} {}", T::DTYPE.name());
        let mine = contribution::<T>(rank, counts[rank], salt);
        let everybody: Vec<T> =
            (0..size).flat_map(|rank| contribution::<T>(rank, counts[rank], salt)).collect();
        let part =
            |data: &[T], rank: usize| data[before(rank)..before(rank) + counts[rank]].to_vec();

        let what = name("all_gather_v");
        let mut out = vec![T::UNTOUCHED; total];
        group.all_gather_v(&mine, &mut out, &counts).map_err(failed(&what))?;
        self.equal(&what, &out, &everybody)?;

        let what = name("reduce_scatter_v");
        let mut out = vec![T::UNTOUCHED; counts[rank]];
        let wide = contribution::<T>(rank, total, salt);
        group.reduce_scatter_v(&wide, &mut out, &counts, T::OP).map_err(failed(&what))?;
        self.equal(&what, &out, &part(&reduction::<T>(0..size, total, salt), rank))?;

        let what = name("gather_v");
        let mut out = vec![T::UNTOUCHED; if rank == root { total } else { 0 }];
        let place = (rank == root).then_some((&mut out[..], &counts[..]));
        group.gather_v(&mine, place, root).map_err(failed(&what))?;
        self.equal(&what, &out, if rank == root { &everybody } else { &[] })?;

        let what = name("scatter_v");
        let mut out = vec![T::UNTOUCHED; counts[rank]];
        let from = (rank == root).then_some((&wide[..], &counts[..]));
        group.scatter_v(from, &mut out, root).map_err(failed(&what))?;
        self.equal(&what, &out, &part(&contribution::<T>(root, total, salt), rank))?;

        // Rank i sends counts[j] elements to rank j, and so gets counts[i] from everybody.
        let what = name("all_to_all_v");
        let mut out = vec![T::UNTOUCHED; counts[rank] * size];
        let from = vec![counts[rank]; size];
        group.all_to_all_v(&wide, &counts, &mut out, &from).map_err(failed(&what))?;
        let want: Vec<T> = (0..size)
            .flat_map(|sender| part(&contribution::<T>(sender, total, salt), rank))
            .collect();
        self.equal(&what, &out, &want)
    }

    /// Messages between all pairs: round the ring at every distance, and one way with an early
    /// sender and with an early receiver.
    fn messages<T: Value>(&mut self, count: usize) -> Outcome {
        let group = self.group;
        let (rank, size) = (group.rank(), group.size());
        self.salt += 1;
        let salt = self.salt;
        let mine = contribution::<T>(rank, count, salt);
        for distance in 1..size {
            let (to, from) = ((rank + distance) % size, (rank + size - distance) % size);
            let what = format!("send_recv of {count} {} over {distance}", T::DTYPE.name());
            let mut out = vec![T::UNTOUCHED; count];
            group.send_recv(&mine, to, &mut out, from, distance as u32).map_err(failed(&what))?;
            self.equal(&what, &out, &contribution::<T>(from, count, salt))?;
        }
        let last = size - 1;
        let what = format!("send and recv of {count} {}", T::DTYPE.name());
        if rank == 0 {
            group.send(&mine, last, 7).map_err(failed(&what))?;
            let mut out = vec![T::UNTOUCHED; count];
            group.recv(&mut out, last, 8).map_err(failed(&what))?;
            self.equal(&what, &out, &contribution::<T>(last, count, salt))?;
        } else if rank == last {
            let mut out = vec![T::UNTOUCHED; count];
            group.recv(&mut out, 0, 7).map_err(failed(&what))?;
            self.equal(&what, &out, &contribution::<T>(0, count, salt))?;
            group.send(&mine, 0, 8).map_err(failed(&what))?;
        }
        Ok(())
    }

    /// Messages of changing lengths straight after one another, more than are on the way at once.
    fn changing_shapes(&mut self) -> Outcome {
        let (rank, size) = (self.group.rank(), self.group.size());
        let (to, from) = ((rank + 1) % size, (rank + size - 1) % size);
        for step in 0..200 {
            self.salt += 1;
            let count = [1, 5000, 0, 64, 4096, 20_001, 2, 9000][step % 8];
            let what = format!("message {step} of changing shapes");
            let data = contribution::<u8>(rank, count, self.salt);
            let mut out = vec![u8::UNTOUCHED; count];
            self.group.send_recv(&data, to, &mut out, from, 9).map_err(failed(&what))?;
            self.equal(&what, &out, &contribution::<u8>(from, count, self.salt))?;
        }
        Ok(())
    }

    /// What was sent first is asked for last: a message nobody asks for holds up no other.
    fn order_of_tags(&mut self) -> Outcome {
        let (rank, size) = (self.group.rank(), self.group.size());
        for (tag, wait) in [(20, 0), (40, 30)] {
            self.salt += 1;
            let (salt, count) = (self.salt, 3001);
            if rank == 0 {
                for index in 0..4 {
                    let data = contribution::<u8>(index as usize, count, salt);
                    for to in 1..size {
                        self.group.send(&data, to, tag + index).map_err(failed("send by tag"))?;
                    }
                }
            } else {
                std::thread::sleep(Duration::from_millis(wait));
                for index in (0..4).rev() {
                    let mut out = vec![u8::UNTOUCHED; count];
                    self.group.recv(&mut out, 0, tag + index).map_err(failed("recv by tag"))?;
                    let want = contribution::<u8>(index as usize, count, salt);
                    self.equal(&format!("tag {}", tag + index), &out, &want)?;
                }
            }
        }
        self.group.barrier().map_err(failed("barrier"))
    }

    /// Several operations on the group's own thread while messages move on this one.
    fn background(&mut self) -> Outcome {
        let group = self.group;
        let (rank, size) = (group.rank(), group.size());
        let counts = [1, 70_000, 333, 100_001];
        let salt = self.salt + 1;
        self.salt += counts.len();
        let start = |(index, count): (usize, &usize)| {
            group.all_reduce_async(contribution::<u32>(rank, *count, salt + index), u32::OP)
        };
        let works: Result<Vec<_>, _> = counts.iter().enumerate().map(start).collect();
        let works = works.map_err(failed("all_reduce_async"))?;
        self.messages::<u8>(50_000)?;
        for ((index, count), work) in counts.iter().enumerate().zip(works) {
            let got = work.wait().map_err(failed("all_reduce_async"))?;
            let want = reduction::<u32>(0..size, *count, salt + index);
            self.equal("all_reduce_async", &got, &want)?;
        }
        Ok(())
    }

    /// Even and odd ranks on their own, and the whole group between.
    fn subgroups(&mut self) -> Outcome {
        let (rank, size) = (self.group.rank(), self.group.size());
        let half = self.group.split((rank % 2) as u32, -(rank as i64)).map_err(failed("split"))?;
        let members: Vec<usize> = (0..size).filter(|other| other % 2 == rank % 2).rev().collect();
        for count in [3, 30_000] {
            self.salt += 1;
            let mut data = contribution::<u32>(rank, count, self.salt);
            half.all_reduce(&mut data, u32::OP).map_err(failed("all_reduce of a part"))?;
            let want = reduction::<u32>(members.iter().copied(), count, self.salt);
            self.equal("all_reduce of a part", &data, &want)?;
            let mut data = contribution::<u32>(rank, count, self.salt);
            self.group.all_reduce(&mut data, u32::OP).map_err(failed("all_reduce"))?;
            let want = reduction::<u32>(0..size, count, self.salt);
            self.equal("all_reduce between", &data, &want)?;
        }
        Ok(())
    }
}
