//! Groups within groups: ranks as a grid whose rows and columns are groups of their own.

use lycaon::{Op, Result};

/// Ranks in one row of the grid.
const WIDTH: usize = 2;

fn main() -> Result<()> {
    let group = lycaon::init()?;
    let rank = group.rank();
    let (row, column) = (rank / WIDTH, rank % WIDTH);

    // Ranks of one colour form a group; the key says their order in it.
    let across = group.split(row as u32, column as i64)?;
    let down = group.split(column as u32, row as i64)?;

    let mut row_sum = [rank as i32 + 1];
    across.all_reduce(&mut row_sum, Op::Sum)?;
    let mut column_sum = [rank as i32 + 1];
    down.all_reduce(&mut column_sum, Op::Sum)?;

    // A rank may stay out.
    let corner = group.split_optional((row == 0).then_some(0), 0)?;
    let corner = corner.map_or("stays out".to_owned(), |corner| {
        format!("is {} of {}", corner.rank(), corner.size())
    });

    println!(
        "rank {rank}: row {:?} sums to {}, column {:?} sums to {}; of the first row it {corner}",
        across.members(),
        row_sum[0],
        down.members(),
        column_sum[0],
    );
    Ok(())
}
