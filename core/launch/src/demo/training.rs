//! A linear model fitted by gradient descent, with the samples shared out among the ranks.

use super::steps::noise;

/// Numbers that describe a sample.
const FEATURES: usize = 8;
/// Samples of each rank.
const SAMPLES: usize = 1024;
/// Steps of the descent.
pub(super) const STEPS: usize = 64;
const RATE: f64 = 0.4;

/// The weights of the model.
pub(super) type Weights = [f64; FEATURES];

/// The samples of one rank: what is known of each, and what is to be predicted.
pub(super) struct Shard {
    samples: Vec<(Weights, f64)>,
}

impl Shard {
    pub(super) fn of(rank: usize) -> Self {
        let sample = |number: usize| {
            let place = (rank * SAMPLES + number) * (FEATURES + 1);
            let known: Weights = std::array::from_fn(|at| noise(place + at));
            let truth: f64 =
                known.iter().enumerate().map(|(at, value)| value * (at as f64 - 3.5)).sum();
            (known, truth + 0.1 * noise(place + FEATURES))
        };
        Shard { samples: (0..SAMPLES).map(sample).collect() }
    }

    /// The mean squared error and its gradient.
    pub(super) fn gradient(&self, weights: &Weights) -> (f64, Weights) {
        let (mut loss, mut gradient) = (0.0, [0.0; FEATURES]);
        for (known, truth) in &self.samples {
            let predicted: f64 = known.iter().zip(weights).map(|(a, b)| a * b).sum();
            let error = predicted - truth;
            loss += error * error / SAMPLES as f64;
            for (into, value) in gradient.iter_mut().zip(known) {
                *into += 2.0 * error * value / SAMPLES as f64;
            }
        }
        (loss, gradient)
    }
}

/// Goes down the gradient that `gradient` gives for the weights; gives the losses on the way.
pub(super) fn descend<E>(
    mut gradient: impl FnMut(&Weights) -> Result<(f64, Weights), E>,
) -> Result<(Weights, Vec<f64>), E> {
    let mut weights = [0.0; FEATURES];
    let mut losses = Vec::with_capacity(STEPS);
    for _ in 0..STEPS {
        let (loss, gradient) = gradient(&weights)?;
        losses.push(loss);
        for (weight, slope) in weights.iter_mut().zip(&gradient) {
            *weight -= RATE * slope;
        }
    }
    Ok((weights, losses))
}

/// The same by one process that has all samples.
pub(super) fn alone(ranks: usize) -> Weights {
    let shards: Vec<_> = (0..ranks).map(Shard::of).collect();
    let gradient = |weights: &Weights| {
        let (mut loss, mut mean) = (0.0, [0.0; FEATURES]);
        for shard in &shards {
            let (part, slopes) = shard.gradient(weights);
            loss += part / ranks as f64;
            for (into, slope) in mean.iter_mut().zip(slopes) {
                *into += slope / ranks as f64;
            }
        }
        Ok::<_, std::convert::Infallible>((loss, mean))
    };
    match descend(gradient) {
        Ok((weights, _)) => weights,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_descent_finds_the_weights() {
        let weights = alone(3);
        for (at, weight) in weights.iter().enumerate() {
            assert!((weight - (at as f64 - 3.5)).abs() < 0.02, "{weights:?}");
        }
    }

    #[test]
    fn ranks_have_different_samples() {
        let (first, second) = (Shard::of(0), Shard::of(1));
        assert!(first.samples.iter().all(|sample| !second.samples.contains(sample)));
    }
}
